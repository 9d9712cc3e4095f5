"""Whether an answer given in company is the answer given alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tools.soak.answers import ChoiceSeen, Seen

TOLERANCE: Final = 1e-3
"""Between two logprobs that count as equal: sums in another order differ in the last bits."""

EXPECTED_ERRORS: Final = frozenset({"engine_down", "loading"})
"""What requests may get while the engine is dead or loads again."""

Kind = Literal["equal", "part", "near tie", "near draw", "error", "nothing", "wrong"]
"""part: broken off, equal as far as it came; near tie: two tokens were as good; near draw: the draw fell between them;
error: the documented one, at a time when it is due; nothing: cancelled before anything came."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement, with the reason where it is not plain."""

    kind: Kind
    reason: str = ""


def judge(alone: Seen, got: Seen, *, ranked: bool, drawn: bool, cut: bool, engine_was_down: bool) -> Verdict:
    """Compare two answers to the same request.

    Args:
        ranked: choices stand in an order of merit.
        drawn: tokens were drawn with a seed.
        cut: the client hung up.
        engine_was_down: the engine was killed, or not yet back, at some time between sending and the end.
    """
    if got.error is not None:
        if not engine_was_down:
            return Verdict("wrong", f"error {got.error} without a cause")
        if got.error not in EXPECTED_ERRORS:
            return Verdict("wrong", f"error {got.error} is not the documented one")
    elif not got.complete and not cut:
        return Verdict("wrong", "incomplete")
    elif got.complete and got.choices.keys() != alone.choices.keys():
        return Verdict("wrong", f"choices {sorted(got.choices)} instead of {sorted(alone.choices)}")
    verdicts = []
    for index, choice in got.choices.items():
        if index not in alone.choices:
            return Verdict("wrong", f"choice {index} does not exist alone")
        verdict = compare(alone.choices[index], choice, whole=got.complete, drawn=drawn)
        if ranked and got.complete and verdict.kind != "equal":
            verdict = _compare_rank(alone.choices[index], choice) or verdict
        if verdict.kind == "wrong":
            return Verdict("wrong", f"choice {index}: {verdict.reason}")
        verdicts.append(verdict)
    for kind in ("near draw", "near tie"):
        for verdict in verdicts:
            if verdict.kind == kind:
                return verdict
    if got.error is not None:
        return Verdict("error", got.error)
    if got.complete:
        return Verdict("equal")
    return Verdict("part" if verdicts else "nothing")


def compare(alone: ChoiceSeen, got: ChoiceSeen, *, whole: bool, drawn: bool) -> Verdict:
    """One choice, token by token up to the first difference; logprobs must agree up to there."""
    for index, (token, other) in enumerate(zip(alone.tokens, got.tokens, strict=False)):
        if token != other:
            return _difference(alone, got, index, drawn)
        if abs(alone.logprobs[index] - got.logprobs[index]) > TOLERANCE:
            change = f"{alone.logprobs[index]:.5f} became {got.logprobs[index]:.5f}"
            return Verdict("wrong", f"token {index} {token!r}: logprob {change}")
    if len(got.tokens) > len(alone.tokens) or (whole and len(got.tokens) < len(alone.tokens)):
        return Verdict("wrong", f"{len(got.tokens)} tokens instead of {len(alone.tokens)}")
    if whole and (got.text, got.finish_reason, got.stop_reason) != (alone.text, alone.finish_reason, alone.stop_reason):
        return Verdict("wrong", f"equal tokens, but {got.finish_reason} {got.text!r} instead of {alone.text!r}")
    if not alone.text.startswith(got.text):
        return Verdict("wrong", f"the text {got.text!r} is no beginning of {alone.text!r}")
    return Verdict("equal")


def _difference(alone: ChoiceSeen, got: ChoiceSeen, index: int, drawn: bool) -> Verdict:
    """The first different token: were the two as good as each other?"""
    token, other = alone.tokens[index], got.tokens[index]
    where = f"token {index}: {token!r} ({alone.logprobs[index]:.5f}) became {other!r} ({got.logprobs[index]:.5f})"
    known = alone.tops[index].get(other)
    if not drawn:
        if known is not None and abs(alone.logprobs[index] - known) <= TOLERANCE:
            return Verdict("near tie", where)
        return Verdict("wrong", where)
    # Where the draw fell cannot be seen from outside; that the model said the same in both cases can.
    apart = distance(alone.tops[index], got.tops[index])
    if apart <= TOLERANCE:
        return Verdict("near draw", where)
    return Verdict("wrong", f"{where}; the distributions are {apart:.5f} apart")


def distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The largest difference between logprobs of tokens that both distributions list; infinite without such a token."""
    common = one.keys() & other.keys()
    return max((abs(one[token] - other[token]) for token in common), default=float("inf"))


def _compare_rank(alone: ChoiceSeen, got: ChoiceSeen) -> Verdict | None:
    """Choices of equal merit may change places."""
    apart = abs(alone.mean_logprob - got.mean_logprob)
    return Verdict("near tie", f"ranks: mean logprobs {apart:.6f} apart") if apart <= TOLERANCE else None
