"""The bound that a request sets on the chain of thought, as the engine keeps it, or the reason why it cannot."""

from __future__ import annotations

from typing import Final

from engine.text.reasoning import thinking_family
from engine.types import AnswerForm, ThinkingBudget
from generated.models import ChatCompletionRequest
from handlers.errors import Problem, refused
from handlers.service import Service

PARAM: Final = "chat_template_kwargs.thinking_budget"


def thinking_budget(service: Service, body: ChatCompletionRequest, form: AnswerForm | None) -> ThinkingBudget | None:
    """What the engine is told; None without a bound, or where the prompt leaves no room for a thought.

    Args:
        service: the deployment.
        body: the request.
        form: how its answer is taken apart.

    Raises:
        Problem: 422 unsupported, naming the bound: the model does not think, or nothing here can end its thought.
    """
    kwargs = body.chat_template_kwargs
    if kwargs is None or kwargs.thinking_budget is None:
        return None
    family = None if form is None or form.thinking is None else thinking_family(form.thinking)
    if form is None or family is None:
        raise _unsupported("this deployment tells no thinking apart from its answers")
    if body.use_beam_search:
        raise _unsupported("the thoughts of a beam search are not bounded; leave out use_beam_search")
    if form.thinking_open is False:
        return None
    ids = {text: token_id for token_id, text in service.front.tokenizer.added_tokens.items()}
    if family.opening not in ids or family.closing not in ids:
        raise _unsupported(f"{family.closing} is not one token of this model, so that no thought can be ended with it")
    begun = family.always if form.thinking_open is None else form.thinking_open
    ending = _ending(service, family.closing, ids[family.closing])
    return ThinkingBudget(kwargs.thinking_budget, ids[family.opening], ids[family.closing], begun, ending)


def _ending(service: Service, closing: str, closing_id: int) -> tuple[int, ...]:
    """The tokens of the deployment's early_stopping_text up to the closing mark, which is added where it lacks."""
    text = (service.settings.early_stopping_text or "").partition(closing)[0]
    if not text:
        return ()
    return (*service.front.tokenizer.encode(text, add_special_tokens=False, parse_special=False), closing_id)


def _unsupported(reason: str) -> Problem:
    return refused("unsupported", f"{PARAM} is not supported here: {reason}", PARAM)
