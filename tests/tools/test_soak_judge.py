"""What a soak takes for an equal answer, a near tie, a due error, and a fault."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tools.load.client import Exchange
from tools.soak.__main__ import as_json
from tools.soak.answers import ChoiceSeen, Seen, seen
from tools.soak.driver import Outcome, memory_growth
from tools.soak.judge import Verdict, compare, distance, judge
from tools.soak.kinds import KINDS, requests
from tools.soak.watch import Memory, Outage


def choice(tokens: str, logprobs: list[float] | None = None, tops: list[dict[str, float]] | None = None) -> ChoiceSeen:
    """One letter a token; by default each has the logprob -1, and "z" is next to it."""
    chosen = logprobs or [-1.0] * len(tokens)
    listed = tops or [{token: logprob, "z": -3.0} for token, logprob in zip(tokens, chosen, strict=True)]
    return ChoiceSeen(tokens, list(tokens), chosen, listed, "length")


def answer(*choices: ChoiceSeen, error: str | None = None, complete: bool = True) -> Seen:
    """An answer with these choices."""
    return Seen(dict(enumerate(choices)), error, complete)


def verdict(alone: Seen, got: Seen, **how: bool) -> Verdict:
    """The judgement, of a greedy request that nothing happened to unless said otherwise."""
    return judge(alone, got, **{"ranked": False, "drawn": False, "cut": False, "engine_was_down": False, **how})


def test_an_equal_answer_is_equal() -> None:
    """Up to the last bits of its logprobs."""
    assert verdict(answer(choice("abc")), answer(choice("abc", [-1.0, -1.0005, -1.0]))) == Verdict("equal")


def test_equal_tokens_with_other_logprobs_are_wrong() -> None:
    """The model saw something else, and the likeliest token only happened to stay the same."""
    found = verdict(answer(choice("abc")), answer(choice("abc", [-1.0, -1.3, -1.0])))
    assert found == Verdict("wrong", "choice 0: token 1 'b': logprob -1.00000 became -1.30000")


def test_another_token_that_was_as_likely_is_a_near_tie() -> None:
    """What follows it is another answer and is not compared."""
    alone = choice("abc", tops=[{"a": -1.0}, {"b": -1.0, "x": -1.0008}, {"c": -1.0}])
    assert verdict(answer(alone), answer(choice("axy"))).kind == "near tie"


@pytest.mark.parametrize("tops", [{"b": -1.0, "x": -1.002}, {"b": -1.0}])
def test_another_token_that_was_less_likely_is_wrong(tops: dict[str, float]) -> None:
    """Or so unlikely that it is not listed."""
    alone = choice("ab", tops=[{"a": -1.0}, tops])
    assert verdict(answer(alone), answer(choice("ax"))).kind == "wrong"


def test_a_draw_may_fall_otherwise_only_where_the_distribution_is_the_same() -> None:
    """Whether it was near cannot be seen; so few of them are allowed."""
    alone = choice("ab", tops=[{"a": -1.0}, {"b": -1.0, "x": -2.0, "y": -3.0}])
    same = choice("ax", [-1.0, -2.0], tops=[{"a": -1.0}, {"b": -1.0005, "x": -2.0}])
    other = choice("ax", [-1.0, -2.0], tops=[{"a": -1.0}, {"b": -1.5, "x": -2.0}])

    assert verdict(answer(alone), answer(same), drawn=True).kind == "near draw"
    assert verdict(answer(alone), answer(other), drawn=True).kind == "wrong"


def test_distributions_are_as_far_apart_as_their_worst_common_token() -> None:
    """Tokens on one side only are below the other's list; without a common one nothing is known."""
    assert distance({"a": -1.0, "b": -2.0}, {"a": -1.5, "b": -2.25, "c": 0}) == 0.5
    assert distance({"a": -1.0}, {"b": -1.0}) == float("inf")


