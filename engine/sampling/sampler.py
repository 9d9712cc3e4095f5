"""From rows of logits to one token a row, with its logprobs: filters, the draw, and what is reported of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.grammar.constraint import Constraint
from engine.sampling.noise import exponential_noise
from engine.sampling.params import DrawSettings
from engine.sampling.penalties import TokenCounts, penalise
from engine.sampling.thinking import ThinkingLimit

_BLOCK = 256


@dataclass(slots=True)
class Row:
    """The sequence that a row of logits belongs to."""

    settings: DrawSettings
    position: int
    """Tokens that the choice generated before."""
    counts: TokenCounts | None
    """Needed where ``settings.penalised``."""
    constraint: Constraint | None = None
    """Holds the choice to a grammar; it has looked at the tokens that may come next."""
    thinking: ThinkingLimit | None = None
    """Ends a thought that is as long as it may be."""

    @property
    def forced(self) -> int | None:
        """The token that must come next, whatever the logits are; None where there is a choice."""
        return None if self.thinking is None else self.thinking.forced

    @property
    def free(self) -> bool:
        """Any token may come next."""
        return self.constraint is None and self.forced is None

    def go_on(self, token_id: int) -> None:
        """The choice goes on with this token, which does not end it."""
        if self.constraint is not None:
            self.constraint.take(token_id)
        if self.thinking is not None:
            self.thinking.take(token_id)


@dataclass(slots=True)
class Draw:
    """The token of one row."""

    token_id: int
    logprob: float | None
    top: tuple[tuple[int, float], ...] | None


class Sampler:
    """Chooses one token per row. The steps, in this order:

    1. raw log-softmax in float32, for rows that report or rank by logprobs; nothing below changes it
    2. repetition penalty (prompt and output)
    3. frequency penalty (output)
    4. presence penalty (output)
    5. rows held to a grammar: only the tokens that it allows next stay; where a thought is as long as it may be, the
       token that closes it is taken, and done
    6. greedy rows: the likeliest token, and done. Penalties are off in them (see ``DrawSettings.of``)
    7. temperature
    8. top-k: the k largest; of equal logits at the border the smaller token ids stay
    9. top-p on what top-k left, renormalised: the fewest of the likeliest whose probabilities add up to top_p or more,
       at least one; of equal probabilities at the border the smaller token ids stay
    10. the draw: the largest of ``logit / temperature - log(exponential noise)``, which picks each token with its
       probability (the Gumbel-max identity)

    Top-k is looked up before the division by the temperature, which keeps the order, so that only the kept values are
    divided. From step 7 on all is float64. Every row is worked on by itself and its noise is keyed by (seed, choice,
    position, token id): equal logits give equal tokens in any batch. There is no state and no global generator.
    """

    def draw(self, logits: Tensor, rows: Sequence[Row]) -> list[Draw]:
        """One token per row.

        Args:
            logits: ``[rows, vocab]`` on any device; every row's largest value is finite.
            rows: one entry per row of ``logits``.
        """
        logits = logits.float()
        greedy = likeliest(logits)  # [rows]
        if all(row.settings.greedy and row.free for row in rows):
            chosen = greedy
        else:
            picks = [
                greedy[index] if row.settings.greedy and row.free else pick(logits[index], row)
                for index, row in enumerate(rows)
            ]
            chosen = torch.stack(picks)  # [rows]
        token_ids: list[int] = chosen.tolist()
        draws = [Draw(token_id, None, None) for token_id in token_ids]
        reported = [index for index, row in enumerate(rows) if row.settings.logprob]
        if reported:
            tops = [rows[index].settings.top_logprobs for index in reported]
            found = raw_logprobs(logits[reported], [token_ids[index] for index in reported], tops)
            for index, (logprob, top) in zip(reported, found, strict=True):
                draws[index].logprob, draws[index].top = logprob, top
        return draws


def raw_logprobs(
    logits: Tensor, token_ids: Sequence[int], tops: Sequence[int | None]
) -> list[tuple[float, tuple[tuple[int, float], ...] | None]]:
    """Per row the chosen token's log-softmax, and those of the likeliest tokens where asked for.

    Args:
        logits: float32 ``[rows, vocab]``, untouched by penalties, temperature and filters.
        token_ids: the chosen token of each row.
        tops: how many of the likeliest to list, or None for no list. They come in descending order, equals by id.
    """
    logprobs = torch.log_softmax(logits, dim=-1)
    ids = torch.tensor(token_ids, dtype=torch.int64, device=logits.device)
    chosen: list[float] = logprobs.gather(1, ids[:, None])[:, 0].tolist()
    found: list[tuple[float, tuple[tuple[int, float], ...] | None]] = []
    for row, logprob, top in zip(logprobs, chosen, tops, strict=True):
        if top is None:
            found.append((logprob, None))
            continue
        values, likeliest = largest(row, top)
        found.append((logprob, tuple(zip(likeliest.tolist(), values.tolist(), strict=True))))
    return found


def likeliest(logits: Tensor) -> Tensor:
    """The index of each row's largest value, int64 ``[rows]``, of ``logits`` ``[rows, vocab]``; of equals the smallest.

    A NaN counts as the largest. torch.argmax over a whole vocabulary is not vectorised on a CPU; the largest value of
    each block and then the place in one block take a tenth of its time there (4 us a row of 49,152).
    """
    rows, vocab = logits.shape
    blocks = vocab // _BLOCK
    if blocks < 2:
        return logits.argmax(dim=-1)
    whole = logits[:, : blocks * _BLOCK].reshape(rows, blocks, _BLOCK)  # [rows, blocks, block]
    maxima = whole.amax(dim=-1)  # [rows, blocks]
    block = maxima.argmax(dim=-1)  # [rows]; the first of equals, or of NaNs
    every = torch.arange(rows, device=logits.device)
    index = block * _BLOCK + whole[every, block].argmax(dim=-1)
    if blocks * _BLOCK == vocab:
        return index
    rest = logits[:, blocks * _BLOCK :]
    in_rest = rest.argmax(dim=-1)
    best, other = logits[every, index], rest[every, in_rest]
    later = (other > best) | (other.isnan() & ~best.isnan())
    return torch.where(later, blocks * _BLOCK + in_rest, index)


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest of ``values`` ``[n]`` in descending order and their indices; of equals the smaller index first.

    torch.topk leaves open which of equal values it returns, and bfloat16 logits are often equal.
    """
    k = min(k, values.numel())
    if k == 0:
        return values[:0], torch.arange(0, device=values.device)
    if k == values.numel():
        ordered = values.sort(descending=True, stable=True)
        return ordered.values, ordered.indices
    border = torch.topk(values, k, sorted=False).values.amin()
    indices = (values >= border).nonzero()[:, 0]  # ascending; at least k
    kept = values[indices]
    ordered = kept.sort(descending=True, stable=True)
    return ordered.values[:k], indices[ordered.indices[:k]]


