"""Extensions of the contract that this server's engines cannot carry out: refused by name, never dropped."""

from __future__ import annotations

from generated.models import ChatCompletionRequest, CompletionRequest
from handlers.errors import refused


def refuse_response_format(body: ChatCompletionRequest | CompletionRequest) -> None:
    """Refuse a form of the answer's text that nothing would hold the answer to.

    Raises:
        Problem: 422 unsupported, naming response_format.
    """
    wanted = body.response_format
    if wanted is not None and wanted.type != "text":
        message = (
            f'response_format can be of type "text" only here, not "{wanted.type}": answers are not held to a form'
        )
        raise refused("unsupported", message, "response_format")


def refuse_thinking_budget(body: ChatCompletionRequest) -> None:
    """Refuse a bound on the chain of thought that nothing would keep.

    Raises:
        Problem: 422 unsupported, naming chat_template_kwargs.thinking_budget.
    """
    kwargs = body.chat_template_kwargs
    if kwargs is not None and kwargs.thinking_budget is not None:
        param = "chat_template_kwargs.thinking_budget"
        raise refused("unsupported", f"{param} is not supported here: this engine cannot end a thought early", param)
