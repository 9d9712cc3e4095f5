"""Each law of streams: the events by hand break none, and one change breaks just that one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spoken import (
    STREAM_HEADERS,
    Json,
    calls_events,
    chat,
    chat_event,
    chat_events,
    completion,
    completion_events,
    judged_stream,
    laws,
    sse,
    usage,
    whole_chat,
)

from tools.laws.answers import Answers
from tools.laws.asked import Asked
from tools.laws.stream import Stream
from tools.laws.table import LAWS

Events = list[Any]
ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How long a busy machine takes decides nothing."""
PLAIN = chat(stream=True)
TWO = chat(stream=True, n=2, temperature=1)
APART = chat(stream=True, stream_options={"include_usage": True})
TOOLS = chat(stream=True, tools=[{"type": "function", "function": {"name": "f"}}])
BEAMS = chat(stream=True, use_beam_search=True, n=2)
TEXT = completion(stream=True)
LOGPROBS = completion(stream=True, logprobs=1)
START = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a"'}}
MORE = {"index": 0, "function": {"arguments": ": 1}"}}
ERROR = {
    "error": {"message": "it failed", "type": "Incomplete Generation", "param": None, "code": "internal"},
    "error_type": "Incomplete Generation",
}


def with_full_text() -> Events:
    """Cumulative deltas, and the whole text in the last event."""
    events = chat_events("abc")
    for event, text in zip(events[1:], ("a", "ab", "abc"), strict=True):
        event["choices"][0]["delta"]["content"] = text
    last = events[-1]
    events[-1] = {"id": "x", "object": last["object"], "created": 1, "model": "m", "full_text": "abc"} | {
        key: last[key] for key in ("usage", "choices")
    }
    return events


def usage_apart() -> Events:
    """OpenAI's form with include_usage: no usage with the choice, one event of its own at the end."""
    events = chat_events("abc", openai=True)
    del events[-1]["usage"]
    last = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "usage": usage(3), "choices": []}
    return [*events, last]


def beams() -> Events:
    """Two beams in their one event."""
    whole = whole_chat("ab", "cd", tokens=2)
    choices = []
    for choice in whole["choices"]:
        delta = {"role": "assistant", "content": choice["message"]["content"]}
        choices.append({"index": choice["index"], "delta": delta} | {k: choice[k] for k in list(choice)[1:]})
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return [{**head, "usage": whole["usage"], "choices": choices}]


SOUND: list[tuple[Asked, Events]] = [
    (PLAIN, chat_events()),
    (PLAIN, chat_events(openai=True)),
    (PLAIN, with_full_text()),
    (TWO, [event for pair in zip(chat_events("abc"), chat_events("xyz", 1), strict=True) for event in pair]),
    (APART, usage_apart()),
    (APART, chat_events()),
    (TOOLS, calls_events(START, MORE)),
    (BEAMS, beams()),
    (PLAIN, [*chat_events()[:2], ERROR]),
    (TEXT, completion_events()),
    (LOGPROBS, completion_events(logprobs=True)),
    (chat(stream=True, stop="z"), chat_events()),
]


@pytest.mark.parametrize(("asked", "events"), SOUND)
def test_a_sound_stream_breaks_no_law(asked: Asked, events: Events) -> None:
    """Both forms, tools, beams, an error in the middle, usage apart, full_text."""
    assert judged_stream(asked, events) == []


def change(events: Events, place: int, path: str, value: Any) -> Events:
    """The events with a value set in one of them; ``...`` takes the member out."""
    *way, last = path.split(".")
    owner: Any = events[place]
    for key in way:
        owner = owner[int(key) if key.isdecimal() else key]
    if value is ...:
        del owner[last]
    else:
        owner[last] = value
    return events


def order(events: Events, *places: int) -> Events:
    """The events in another order, some of them left out or there twice."""
    return [events[place] for place in places]


def turned_round(events: Events, place: int) -> Events:
    """The events with the members of one in the reverse order."""
    events[place] = dict(reversed(events[place].items()))
    return events


def _shown() -> Events:
    return completion_events(logprobs=True)


