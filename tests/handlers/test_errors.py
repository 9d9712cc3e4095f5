"""Error bodies in both forms."""

from __future__ import annotations

import json

import pytest

from engine.types import EngineError
from handlers.errors import Problem, from_engine, internal, refused


def test_the_flat_body_has_four_members_in_order() -> None:
    """MindIE's two members come first, then what there is to act on."""
    body = refused("out_of_range", "n was given 0; it must be 1 or more", "n").body(openai_form=False)

    assert list(body.items()) == [
        ("error", "n was given 0; it must be 1 or more"),
        ("error_type", "Input Validation Error"),
        ("param", "n"),
        ("code", "out_of_range"),
    ]


def test_openais_form_nests_the_same_values() -> None:
    """OpenAI's shape has message, type, param and code inside error."""
    body = Problem(404, "not_found", "There is nothing at this path").body(openai_form=True)

    assert body == {
        "error": {
            "message": "There is nothing at this path",
            "type": "NotFoundError",
            "param": None,
            "code": "not_found",
        }
    }


def test_a_late_failure_is_one_event_and_the_end() -> None:
    """The event has the nested error and, beside it, MindIE's error_type; [DONE] follows."""
    event, done, rest = internal().event().decode().split("\n\n")

    assert json.loads(event.removeprefix("data: "))["error_type"] == "Incomplete Generation"
    assert json.loads(event.removeprefix("data: "))["error"]["code"] == "internal"
    assert (done, rest) == ("data: [DONE]", "")


@pytest.mark.parametrize(
    ("code", "status", "retry"),
    [
        ("loading", 503, "7"),
        ("stopping", 503, "7"),
        ("engine_down", 503, "7"),
        ("queue_full", 429, "7"),
        ("timeout", 500, None),
        ("internal", 500, None),
    ],
)
def test_engine_failures_have_their_status(code: str, status: int, retry: str | None) -> None:
    """Unavailability and full queues tell when to come back, failures do not."""
    problem = from_engine(EngineError(code, "Why."), 7)  # type: ignore[arg-type] # the parameter is a plain str here

    assert (problem.status, problem.code, problem.headers.get("Retry-After")) == (status, code, retry)
