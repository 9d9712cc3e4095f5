"""Extensions of the contract that this server's engines cannot carry out: refused by name, never dropped."""

from __future__ import annotations

from generated.models import ChatCompletionRequest
from handlers.errors import refused


def refuse_thinking_budget(body: ChatCompletionRequest) -> None:
    """Refuse a bound on the chain of thought that nothing would keep.

    Raises:
        Problem: 422 unsupported, naming chat_template_kwargs.thinking_budget.
    """
    kwargs = body.chat_template_kwargs
    if kwargs is not None and kwargs.thinking_budget is not None:
        param = "chat_template_kwargs.thinking_budget"
        raise refused("unsupported", f"{param} is not supported here: this engine cannot end a thought early", param)