BROKEN: list[tuple[str, Asked, Callable[[], Events]]] = [
    ("stream-json", PLAIN, lambda: [*order(chat_events(), 0), "{", *order(chat_events(), 1, 2, 3)]),
    ("stream-schema", PLAIN, lambda: change(chat_events(), 1, "choices.0.logprobs", ...)),
    (
        "answer-key-order",
        PLAIN,
        lambda: [dict(reversed(e.items())) if i == 1 else e for i, e in enumerate(chat_events())],
    ),
    ("stream-one-answer", PLAIN, lambda: change(chat_events(), 2, "id", "y")),
    ("stream-one-answer", PLAIN, lambda: change(chat_events(), 2, "created", 2)),
    ("answer-model", PLAIN, lambda: [event | {"model": "other"} for event in chat_events()]),
    ("answer-id", chat({"req-id": "mine"}, stream=True), chat_events),
    ("stream-one-choice", TWO, lambda: _joined(chat_events(), chat_events("xyz", 1))),
    ("stream-index", PLAIN, lambda: [chat_event(1, {"role": "assistant", "content": ""}), *chat_events()]),
    ("choices-count", TWO, chat_events),
    ("stream-role-first", PLAIN, lambda: order(chat_events(), 1, 0, 2, 3)),
    ("stream-role-first", PLAIN, lambda: order(chat_events(openai=True), 1, 0, 2, 3)),
    ("stream-role-first", PLAIN, lambda: chat_events()[1:]),
    ("stream-role-form", PLAIN, lambda: change(chat_events(), 2, "choices.0.delta.role", ...)),
    ("stream-text-first", TEXT, lambda: [*change(completion_events("xbc"), 0, "choices.0.text", "")]),
    ("stream-one-finish", PLAIN, lambda: order(chat_events(), 0, 1, 2)),
    ("stream-one-finish", PLAIN, lambda: order(chat_events(), 0, 1, 2, 3, 3)),
    ("stream-nothing-after-finish", PLAIN, lambda: order(chat_events(), 0, 1, 3, 2)),
    ("stream-usage-last", PLAIN, lambda: change(chat_events(), 3, "usage", ...)),
    ("stream-usage-last", PLAIN, lambda: [change(chat_events(), 1, "choices", [])[1], *chat_events()]),
    ("stream-usage-last", APART, lambda: usage_apart()[:-1]),
    ("stream-usage-last", APART, lambda: order(usage_apart(), 0, 1, 2, 3, 4, 4)),
    ("stream-beams-in-one", BEAMS, lambda: beams() * 2),
    ("stream-beam-message", BEAMS, lambda: change(beams(), 0, "choices.0.message.content", "no")),
    ("stream-one-finish", BEAMS, lambda: change(beams(), 0, "choices.0.finish_reason", None)),
    ("stream-full-text", PLAIN, lambda: change(with_full_text(), 3, "full_text", "abcd")),
    ("stream-full-text", PLAIN, lambda: change(with_full_text(), 1, "choices.0.delta.content", "x")),
    ("stream-call-starts", TOOLS, lambda: calls_events({**START, "index": 1}, MORE)),
    ("stream-call-starts", TOOLS, lambda: calls_events({k: START[k] for k in ("index", "id", "function")}, MORE)),
    ("stream-call-goes-on", TOOLS, lambda: calls_events(START, {**MORE, "id": "call_2"})),
    ("tool-call-arguments", TOOLS, lambda: calls_events(START)),
    ("tool-call-asked", PLAIN, lambda: calls_events(START, MORE)),
    ("finish-fits", TOOLS, lambda: calls_events(START, MORE, finish="stop")),
    ("stream-error-last", PLAIN, lambda: [*chat_events()[:2], ERROR, chat_events()[2]]),
    ("stream-schema", PLAIN, lambda: [*chat_events()[:2], {**ERROR, "error_type": "Generation Error"}]),
    ("stream-done-last", PLAIN, lambda: [*chat_events(), "[DONE]"]),
    ("stop-text-absent", chat(stream=True, stop="bc"), chat_events),
    ("usage-adds-up", PLAIN, lambda: change(chat_events(), 3, "usage.total_tokens", 9)),
    ("usage-rounds", PLAIN, lambda: change(chat_events(), 3, "usage.batch_size", [1, 1])),
    ("usage-within-max-tokens", chat(stream=True, max_tokens=2), chat_events),
    ("usage-one-prompt", TWO, lambda: [*chat_events(), *_another_prompt(chat_events("xyz", 1))]),
    ("logprobs-as-asked", TEXT, lambda: completion_events(logprobs=True)),
    ("logprobs-count", LOGPROBS, lambda: change(completion_events(logprobs=True), 1, "choices.0.logprobs", None)),
    (
        "text-offset-runs",
        LOGPROBS,
        lambda: change(completion_events(logprobs=True), 1, "choices.0.logprobs.text_offset", [0]),
    ),
]


def _joined(*streams: Events) -> Events:
    """The first two streams event by event, the second event of each in one."""
    first, second = streams
    both = {**first[1], "choices": [*first[1]["choices"], *second[1]["choices"]]}
    return [first[0], second[0], both, *first[2:], *second[2:]]


def _another_prompt(events: Events) -> Events:
    events[-1]["usage"] |= {"prompt_tokens": 6, "total_tokens": 9}
    return events


@pytest.mark.parametrize(("law", "asked", "events"), BROKEN)
def test_one_change_breaks_one_law(law: str, asked: Asked, events: Callable[[], Events]) -> None:
    """Just that law is told, once; the order of events is part of what is judged."""
    assert laws(judged_stream(asked, events())) == [law]