def nucleus_size(scores: Tensor, top_p: float) -> Tensor:
    """How many of the likeliest tokens top-p keeps, as a tensor of one integer >= 1.

    Args:
        scores: float64 ``[k]``, logits over temperature, descending.
        top_p: above 0.
    """
    reached = torch.softmax(scores, dim=-1).cumsum(dim=-1)  # [k]
    # A token stays when those before it have not reached top_p yet.
    return (reached[:-1] < top_p).sum() + 1


def pick(logits: Tensor, row: Row) -> Tensor:
    """The token of one row of float32 ``logits`` ``[vocab]``, as a tensor of one integer."""
    if row.forced is not None:
        return torch.tensor(row.forced, device=logits.device)
    if not row.settings.greedy:
        return _draw_one(logits, row)
    if row.constraint is None:
        return likeliest(logits[None])[0]
    allowed = row.constraint.allowed  # [allowed]
    return allowed[logits[allowed].argmax()]


def _draw_one(logits: Tensor, row: Row) -> Tensor:
    """Steps 2 to 10 for one row of ``logits`` ``[vocab]`` that is not greedy; the token id as a tensor of one."""
    settings = row.settings
    if row.counts is not None:
        logits = penalise(logits, row.counts, settings)
    if row.constraint is not None:
        candidates = row.constraint.allowed  # [candidates], ascending
        logits = logits[candidates]
    else:
        candidates = torch.arange(logits.numel(), device=logits.device)
    if settings.top_k or settings.top_p < 1.0:
        kept, places = largest(logits, settings.top_k or logits.numel())
        token_ids = candidates[places]
    else:
        kept, token_ids = logits, candidates
    scores = kept.to(torch.float64) / settings.temperature  # [k]
    if settings.top_p < 1.0:
        size = nucleus_size(scores, settings.top_p)
        scores = scores.masked_fill(torch.arange(scores.numel(), device=scores.device) >= size, float("-inf"))
    noise = exponential_noise(settings.key, row.position, token_ids)
    return token_ids[(scores - torch.log(noise)).argmax()]
