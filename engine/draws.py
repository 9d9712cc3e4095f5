"""One step's draws: the rows of all choices together, greedy ones out of one look at the logits."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from engine.executor import NOT_FINITE
from engine.grammar.constraint import failure_of
from engine.sampling.one_copy import OneCopySelector
from engine.sampling.sampler import Draw, Row
from engine.sampling.selector import Selector
from engine.sequences import Group


class StepDraws:
    """Draws from one step's logits. Nothing is drawn from rows that are no numbers."""

    def __init__(self, logits: Tensor, selector: Selector, expected: Sequence[tuple[int, Row]] = ()) -> None:
        """Look at float32 ``logits`` ``[rows, vocab]`` once; selectors that draw in the same look do so for
        ``expected``, the pairs that ``draw`` is then asked for."""
        self._logits = logits
        self._selector = selector
        self._expected = expected
        self._drawn: list[Draw] | None = None
        if isinstance(selector, OneCopySelector):
            looked = selector.look(logits, expected)
            self._likeliest, self._finite, self._drawn = looked.likeliest, looked.finite, looked.draws
        else:
            self._likeliest, self._finite = selector.likeliest(logits)

    def healthy(self, first: int, count: int) -> bool:
        """Whether a token can be chosen from each of ``count`` rows."""
        return all(self._finite[first : first + count])

    def rows(self, first: int, count: int) -> Tensor:
        """``count`` rows of the logits, ``[count, vocab]``."""
        return self._logits[first : first + count]

    def draw(self, rows: Sequence[tuple[int, Row]]) -> list[Draw]:
        """One token for each pair of a logits row and a choice; a row may serve several choices.

        The steps and their order are those of ``Sampler``.
        """
        if self._drawn is not None:
            found = {(index, id(row)): draw for (index, row), draw in zip(self._expected, self._drawn, strict=True)}
            return [found[index, id(row)] for index, row in rows]
        draws = [Draw(self._likeliest[index], None, None) for index, _ in rows]
        drawn = [place for place, (_, row) in enumerate(rows) if not (row.settings.greedy and row.free)]
        if drawn:
            tokens = self._selector.tokens(self._logits, [rows[place] for place in drawn])
            for place, token_id in zip(drawn, tokens, strict=True):
                draws[place].token_id = token_id
        reported = [place for place, (_, row) in enumerate(rows) if row.settings.logprob]
        if reported:
            asked = [
                (rows[place][0], draws[place].token_id, rows[place][1].settings.top_logprobs) for place in reported
            ]
            for place, (logprob, top) in zip(reported, self._selector.logprobs(self._logits, asked), strict=True):
                draws[place].logprob, draws[place].top = logprob, top
        return draws


def pairs(wanted: dict[Group, list[int]]) -> list[tuple[int, Row]]:
    """Each choice of groups that have logits, behind the row that it draws from."""
    return [(rows[0], group.state.rows[choice]) for group, rows in wanted.items() for choice in group.choices]


def failures(draws: StepDraws, wanted: dict[Group, list[int]]) -> dict[str, str]:
    """The requests that cannot go on, and why, as sentences."""
    failed: dict[str, str] = {}
    for group, indices in wanted.items():
        rows = [group.state.rows[choice] for choice in group.choices]
        reason = NOT_FINITE if not draws.healthy(indices[0], len(indices)) else failure_of(rows)
        if reason is not None:
            failed.setdefault(group.state.request.request_id, reason)
    return failed
