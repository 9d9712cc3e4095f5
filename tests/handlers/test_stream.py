"""Events: their order, and bytes that the generated models would write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from engine.types import CallPiece, ChoiceDelta, Stats, TokenCandidate, TokenText
from generated.models import ChatCompletionChunk, CompletionChunk
from handlers.stream import AnswerHead, ChatEncoder, CompletionEncoder, Encoder

HEAD = AnswerHead(id='req "1"\\', created=1700000000, model="模型")
STATS = Stats(
    prompt_tokens=7, cached_tokens=2, batch_size=[3, 2, 1, 1], queue_wait_us=[50, 4, 3, 2], round_ms=[9, 1, 1, 1]
)
AWKWARD = 'a"\\\n\t\x00\x7f\u2028é😀</script>'


def token(text: str, logprob: float = -0.5, offset: int = 0) -> TokenText:
    """A token whose only rival is "z"."""
    chosen = TokenCandidate(5, text, text.encode(), logprob)
    return TokenText(chosen, [chosen, TokenCandidate(6, "z", b"z", -2.0)], offset)


def chat_encoder(count: int = 1, **options: Any) -> ChatEncoder:
    """A chat encoder in MindIE's form unless told otherwise."""
    chosen = {"openai_form": False, "full_text": False, "new_call_id": lambda: "call_12345678", **options}
    return ChatEncoder(HEAD, count, STATS, **chosen)


def events(encoder: Encoder, *rounds: Sequence[ChoiceDelta]) -> list[bytes]:
    """The data of all events."""
    stream = encoder.opening() + b"".join(map(encoder.round, rounds)) + encoder.closing()
    assert stream.endswith(b"\n\n")
    parts = stream[:-2].split(b"\n\n")
    assert all(part.startswith(b"data: ") for part in parts)
    return [part[len(b"data: ") :] for part in parts]


ROUNDS = (
    [ChoiceDelta(0, AWKWARD, 1), ChoiceDelta(1, "one", 1)],
    [ChoiceDelta(0, "", 1, tokens=[token("é")]), ChoiceDelta(1, "x", 1, tokens=[token("x", -1e-7)])],
    [ChoiceDelta(0, "end", 1, finish_reason="length"), ChoiceDelta(1, "", 1)],
    [ChoiceDelta(1, "!", 1, tokens=[token("!")], finish_reason="stop", stop_reason="STOP")],
)
TOOL_ROUNDS = (
    [ChoiceDelta(0, "", 1, reasoning=AWKWARD)],
    [ChoiceDelta(0, "", 1, reasoning="so", tokens=[token("so")])],
    [ChoiceDelta(0, "Hm.", 2, reasoning="!", tokens=[token("!"), token("Hm.")])],
    [ChoiceDelta(0, "", 1, calls=[CallPiece(0, "f", "")])],
    [ChoiceDelta(0, "", 1, calls=[CallPiece(0, None, '{"a": "é"')])],
    [
        ChoiceDelta(
            0,
            "Then",
            3,
            calls=[CallPiece(0, None, "}"), CallPiece(1, "g", "{}")],
            finish_reason="tool_calls",
            reasoning_tokens=3,
        )
    ],
)


@pytest.mark.parametrize("openai_form", [False, True])
@pytest.mark.parametrize("full_text", [False, True])
@pytest.mark.parametrize("rounds", [ROUNDS, TOOL_ROUNDS])
def test_chat_events_are_what_the_models_write(openai_form: bool, full_text: bool, rounds: Any) -> None:
    """Reading an event into the chunk model and writing it again gives the same bytes."""
    encoder = chat_encoder(2, openai_form=openai_form, full_text=full_text)

    for event in events(encoder, *rounds):
        assert ChatCompletionChunk.model_validate_json(event).wire_json().encode() == event


def test_completion_events_are_what_the_models_write() -> None:
    """The same for completions, stop_reason as a text, as a number and as null."""
    by_number = [ChoiceDelta(0, "", 1, finish_reason="stop", stop_reason=13)]

    for event in events(CompletionEncoder(HEAD, 2, STATS), *ROUNDS) + events(
        CompletionEncoder(HEAD, 1, STATS), by_number
    ):
        assert CompletionChunk.model_validate_json(event).wire_json().encode() == event


def parsed(encoder: Encoder, *rounds: Sequence[ChoiceDelta]) -> list[dict[str, Any]]:
    """All events as values."""
    return [json.loads(event) for event in events(encoder, *rounds)]


