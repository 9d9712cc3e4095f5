"""thinking_budget reaches the engine where it can be kept, and is refused by name where it cannot."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.text.byte_tokenizer import mock_tokenizer
from engine.types import AnswerForm, ThinkingBudget
from generated.models import ChatCompletionRequest
from handlers.errors import Problem
from handlers.service import Service
from handlers.settings import Settings
from handlers.thinking_budget import PARAM, thinking_budget

TOKENIZER = mock_tokenizer(special_tokens=("<think>", "</think>"))
IDS = {text: token_id for token_id, text in TOKENIZER.added_tokens.items()}


def service(*, tokenizer: Any = TOKENIZER, text: str | None = None) -> Service:
    """As much of a deployment as is asked."""
    settings = Settings(model_name="m", early_stopping_text=text)
    front = SimpleNamespace(tokenizer=tokenizer)
    return cast(Service, SimpleNamespace(front=front, settings=settings))


def chat(**members: Any) -> ChatCompletionRequest:
    """A validated chat request."""
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], **members})
    return ChatCompletionRequest.model_validate_json(raw)


BOUNDED = chat(chat_template_kwargs={"thinking_budget": 9})


@pytest.mark.parametrize(
    ("family", "prompt_open", "begun"),
    [("qwen3", None, False), ("qwen3", True, True), ("deepseek_r1", None, True)],
)
def test_the_engine_is_told_the_marks_and_where_the_thought_begins(
    family: str, prompt_open: bool | None, begun: bool
) -> None:
    """Begun by the prompt, by a family that always thinks, or not yet."""
    form = AnswerForm(thinking=family, thinking_open=prompt_open)
    found = thinking_budget(service(), BOUNDED, form)
    assert found == ThinkingBudget(9, IDS["<think>"], IDS["</think>"], begun)


@pytest.mark.parametrize("text", ["Enough.", "Enough.</think>", "Enough.</think>\n\n"])
def test_the_deployments_text_ends_with_the_closing_mark(text: str) -> None:
    """The mark is added where it lacks, and what comes after it is left to the model."""
    found = thinking_budget(service(text=text), BOUNDED, AnswerForm(thinking="qwen3", thinking_open=True))
    assert found is not None
    assert TOKENIZER.decode(found.ending_ids, skip_special_tokens=False) == "Enough.</think>"
    assert found.ending_ids[-1] == IDS["</think>"]


def test_a_prompt_that_closed_the_thought_needs_no_bound() -> None:
    """There will be no thought."""
    assert thinking_budget(service(), BOUNDED, AnswerForm(thinking="qwen3", thinking_open=False)) is None


def test_a_request_without_a_bound_has_none() -> None:
    """Other template variables do not matter."""
    assert thinking_budget(service(), chat(chat_template_kwargs={"enable_thinking": True}), None) is None


@pytest.mark.parametrize(
    ("form", "tokenizer", "beams", "reason"),
    [
        (None, TOKENIZER, False, "tells no thinking apart"),
        (AnswerForm(thinking="qwen3"), mock_tokenizer(), False, "is not one token"),
        (AnswerForm(thinking="qwen3"), TOKENIZER, True, "leave out use_beam_search"),
    ],
)
def test_a_bound_that_cannot_be_kept_is_refused_by_name(
    form: AnswerForm | None, tokenizer: Any, beams: bool, reason: str
) -> None:
    """No thinking family, a mark of several tokens, beams."""
    body = chat(
        chat_template_kwargs={"thinking_budget": 9},
        **({"use_beam_search": True, "n": 2, "temperature": 0} if beams else {}),
    )
    with pytest.raises(Problem, match=reason) as caught:
        thinking_budget(service(tokenizer=tokenizer), body, form)
    assert (caught.value.code, caught.value.param) == ("unsupported", PARAM)
