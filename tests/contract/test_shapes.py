"""The shape checks themselves: they accept the documents' answers and refuse each spoiled copy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from samples import BEAM_EVENT, FIRST_ANSWER, SECOND_ANSWER
from shapes import check_best_first, check_chat, check_completion
from stream_shapes import check_chat_stream, check_completion_beams_stream, check_stream_error

Json = dict[str, Any]
Spoil = Callable[[Json], object]


@pytest.mark.parametrize("answer", [FIRST_ANSWER, SECOND_ANSWER], ids=["first-turn", "second-turn"])
def test_documented_chat_answers_have_the_shape(answer: Json) -> None:
    """The multi-turn answers of the documents pass the chat check."""
    check_chat(answer, model="Qwen3-30B-A3B")


def test_documented_beam_event_has_the_shape() -> None:
    """The completions stream sample passes the check of beams, offsets 0 and 13 included."""
    check_completion_beams_stream([BEAM_EVENT], model="Qwen2.5-7B-Instruct", choices=2, top=2)


def move_last(mapping: Json, name: str) -> None:
    """Put a key at the end."""
    mapping[name] = mapping.pop(name)


CHAT_SPOILS: list[Spoil] = [
    lambda answer: answer.pop("id"),
    lambda answer: move_last(answer, "created"),
    lambda answer: answer.update(object="chat.completion.chunk"),
    lambda answer: answer.update(created=1768210927000),
    lambda answer: answer.update(system_fingerprint=None),
    lambda answer: answer["choices"][0].pop("logprobs"),
    lambda answer: answer["choices"][0].update(index=1),
    lambda answer: answer["choices"][0].update(finish_reason="eos_token"),
    lambda answer: answer["choices"][0].update(finish_reason=None),
    lambda answer: answer["choices"][0]["message"].update(tool_calls=None),
    lambda answer: answer["choices"][0]["message"].pop("tool_calls"),
    lambda answer: answer["choices"][0]["message"].update(role="user"),
    lambda answer: answer["usage"].update(total_tokens=47),
    lambda answer: answer["usage"]["batch_size"].append(1),
    lambda answer: answer["usage"]["queue_wait_time"].__setitem__(0, 1.5),
    lambda answer: answer["usage"]["batch_size"].__setitem__(0, 0),
    lambda answer: answer["usage"]["prompt_tokens_details"].update(cached_tokens=46),
    lambda answer: answer["decode_time_arr"].append(1),
    lambda answer: move_last(answer, "usage"),
]


@pytest.mark.parametrize("spoil", CHAT_SPOILS, ids=range(len(CHAT_SPOILS)))
def test_a_spoiled_chat_answer_is_noticed(spoil: Spoil) -> None:
    """Each single departure from the contract fails the chat check."""
    answer = copy.deepcopy(FIRST_ANSWER)
    spoil(answer)
    with pytest.raises(AssertionError):
        check_chat(answer, model="Qwen3-30B-A3B")


BEAM_SPOILS: list[Spoil] = [
    lambda event: event["choices"][1]["logprobs"]["text_offset"].__setitem__(0, 0),
    lambda event: event["choices"][0]["logprobs"]["text_offset"].__setitem__(1, 2),
    lambda event: event["choices"][0]["logprobs"]["tokens"].pop(),
    lambda event: event["choices"][0]["logprobs"]["token_logprobs"].__setitem__(0, 0.5),
    lambda event: move_last(event["choices"][0]["logprobs"]["top_logprobs"][0], "\n"),
    lambda event: event["choices"][0]["logprobs"]["top_logprobs"][0].update({"a": -3.0, "b": -4.0}),
    lambda event: event["choices"][0].pop("stop_reason"),
    lambda event: event["choices"][0].update(stop_reason="x"),
    lambda event: event["choices"][0].update(finish_reason="tool_calls"),
    lambda event: event["usage"].update(completion_tokens=9, total_tokens=12),
    lambda event: event["choices"].pop(),
    lambda event: move_last(event, "choices"),
]


@pytest.mark.parametrize("spoil", BEAM_SPOILS, ids=range(len(BEAM_SPOILS)))
def test_a_spoiled_beam_event_is_noticed(spoil: Spoil) -> None:
    """Each single departure fails the check of completions beams."""
    event = copy.deepcopy(BEAM_EVENT)
    spoil(event)
    with pytest.raises(AssertionError):
        check_completion_beams_stream([event], model="Qwen2.5-7B-Instruct", choices=2, top=2)


def test_choices_out_of_order_are_noticed() -> None:
    """The beams' means are -0.48 and -0.54; the other way round they are not best first."""
    check_best_first(BEAM_EVENT)
    swapped = {**BEAM_EVENT, "choices": BEAM_EVENT["choices"][::-1]}
    with pytest.raises(AssertionError, match="descend"):
        check_best_first(swapped)


def test_a_beam_event_is_also_a_whole_answer() -> None:
    """Whole and beam answers share their keys, so the whole check accepts the event."""
    check_completion(BEAM_EVENT, choices=2, top=2)


def chat_events() -> list[Json]:
    """A stream of one choice and two tokens, in the contract's form."""
    head = {"id": "endpoint_common_7", "object": "chat.completion.chunk", "created": 1729614349, "model": "m"}
    usage = {
        "prompt_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens": 2,
        "total_tokens": 7,
        "batch_size": [1, 1],
        "queue_wait_time": [9, 8],
    }

    def choice(content: str, finish: str | None) -> list[Json]:
        return [
            {
                "index": 0,
                "delta": {"role": "assistant", "content": content},
                "logprobs": None,
                "finish_reason": finish,
            }
        ]

    return [
        {**head, "choices": choice("", None)},
        {**head, "choices": choice("Hel", None)},
        {**head, "usage": usage, "choices": choice("lo", "stop")},
    ]


def test_a_chat_stream_has_the_shape() -> None:
    """The text of the deltas is joined."""
    assert check_chat_stream(chat_events(), model="m") == ["Hello"]


STREAM_SPOILS: list[Callable[[list[Json]], object]] = [
    lambda events: events.pop(0),
    lambda events: events.append(copy.deepcopy(events[-1])),
    lambda events: events[1].update(id="endpoint_common_8"),
    lambda events: events[1]["choices"][0].update(finish_reason="stop"),
    lambda events: events[1]["choices"][0]["delta"].pop("role"),
    lambda events: events[2].pop("usage"),
    lambda events: move_last(events[2], "usage"),
    lambda events: events[2]["usage"]["batch_size"].append(1),
    lambda events: events[1].update(choices=[]),
    lambda events: events[0]["choices"][0]["delta"].update(content="H"),
]


@pytest.mark.parametrize("spoil", STREAM_SPOILS, ids=range(len(STREAM_SPOILS)))
def test_a_spoiled_chat_stream_is_noticed(spoil: Callable[[list[Json]], object]) -> None:
    """Each single departure fails the stream check."""
    events = chat_events()
    spoil(events)
    with pytest.raises(AssertionError):
        check_chat_stream(events, model="m")


def test_a_failed_stream_that_looks_finished_is_noticed() -> None:
    """An error event after a normal finish would let a client believe the text is whole."""
    error = {
        "error": {"message": "The engine stopped.", "type": "Incomplete Generation", "param": None, "code": "x"},
        "error_type": "Incomplete Generation",
    }
    assert check_stream_error([*chat_events()[:2], error], "engine")["code"] == "x"
    with pytest.raises(AssertionError):
        check_stream_error([*chat_events(), error], "engine")