def test_the_tables_of_tests_reach_every_law() -> None:
    """No law is without a change that breaks it."""
    from test_laws_of_answers import BROKEN as ANSWERS

    elsewhere = {
        "answer-status", "answer-media-type", "answer-json", "error-schema", "error-form", "error-type-of-status",
        "error-retry-after", "logprobs-lists", "choices-best-first", "stream-headers", "stream-sse",
        "answer-http", "answer-whole",  # of connections, which tests of the proxy break
    }  # fmt: skip
    assert {law for law, *_ in BROKEN} | {law for law, *_ in ANSWERS} | elsewhere == set(LAWS)


def test_a_stream_without_done_is_told() -> None:
    """[DONE] ends it."""
    assert laws(judged_stream(PLAIN, chat_events(), done=False)) == ["stream-done-last"]


def test_a_client_that_goes_away_ends_a_stream_without_a_breach() -> None:
    """Only what the server sent is judged."""
    stream = Stream(PLAIN)
    assert stream.feed(sse(chat_events()[:2])) == []
    assert stream.end(complete=False) == []


def test_streams_have_headers_that_keep_them_unbuffered() -> None:
    """Cache-Control and X-Accel-Buffering."""
    headers = {**STREAM_HEADERS, "Cache-Control": "max-age=60"}
    found = Answers().breaches(PLAIN, 200, headers, sse([*chat_events(), "[DONE]"]))
    assert laws(found) == ["stream-headers"]


def test_a_whole_answer_where_a_stream_was_asked_for_and_the_reverse() -> None:
    """stream true is answered by events, and only it."""
    found = Answers().breaches(chat(), 200, STREAM_HEADERS, sse([*chat_events(), "[DONE]"]))
    assert laws(found) == ["answer-as-asked"]


def test_what_is_no_event_is_told() -> None:
    """A line of HTML is no line of a server-sent event; comments and other fields are let through."""
    stream = Stream(PLAIN)
    assert laws(stream.feed(b"<html>\n\n")) == ["stream-sse"]
    assert stream.feed(b": ping\n\nevent: x\nid: 1\n\n") == []


def test_a_repeated_breach_is_told_once() -> None:
    """Each event lacks the logprobs, and one line says so."""
    events = chat_events("a" * 50)
    for event in events:
        del event["choices"][0]["logprobs"]
    assert laws(judged_stream(PLAIN, events)) == ["stream-schema"]


def test_a_server_keeps_to_one_form_of_streams_and_errors() -> None:
    """A stream in OpenAI's form after one in MindIE's is told."""
    answers = Answers()
    bodies = [sse([*chat_events(openai=openai), "[DONE]"]) for openai in (False, True)]
    found = [answers.breaches(PLAIN, 200, STREAM_HEADERS, body) for body in bodies]
    assert [laws(one) for one in found] == [[], ["error-form"]]


@ANY_TIME
@given(cuts=st.lists(st.integers(0, 2000)), end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_where_the_bytes_are_cut_decides_nothing(cuts: list[int], end: bytes) -> None:
    """Bytes cut anywhere, and lines ended in any of three ways, give the same verdict."""
    sound, odd = [*chat_events("abcdé"), "[DONE]"], [*order(chat_events("abcdé"), 0, 1, 3, 2, 4, 5), "[DONE]"]
    for events, due in ((sound, []), (odd, [])):
        body = sse(events).replace(b"\n", end)
        assert laws(_pieces(PLAIN, body, cuts)) == due
    late = [*order(chat_events("abc"), 0, 1, 3, 2), "[DONE]"]
    assert laws(_pieces(PLAIN, sse(late).replace(b"\n", end), cuts)) == ["stream-nothing-after-finish"]


def _pieces(asked: Asked, body: bytes, cuts: Sequence[int]) -> list[Any]:
    stream = Stream(asked)
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    found = [breach for start, end in pairwise(places) for breach in stream.feed(body[start:end])]
    return found + stream.end()


@ANY_TIME
@given(data=st.lists(st.binary(max_size=60), max_size=20))
def test_no_bytes_raise(data: list[bytes]) -> None:
    """Whatever a server sends, the judge says what is wrong and goes on."""
    stream = Stream(TEXT)
    for chunk in data:
        stream.feed(chunk)
        stream.feed(b"data: " + chunk + b"\n\n")
    stream.end()


def test_lines_of_json_of_any_kind_raise_nothing() -> None:
    """Lists, numbers, and objects of the wrong shape are breaches."""
    events: list[Json | str] = ["1", "[]", "null", '{"choices": 5}', '{"error": 5}', '{"choices": [null]}', '"x"']
    for event in events:
        assert laws(judged_stream(PLAIN, [event]))[:1] == ["stream-schema"]