def test_each_choice_opens_with_its_role_and_empty_content() -> None:
    """All choices open before the first text."""
    first, second, third = parsed(chat_encoder(2), [ChoiceDelta(1, "Hi", 1)])

    assert first["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ]
    assert second["choices"][0]["index"] == 1
    assert third["choices"][0]["delta"] == {"role": "assistant", "content": "Hi"}


def test_openais_form_has_the_role_once() -> None:
    """Only the opening event carries it."""
    opening, text, last = parsed(
        chat_encoder(openai_form=True), [ChoiceDelta(0, "Hi", 1)], [ChoiceDelta(0, "!", 1, finish_reason="stop")]
    )

    assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert text["choices"][0]["delta"] == {"content": "Hi"}
    assert last["choices"][0]["delta"] == {"content": "!"}


def test_the_last_event_of_a_choice_has_its_own_usage_before_choices() -> None:
    """Its own tokens, and lists as long as it ran, although the request has gone on."""
    last = parsed(chat_encoder(), [ChoiceDelta(0, "a", 1)], [ChoiceDelta(0, "b", 1, finish_reason="length")])[-1]

    assert list(last) == ["id", "object", "created", "model", "usage", "choices"]
    assert last["usage"] == {
        "prompt_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens": 2,
        "total_tokens": 9,
        "batch_size": [3, 2],
        "queue_wait_time": [50, 4],
    }


def test_full_text_is_cumulative_and_closes_with_the_whole() -> None:
    """Each content repeats the text so far; full_text stands before usage in the last event."""
    found = parsed(
        chat_encoder(full_text=True), [ChoiceDelta(0, "a", 1)], [ChoiceDelta(0, "b", 1, finish_reason="stop")]
    )

    assert [event["choices"][0]["delta"]["content"] for event in found] == ["", "a", "ab"]
    assert list(found[-1]) == ["id", "object", "created", "model", "full_text", "usage", "choices"]
    assert found[-1]["full_text"] == "ab"
    assert all("full_text" not in event for event in found[:-1])


def test_rounds_without_news_send_nothing() -> None:
    """A token whose text is held back is only counted."""
    encoder = chat_encoder()

    assert encoder.round([ChoiceDelta(0, "", 1)]) == b""
    assert json.loads(encoder.round([ChoiceDelta(0, "x", 1, finish_reason="stop")])[6:])["usage"][
        "completion_tokens"
    ] == 2  # fmt: skip


def deltas_of(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The deltas without their role, the opening one left out."""
    deltas = [event["choices"][0]["delta"] for event in found[1:]]
    return [{key: value for key, value in delta.items() if key != "role"} for delta in deltas]


def test_thinking_comes_first_then_content_then_calls_in_events_of_their_own() -> None:
    """Index, id, type and name of a call once, then pieces of its arguments; the reason in the last event."""
    found = parsed(chat_encoder(), *TOOL_ROUNDS)

    assert deltas_of(found) == [
        {"reasoning_content": AWKWARD},
        {"reasoning_content": "so"},
        {"reasoning_content": "!"},
        {"content": "Hm."},
        {
            "tool_calls": [
                {"index": 0, "id": "call_12345678", "type": "function", "function": {"name": "f", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": "é"'}}]},
        {"content": "Then"},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
        {
            "tool_calls": [
                {"index": 1, "id": "call_12345678", "type": "function", "function": {"name": "g", "arguments": "{}"}}
            ]
        },
        {"content": ""},
    ]
    assert [event["choices"][0]["finish_reason"] for event in found] == [None] * 10 + ["tool_calls"]


def test_the_last_event_counts_the_tokens_of_thinking() -> None:
    """completion_tokens_details stands behind completion_tokens, where the model thinks."""
    counted = parsed(chat_encoder(), *TOOL_ROUNDS)[-1]["usage"]

    assert list(counted)[2:4] == ["completion_tokens", "completion_tokens_details"]
    assert counted["completion_tokens_details"] == {"reasoning_tokens": 3}


def test_log_probabilities_of_thinking_and_content_stand_in_the_last_event_of_a_round() -> None:
    """Each token's once, in the order of the tokens."""
    found = parsed(chat_encoder(), *TOOL_ROUNDS)
    logprobs = [event["choices"][0]["logprobs"] for event in found]

    assert [[entry["token"] for entry in value["content"]] if value else None for value in logprobs[:5]] == [
        None,
        None,
        ["so"],
        None,
        ["!", "Hm."],
    ]


def test_full_text_is_content_alone() -> None:
    """Thinking and calls are no part of the cumulative content, nor of full_text."""
    found = parsed(chat_encoder(full_text=True), *TOOL_ROUNDS)

    assert [delta["content"] for delta in deltas_of(found) if "content" in delta] == ["Hm.", "Hm.Then", "Hm.Then"]
    assert found[-1]["full_text"] == "Hm.Then"


@pytest.mark.parametrize("chat", [True, False])
def test_usage_that_comes_apart_is_one_event_without_choices(chat: bool) -> None:
    """It counts all choices, and no choice's last event has any."""
    encoder = chat_encoder(2, usage_apart=True) if chat else CompletionEncoder(HEAD, 2, STATS, usage_apart=True)
    ends = [ChoiceDelta(0, "c", 1, finish_reason="stop", reasoning_tokens=1)]
    ends += [ChoiceDelta(1, "d", 1, finish_reason="stop", reasoning_tokens=0)]
    found = events(encoder, [ChoiceDelta(0, "a", 2), ChoiceDelta(1, "b", 1)], ends)
    model = ChatCompletionChunk if chat else CompletionChunk
    last = json.loads(found[-1])

    assert all(b'"usage"' not in event for event in found[:-1])
    assert model.model_validate_json(found[-1]).wire_json().encode() == found[-1]
    assert (last["choices"], last["usage"]["completion_tokens"], last["usage"]["batch_size"]) == ([], 5, [3, 2, 1])
    assert last["usage"]["completion_tokens_details"] == {"reasoning_tokens": 1}


def test_completions_have_no_empty_first_event_and_usage_last() -> None:
    """Text from the first event on; usage after choices, in the last event only."""
    found = parsed(
        CompletionEncoder(HEAD, 1, STATS), [ChoiceDelta(0, "a", 1)], [ChoiceDelta(0, "b", 1, finish_reason="length")]
    )

    assert [event["choices"][0]["text"] for event in found] == ["a", "b"]
    assert list(found[0]) == ["id", "object", "created", "model", "choices"]
    assert list(found[1]) == ["id", "object", "created", "model", "choices", "usage"]
    assert list(found[1]["choices"][0]) == ["index", "text", "logprobs", "stop_reason", "finish_reason"]