def test_beams_of_equal_merit_may_change_places() -> None:
    """Mean logprobs within the tolerance; otherwise the order is wrong."""
    alone = answer(choice("ab", [-1.0, -1.0]), choice("cd", [-1.0, -1.0005]))
    swapped = answer(choice("cd", [-1.0, -1.0005]), choice("ab", [-1.0, -1.0]))
    worse = answer(choice("cd", [-2.0, -2.0]), choice("ab", [-1.0, -1.0]))

    assert verdict(alone, swapped, ranked=True).kind == "near tie"
    assert verdict(alone, worse, ranked=True).kind == "wrong"
    assert verdict(alone, swapped).kind == "wrong"


@pytest.mark.parametrize("tokens", ["ab", "abcd"])
def test_a_complete_answer_has_all_tokens_and_no_more(tokens: str) -> None:
    """Lengths count."""
    assert verdict(answer(choice("abc")), answer(choice(tokens))).kind == "wrong"


def test_a_missing_choice_is_wrong() -> None:
    """n choices were asked for."""
    assert verdict(answer(choice("a"), choice("b")), answer(choice("a"))).kind == "wrong"


def test_equal_tokens_with_another_text_are_wrong() -> None:
    """Texts are cut at stop strings and joined from pieces: they are compared for themselves."""
    torn = choice("abc")
    torn.text = "ab"
    assert compare(choice("abc"), torn, whole=True, drawn=False).kind == "wrong"


def test_a_cut_answer_is_equal_as_far_as_it_came() -> None:
    """A beginning is fine, anything else is not."""
    begun = choice("ab")
    begun.finish_reason = None
    assert verdict(answer(choice("abc")), answer(begun, complete=False), cut=True).kind == "part"
    assert verdict(answer(choice("abc")), answer(choice("ax"), complete=False), cut=True).kind == "wrong"
    assert verdict(answer(choice("abc")), answer(complete=False), cut=True).kind == "nothing"


def test_an_incomplete_answer_that_nobody_cut_is_wrong() -> None:
    """It has to end with an error at least."""
    assert verdict(answer(choice("abc")), answer(choice("ab"), complete=False)) == Verdict("wrong", "incomplete")


def test_the_documented_error_is_due_while_the_engine_is_down() -> None:
    """Not at other times, and no other error; and what came before it must be right."""
    alone = answer(choice("abc"))

    def failed(error: str, tokens: str = "ab") -> Seen:
        return answer(choice(tokens), error=error, complete=False)

    assert verdict(alone, failed("engine_down"), engine_was_down=True) == Verdict("error", "engine_down")
    assert verdict(alone, failed("engine_down")).kind == "wrong"
    assert verdict(alone, failed("internal"), engine_was_down=True).kind == "wrong"
    assert verdict(alone, failed("engine_down", "ax"), engine_was_down=True).kind == "wrong"


def body(text: str, **more: Any) -> dict[str, Any]:
    """A completion, or an event of one, with one token."""
    logprobs = {"tokens": [text], "token_logprobs": [-1.0], "top_logprobs": [{text: -1.0}], "text_offset": [0]}
    part = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": None, "stop_reason": None, **more}
    return {"choices": [part]}


def exchanged(data: bytes, status: bytes = b"200 OK", ending: Any = "whole") -> Exchange:
    """An exchange with this body, of known length or cut short."""
    length = len(data) + (ending != "whole")
    head = b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n" % (status, length)
    return Exchange(0, [(1, head + data)], ending, 1)


def test_a_stream_and_a_whole_answer_are_read_alike() -> None:
    """The stream's events add up to the same tokens, logprobs and text."""
    events = [body("a"), body("b", finish_reason="stop", stop_reason="b")]
    stream = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    whole = body("a")
    part = whole["choices"][0]
    part |= {"text": "ab", "finish_reason": "stop", "stop_reason": "b"}
    for name, more in (("tokens", "b"), ("token_logprobs", -1.0), ("top_logprobs", {"b": -1.0})):
        part["logprobs"][name].append(more)

    one = seen(exchanged(stream), stream=True)
    other = seen(exchanged(json.dumps(whole).encode()), stream=False)

    assert one == other
    assert (one.complete, one.choices[0].text, one.choices[0].tokens) == (True, "ab", ["a", "b"])


