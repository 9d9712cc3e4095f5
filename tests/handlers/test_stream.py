"""Events: their order, and bytes that the generated models would write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from engine.types import ChoiceDelta, Stats, TokenCandidate, TokenText
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
    chosen = {"openai_form": False, "full_text": False, "tool_names": None, **options}
    return ChatEncoder(HEAD, count, STATS, **chosen)


def events(encoder: Encoder, *rounds: Sequence[ChoiceDelta]) -> list[bytes]:
    """The data of all events."""
    stream = encoder.opening() + b"".join(map(encoder.round, rounds))
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
    [ChoiceDelta(0, 'Hm.\n<tool_call>{"name": "f", "argum', 1)],
    [ChoiceDelta(0, 'ents": {"a": "é"', 1)],
    [ChoiceDelta(0, "}}</tool_call>", 1, finish_reason="stop")],
)


@pytest.mark.parametrize("openai_form", [False, True])
@pytest.mark.parametrize("full_text", [False, True])
@pytest.mark.parametrize(("rounds", "tools"), [(ROUNDS, None), (TOOL_ROUNDS, ["f"])])
def test_chat_events_are_what_the_models_write(
    openai_form: bool, full_text: bool, rounds: Any, tools: list[str] | None
) -> None:
    """Reading an event into the chunk model and writing it again gives the same bytes."""
    encoder = chat_encoder(2, openai_form=openai_form, full_text=full_text, tool_names=tools)

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


def test_a_tool_call_streams_as_openais_clients_assemble_it() -> None:
    """Index, id, type and name first, then pieces of the arguments, then tool_calls as the reason."""
    found = parsed(chat_encoder(tool_names=["f"]), *TOOL_ROUNDS)
    deltas = [event["choices"][0]["delta"] for event in found]

    assert [delta["content"] for delta in deltas if "content" in delta] == ["", "Hm.", ""]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert (calls[0]["index"], calls[0]["type"], calls[0]["function"]["name"]) == (0, "function", "f")
    assert calls[0]["id"].startswith("call_")
    assert len(calls[0]["id"]) == len("call_") + 8
    assert "".join(call["function"]["arguments"] for call in calls) == '{"a": "é"}'
    assert found[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_call_that_the_budget_cut_ends_with_length() -> None:
    """Half a call is no call that a client could run."""
    rounds = [[ChoiceDelta(0, '<tool_call>{"name": "f", "arguments": {"a', 1, finish_reason="length")]]

    assert parsed(chat_encoder(tool_names=["f"]), *rounds)[-1]["choices"][0]["finish_reason"] == "length"


def test_completions_have_no_empty_first_event_and_usage_last() -> None:
    """Text from the first event on; usage after choices, in the last event only."""
    found = parsed(
        CompletionEncoder(HEAD, 1, STATS), [ChoiceDelta(0, "a", 1)], [ChoiceDelta(0, "b", 1, finish_reason="length")]
    )

    assert [event["choices"][0]["text"] for event in found] == ["a", "b"]
    assert list(found[0]) == ["id", "object", "created", "model", "choices"]
    assert list(found[1]) == ["id", "object", "created", "model", "choices", "usage"]
    assert list(found[1]["choices"][0]) == ["index", "text", "logprobs", "stop_reason", "finish_reason"]
