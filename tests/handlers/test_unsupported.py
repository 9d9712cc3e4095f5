"""What the engines cannot carry out is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from generated.models import ChatCompletionRequest
from handlers.errors import Problem
from handlers.unsupported import refuse_thinking_budget


def chat(**members: Any) -> ChatCompletionRequest:
    """A validated chat request."""
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], **members})
    return ChatCompletionRequest.model_validate_json(raw)


def test_a_bound_on_thinking_is_refused_by_name() -> None:
    """A thought that could not be ended is not promised an end."""
    with pytest.raises(Problem) as caught:
        refuse_thinking_budget(chat(chat_template_kwargs={"thinking_budget": 9}))
    assert (caught.value.code, caught.value.param) == ("unsupported", "chat_template_kwargs.thinking_budget")


def test_other_variables_of_the_template_pass() -> None:
    """Only the bound is refused."""
    refuse_thinking_budget(chat(chat_template_kwargs={"enable_thinking": True}))