def test_errors_are_read_from_both_forms() -> None:
    """A status with a flat body, and an event in a stream that had begun."""
    flat = exchanged(b'{"error": "The engine is down", "code": "engine_down"}', b"503 Down")
    event = b'data: {"error": {"code": "engine_down", "message": "x"}}\n\ndata: [DONE]\n\n'
    begun = b"data: " + json.dumps(body("a")).encode() + b"\n\n" + event

    assert seen(flat, stream=False).error == "engine_down"
    found = seen(exchanged(begun), stream=True)
    assert (found.error, found.complete, found.choices[0].tokens) == ("engine_down", False, ["a"])


@pytest.mark.parametrize(("ending", "error"), [("cut", None), ("lost", "broken off: lost")])
def test_a_broken_off_answer_is_an_error_unless_we_hung_up(ending: str, error: str | None) -> None:
    """Whole or streamed."""
    assert seen(exchanged(b'{"choices"', ending=ending), stream=False).error == error
    assert seen(exchanged(b"data: {", ending=ending), stream=True).error == error


def test_requests_are_mixed_and_the_same_for_a_seed() -> None:
    """Every kind is there, streams and whole answers, and each request is another one."""
    made = requests(lambda text: len(text.split()), 40, 16, "m", 3)

    assert made == requests(lambda text: len(text.split()), 40, 16, "m", 3)
    assert {wanted.kind for wanted in made} == {kind.name for kind in KINDS}
    assert {wanted.body["stream"] for wanted in made} == {True, False}
    assert len({wanted.body["prompt"] for wanted in made}) == 40
    assert all(4 <= wanted.body["max_tokens"] <= 16 for wanted in made)


def test_an_outage_lasts_until_the_server_has_noticed_and_is_well_again() -> None:
    """A "ready" that was said before anybody knew of the death ends nothing."""
    outage = Outage(10.0)
    outage.take(True, 10.1)
    assert outage.back_s is None
    outage.take(False, 10.2)
    outage.take(True, 14.0)
    outage.take(True, 15.0)

    assert outage.back_s == 14.0
    assert [outage.overlaps(*span) for span in ((8, 9), (8, 10.5), (12, 13), (13.9, 20), (14.1, 20))] == [
        *(False, True, True, True, False)
    ]


def test_memory_growth_is_measured_from_round_2() -> None:
    """The first round fills caches; two rounds say nothing."""
    assert memory_growth([50, 100, 90, 104]) == pytest.approx(1.04)
    assert memory_growth([50, 100]) is None


def test_complaints_name_all_that_must_not_be() -> None:
    """And nothing else."""
    good = Outcome(verdicts=Counter({"equal": 9, "near draw": 1}), drawn=5, recovered_s=[3.0], pages_in_use=0)
    assert good.complaints() == []
    assert Outcome().complaints() == ["the server does not say how many pages are in use"]
    bad = Outcome(
        verdicts=Counter({"near draw": 3}),
        drawn=100,
        wrong=["greedy: x"],
        recovered_s=[None],
        health_unanswered=2,
        memory=[Memory(10, 10), Memory(10, 10), Memory(10, 11)],
        pages_in_use=4,
    )
    assert bad.complaints() == [
        "greedy: x",
        "3 of 100 drawn answers differ by a draw",
        "the engine did not come back after a kill",
        "GET /health was not answered 2 times",
        "4 pages are in use although nothing runs",
        "engine_mb grew to 1.100 times that after round 2",
    ]


def test_an_outcome_can_be_written_as_json() -> None:
    """Counts by name, and what is wrong."""
    found = json.loads(json.dumps(as_json(Outcome(kinds=Counter({"n": 2}), pages_in_use=1))))

    assert found["kinds"] == {"n": 2}
    assert found["complaints"] == ["1 pages are in use although nothing runs"]
