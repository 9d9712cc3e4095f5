"""Each law of whole answers and errors: the answer by hand breaks none, and one change breaks just that one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from spoken import Json, chat, completion, judged, laws, token, whole_chat, whole_completion

from tools.laws.answers import Answers
from tools.laws.asked import Asked

TOOLS = [{"type": "function", "function": {"name": "f"}}]
CALL = {"function": {"name": "f", "arguments": "{}"}, "id": "call_1", "type": "function"}
FLAT = {"error": "n must be smaller", "error_type": "Input Validation Error", "param": "n", "code": "out_of_range"}
NESTED = {"error": {"message": "no", "type": "Input Validation Error", "param": None, "code": "missing"}}


def at(answer: Json, path: str, value: Any) -> Json:
    """The answer with the value at a path such as ``choices.0.index``."""
    *way, last = path.split(".")
    owner: Any = answer
    for key in way:
        owner = owner[int(key) if key.isdecimal() else key]
    owner[int(last) if last.isdecimal() else last] = value
    return answer


def with_logprobs(answer: Json, *tokens: Json) -> Json:
    return at(answer, "choices.0.logprobs", {"content": list(tokens)})


def called(finish: str, *calls: Json) -> Json:
    return at(at(whole_chat(""), "choices.0.finish_reason", finish), "choices.0.message.tool_calls", list(calls))


SOUND: list[tuple[Asked, Json]] = [
    (chat(), whole_chat()),
    (chat(n=2, temperature=1), whole_chat("a", "b")),
    (chat(tools=TOOLS), called("tool_calls", CALL)),
    (chat(top_logprobs=1), with_logprobs(whole_chat(), *map(token, "abc"))),
    (chat(stop="z"), whole_chat()),
    (chat(stop="c", include_stop_str_in_output=True), whole_chat()),
    (chat(response_format={"type": "json_object"}), whole_chat("{}")),
    (completion(), whole_completion()),
    (completion(n=2, temperature=1, logprobs=1), whole_completion("abc", "de", logprobs=True)),
]


@pytest.mark.parametrize(("asked", "answer"), SOUND)
def test_a_sound_answer_breaks_no_law(asked: Asked, answer: Json) -> None:
    """Answers as the contract describes them."""
    assert judged(asked, answer) == []


BROKEN: list[tuple[str, Asked, Callable[[], Json]]] = [
    ("answer-schema", chat(), lambda: at(whole_chat(), "choices.0.index", "0")),
    ("answer-key-order", chat(), lambda: dict(reversed(whole_chat().items()))),
    ("answer-model", chat(), lambda: at(whole_chat(), "model", "other")),
    ("answer-id", chat({"req-id": "mine"}), whole_chat),
    ("choices-count", chat(n=2, temperature=1), whole_chat),
    ("choices-in-order", chat(n=2, temperature=1), lambda: at(whole_chat("a", "b"), "choices.1.index", 0)),
    ("finish-fits", chat(tools=TOOLS), lambda: called("stop", CALL)),
    ("finish-fits", chat(tools=TOOLS), lambda: called("tool_calls")),
    ("finish-fits", completion(), lambda: at(whole_completion(), "choices.0.finish_reason", "tool_calls")),
    ("stop-reason-fits", completion(stop="z"), lambda: at(whole_completion(), "choices.0.stop_reason", "z")),
    ("stop-text-absent", chat(stop=["q", "b"]), whole_chat),
    ("stop-text-absent", chat(stop="b", include_stop_str_in_output=True), whole_chat),
    ("json-answer-parses", chat(response_format={"type": "json_object"}), whole_chat),
    ("tool-call-asked", chat(), lambda: called("tool_calls", CALL)),
    ("tool-call-ids", chat(tools=TOOLS), lambda: called("tool_calls", CALL, CALL)),
    ("logprobs-as-asked", chat(), lambda: with_logprobs(whole_chat(), *map(token, "abc"))),
    ("logprobs-candidates", chat(top_logprobs=1), lambda: with_logprobs(whole_chat(), *(token(c, "z") for c in "abc"))),
    ("logprobs-count", chat(top_logprobs=1), lambda: with_logprobs(whole_chat(), *map(token, "ab"))),
    ("usage-adds-up", chat(), lambda: at(whole_chat(), "usage.total_tokens", 9)),
    ("usage-details-fit", chat(), lambda: at(whole_chat(), "usage.prompt_tokens_details.cached_tokens", 6)),
    ("usage-rounds", chat(), lambda: at(whole_chat(), "usage.queue_wait_time", [0])),
    ("usage-within-max-tokens", chat(max_tokens=2), whole_chat),
    ("decode-times", chat(), lambda: at(whole_chat(), "decode_time_arr", [1, 1, 1])),
    ("answer-as-asked", chat(stream=True), whole_chat),
]


@pytest.mark.parametrize(("law", "asked", "answer"), BROKEN)
def test_one_change_breaks_one_law(law: str, asked: Asked, answer: Callable[[], Json]) -> None:
    """Just that law is told, once."""
    assert laws(judged(asked, answer())) == [law]


def test_arguments_of_a_call_are_a_json_object() -> None:
    """A list is none."""
    broken = {**CALL, "function": {"name": "f", "arguments": "[1]"}}
    assert laws(judged(chat(tools=TOOLS), called("tool_calls", broken))) == ["tool-call-arguments"]


def test_completions_logprobs_are_four_lists_of_one_length_that_begin_with_the_chosen() -> None:
    """A list that is short, a chosen token that is not first, more candidates than asked, disorder."""
    asked = completion(logprobs=1)

    def changed(name: str, value: Any) -> list[str]:
        answer = whole_completion("abc", logprobs=True)
        answer["choices"][0]["logprobs"][name] = value
        return laws(judged(asked, answer))

    assert changed("token_logprobs", [-0.5]) == ["logprobs-lists"]
    assert changed("top_logprobs", [{"?": -1.5, "a": -0.5}, {"b": -0.5}, {"c": -0.5}]) == ["logprobs-candidates"]
    assert changed("top_logprobs", [{"a": -0.5, "y": -1, "z": -2}, {"b": -0.5}, {"c": -0.5}]) == ["logprobs-candidates"]


def test_text_offset_runs_on_over_the_choices_of_a_whole_answer() -> None:
    """The second choice begins where the first ended, not at 0; within a choice every token counts."""
    asked = completion(n=2, temperature=1, logprobs=1)
    answer = whole_completion("abc", "de", logprobs=True)
    answer["choices"][1]["logprobs"]["text_offset"] = [0, 1]
    assert laws(judged(asked, answer)) == ["text-offset-runs"]
    answer["choices"][1]["logprobs"]["text_offset"] = [3, 5]
    assert laws(judged(asked, answer)) == ["text-offset-runs"]


def test_ranked_choices_descend() -> None:
    """best_of above n sorts by mean logprob."""
    answer = whole_completion("abc", "de", logprobs=True)
    answer["choices"][0]["logprobs"]["token_logprobs"] = [-0.9] * 3
    answer["choices"][0]["logprobs"]["top_logprobs"] = [{letter: -0.9} for letter in "abc"]
    assert judged(completion(n=2, temperature=1, logprobs=1), answer) == []
    assert laws(judged(completion(best_of=2, temperature=1, logprobs=1), answer)) == ["choices-best-first"]


def test_more_rounds_than_tokens_are_told() -> None:
    """Three tokens of one choice are three rounds."""
    answer = whole_chat()
    answer["usage"] |= {"batch_size": [1] * 4, "queue_wait_time": [0] * 4}
    answer["decode_time_arr"] = [1, 1, 1]
    assert laws(judged(chat(), answer)) == ["usage-rounds"]


@pytest.mark.parametrize("error", [FLAT, NESTED])
def test_both_forms_of_errors_are_right(error: Json) -> None:
    """Flat as MindIE's clients expect it, or nested as OpenAI's."""
    assert judged(chat(), error, 422) == []


def test_a_server_keeps_to_one_form_of_errors() -> None:
    """The second form is told; each alone would be right."""
    answers, headers = Answers(), {"Content-Type": "application/json"}
    first = answers.breaches(chat(), 422, headers, json.dumps(FLAT).encode())
    second = answers.breaches(chat(), 422, headers, json.dumps(NESTED).encode())
    assert (laws(first), laws(second)) == ([], ["error-form"])


def test_errors_have_the_type_of_their_status() -> None:
    """424 is a Generation Error."""
    assert laws(judged(chat(), FLAT, 424)) == ["error-type-of-status"]
    assert judged(chat(), {**FLAT, "error_type": "Generation Error"}, 424) == []


def test_an_error_of_another_shape_is_told() -> None:
    """FastAPI's own form is neither."""
    assert laws(judged(chat(), {"detail": "no"}, 422))[0] == "error-schema"


def test_a_429_says_when_to_come_back() -> None:
    """Retry-After is part of it."""
    busy = {**FLAT, "error_type": "Service Unavailable"}
    assert laws(judged(chat(), busy, 429)) == ["error-retry-after"]
    assert judged(chat(), busy, 429, **{"Retry-After": "1"}) == []


def test_status_media_type_and_json_are_judged_before_all_else() -> None:
    """An unlisted status, plain text, and a body that is no JSON."""
    assert laws(judged(chat(), FLAT, 418)) == ["answer-status"]
    assert laws(Answers().breaches(chat(), 200, {"Content-Type": "text/plain"}, b"{")) == [
        "answer-media-type",
        "answer-json",
    ]
    assert judged(chat(), b"<html>Bad gateway</html>", 502, **{"Content-Type": "text/html"}) == []


def test_laws_between_request_and_answer_are_off_where_the_request_is_at_fault() -> None:
    """Nobody knows how many choices ``n: "two"`` asks for; the schema holds all the same."""
    asked = Asked(chat().wire)
    assert judged(asked, whole_chat("a", "b")) == []
    assert laws(judged(asked, at(whole_chat(), "model", 1))) == ["answer-schema"]
