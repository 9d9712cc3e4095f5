"""Whole chat answers and the one event of streamed beams, from gathered choices with thinking and calls."""

from __future__ import annotations

from typing import Any

from engine.types import CallPiece, ChoiceDelta, Stats
from handlers.chat import beam_chunk, whole_answer
from handlers.running import Gathered
from handlers.stream import AnswerHead

HEAD = AnswerHead(id="r", created=1700000000, model="m")
STATS = Stats(prompt_tokens=7, batch_size=[2, 2, 1], queue_wait_us=[5, 4, 3], round_ms=[9.0, 1.0, 1.0])


def gathered(*deltas: ChoiceDelta) -> Gathered:
    """A choice of these deltas."""
    choice = Gathered()
    for delta in deltas:
        choice.add(delta)
    return choice


def new_id() -> str:
    """An id that can be known."""
    return "call_x"


THOUGHT = gathered(
    ChoiceDelta(0, "", 1, reasoning="Hm"),
    ChoiceDelta(0, "Yes", 1, reasoning="."),
    ChoiceDelta(0, "", 1, finish_reason="stop", reasoning_tokens=2),
)
CALLED = gathered(
    ChoiceDelta(1, "", 1, calls=[CallPiece(0, "f", ""), CallPiece(0, None, '{"a"')]),
    ChoiceDelta(1, "", 1, calls=[CallPiece(0, None, ": 1}"), CallPiece(1, "g", "{}")]),
    ChoiceDelta(1, "", 0, finish_reason="tool_calls", reasoning_tokens=0),
)
CALLS: list[dict[str, Any]] = [
    {"function": {"arguments": '{"a": 1}', "name": "f"}, "id": "call_x", "type": "function"},
    {"function": {"arguments": "{}", "name": "g"}, "id": "call_x", "type": "function"},
]


def test_a_message_has_reasoning_only_where_there_was_thinking() -> None:
    """Between content and tool_calls; the calls are put together from their pieces."""
    answer = whole_answer(HEAD, [THOUGHT, CALLED], STATS, new_id).wire()

    first, second = (choice["message"] for choice in answer["choices"])
    assert list(first.items()) == [
        ("role", "assistant"),
        ("content", "Yes"),
        ("reasoning_content", "Hm."),
        ("tool_calls", []),
    ]
    assert list(second.items()) == [("role", "assistant"), ("content", ""), ("tool_calls", CALLS)]
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop", "tool_calls"]


def test_usage_sums_thinking_over_the_choices() -> None:
    """5 tokens of both, 2 of them thinking; without thinking models the member is left out."""
    counted = whole_answer(HEAD, [THOUGHT, CALLED], STATS, new_id).wire()["usage"]
    plain = gathered(ChoiceDelta(0, "Yes", 1, finish_reason="stop"))

    assert (counted["completion_tokens"], counted["completion_tokens_details"]) == (5, {"reasoning_tokens": 2})
    assert "completion_tokens_details" not in whole_answer(HEAD, [plain], STATS, new_id).wire()["usage"]


def test_the_event_of_streamed_beams_has_thinking_in_delta_and_message() -> None:
    """As the text has it."""
    (choice,) = beam_chunk(HEAD, [THOUGHT], STATS, new_id).wire()["choices"]

    assert choice["delta"] == {"role": "assistant", "content": "Yes", "reasoning_content": "Hm."}
    assert choice["message"]["reasoning_content"] == "Hm."
