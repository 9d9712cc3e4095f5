"""Log probabilities in both forms."""

from __future__ import annotations

from engine.types import TokenCandidate, TokenText
from handlers.logprobs import chat_logprobs, completion_logprobs


def candidate(token_id: int, text: str, logprob: float) -> TokenCandidate:
    """A candidate whose bytes are its text."""
    return TokenCandidate(token_id, text, text.encode(), logprob)


def test_completions_list_the_chosen_first_then_the_others_descending() -> None:
    """A chosen token outside the likeliest makes one entry more."""
    token = TokenText(candidate(9, "c", -4.0), [candidate(1, "a", -0.25), candidate(2, "b", -2.0)], 3)

    made = completion_logprobs([token], 10)

    assert list(made.top_logprobs[0].items()) == [("c", -4.0), ("a", -0.25), ("b", -2.0)]
    assert (made.tokens, made.token_logprobs, made.text_offset) == (["c"], [-4.0], [13])


def test_of_equal_texts_the_chosen_stays_else_the_likelier() -> None:
    """Tokens that look alike share one entry."""
    top = [candidate(1, "\ufffd", -0.5), candidate(2, "\ufffd", -1.0), candidate(3, "x", -2.0), candidate(4, "x", -3.0)]

    chosen_late = completion_logprobs([TokenText(candidate(2, "\ufffd", -1.0), top, 0)], 0)
    other_chosen = completion_logprobs([TokenText(candidate(9, "y", -9.0), top, 0)], 0)

    assert chosen_late.top_logprobs[0] == {"\ufffd": -1.0, "x": -2.0}
    assert other_chosen.top_logprobs[0] == {"y": -9.0, "\ufffd": -0.5, "x": -2.0}


def test_zero_candidates_leave_the_chosen_alone() -> None:
    """logprobs 0 lists the chosen token."""
    assert completion_logprobs([TokenText(candidate(1, "a", -1.0), [], 0)], 0).top_logprobs == [{"a": -1.0}]


def test_chat_gives_the_tokens_own_bytes() -> None:
    """Half a character shows as U+FFFD and keeps its byte."""
    half = TokenCandidate(7, "\ufffd", b"\xc3", -1.5)

    entry = chat_logprobs([TokenText(half, [half], 0)]).content[0]

    assert (entry.token, entry.bytes, entry.logprob) == ("\ufffd", [195], -1.5)
    assert entry.top_logprobs[0].wire() == {"token": "\ufffd", "logprob": -1.5, "bytes": [195]}


def test_the_logarithm_of_zero_can_be_written() -> None:
    """JSON has no infinity; -9999 stands for it."""
    assert chat_logprobs([TokenText(candidate(1, "a", float("-inf")), [], 0)]).content[0].logprob == -9999.0
