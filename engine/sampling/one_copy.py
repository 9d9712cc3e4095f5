"""Draws all of a step's tokens on the device and brings them to the host in one copy; no other call waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from engine.sampling.noise import log_exponential_noise
from engine.sampling.sampler import Draw, Row, likeliest
from engine.sampling.selector import TorchSelector

Filter = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
"""Of scores float32 ``[rows, vocab]``, top-k int32 ``[rows]`` and top-p float32 ``[rows]``, either of which may be
None: the scores with all that is left out at minus infinity."""

_OFF: Final = -torch.inf


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look at a step's logits found."""

    likeliest: list[int]
    """Of each row."""
    finite: list[int]
    """Whether the likeliest token's logit is a finite number, of each row."""
    draws: list[Draw]
    """For each pair that was asked for. Those of rows that are not finite mean nothing."""


class OneCopySelector(TorchSelector):
    """The ``Selector`` of devices that are told what to do long before they do it.

    The steps are those of ``Sampler``, for all rows together and in float32: the noise is the same function of (seed,
    choice, position, token id), with a relative error of 2^-22, so that another token than the ``Sampler``'s is drawn
    only where two are that close. Equal logits at the border of top-k all stay.
    """

    def __init__(self, keep: Filter, most_top_k: int) -> None:
        """Args:
        keep: applies top-k and top-p.
        most_top_k: the largest top-k that it takes.
        """
        self._keep = keep
        self._most_top_k = most_top_k

    def look(self, logits: Tensor, rows: Sequence[tuple[int, Row]]) -> Looked:
        """A token for each pair of a row of float32 ``logits`` ``[rows, vocab]`` and what draws from it."""
        numbers = self.enqueue(logits, rows).cpu()
        return self._read(numbers, logits.shape, rows)

    def enqueue(self, logits: Tensor, rows: Sequence[tuple[int, Row]]) -> Tensor:
        """All that ``look`` needs to know, int32 ``[numbers]`` on the device; nothing here waits for the device.

        First the likeliest token and whether it is finite, of each row; then each pair's token; then of the pairs that
        report logprobs the token's, and of those that list the likeliest, their ids and logprobs, as bits of float32.
        """
        best = likeliest(logits)  # [rows]
        finite = logits.gather(1, best[:, None])[:, 0].isfinite()
        parts = [best.int(), finite.int()]
        indices = _given([index for index, _ in rows], logits)
        chosen = best.index_select(0, indices)  # [pairs]
        drawn = [place for place, (_, row) in enumerate(rows) if not (row.settings.greedy and row.free)]
        if drawn:
            places = _given(drawn, logits)
            picked = self._pick(logits.index_select(0, indices.index_select(0, places)), [rows[at][1] for at in drawn])
            chosen = chosen.index_copy(0, places, picked)
        parts.append(chosen.int())
        reported = [place for place, (_, row) in enumerate(rows) if row.settings.logprob]
        if reported:
            places = _given(reported, logits)
            logprobs = torch.log_softmax(logits.index_select(0, indices.index_select(0, places)), dim=-1)
            of_chosen = logprobs.gather(1, chosen.index_select(0, places)[:, None])[:, 0]
            parts.append(of_chosen.view(torch.int32))
            most = _most_listed(rows, logits.shape[1])
            if most:
                # Stable, so that of equals the smaller id comes first.
                ordered = logprobs.sort(dim=-1, descending=True, stable=True)
                parts += [ordered.indices[:, :most].int().flatten(),
                          ordered.values[:, :most].contiguous().view(torch.int32).flatten()]  # fmt: skip
        return torch.cat(parts)

    def _pick(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        """A token for each of ``logits`` ``[rows, vocab]``, none of which is both greedy and free; int64 ``[rows]``."""
        scores = logits.clone()
        for place, row in enumerate(rows):
            if row.counts is not None and not row.settings.greedy:
                scores[place] = _penalised(scores[place], row)
            if row.constraint is not None:
                allowed = row.constraint.allowed
                scores[place] = torch.full_like(scores[place], _OFF).index_copy_(0, allowed, scores[place][allowed])
        warm = [place for place, row in enumerate(rows) if not row.settings.greedy]
        if warm:
            places = _given(warm, logits)
            settings = [rows[place].settings for place in warm]
            temperatures = _given([one.temperature for one in settings], logits, torch.float32)
            heated = self._filtered(
                scores.index_select(0, places) / temperatures[:, None], [rows[place] for place in warm]
            )
            keys = [(one.key, rows[place].position) for one, place in zip(settings, warm, strict=True)]
            every = torch.arange(logits.shape[1], device=logits.device)
            scores = scores.index_copy(0, places, heated - log_exponential_noise(keys, every))
        picked = likeliest(scores)
        for place, row in enumerate(rows):
            if row.forced is not None:
                picked[place] = row.forced
        return picked

    def _filtered(self, scores: Tensor, rows: Sequence[Row]) -> Tensor:
        """Top-k, then top-p, for rows of scores; rows that have only one of them, or neither, go by themselves."""
        kinds: dict[tuple[bool, bool], list[int]] = {}
        vocab = scores.shape[1]
        for place, row in enumerate(rows):
            top_k = row.settings.top_k if row.settings.top_k < vocab else 0
            if top_k > self._most_top_k:
                border = torch.topk(scores[place], top_k).values[-1]
                scores[place] = scores[place].masked_fill(scores[place] < border, _OFF)
                top_k = 0
            if top_k or row.settings.top_p < 1.0:
                kinds.setdefault((bool(top_k), row.settings.top_p < 1.0), []).append(place)
        for (by_rank, by_mass), members in kinds.items():
            places = _given(members, scores)
            settings = [rows[place].settings for place in members]
            ranks = _given([one.top_k for one in settings], scores, torch.int32)
            masses = _given([one.top_p for one in settings], scores, torch.float32)
            kept = self._keep(scores.index_select(0, places), ranks if by_rank else None, masses if by_mass else None)
            scores = scores.index_copy(0, places, kept)
        return scores

    def _read(self, numbers: Tensor, shape: torch.Size, rows: Sequence[tuple[int, Row]]) -> Looked:
        """What ``enqueue`` has written, for logits of this shape."""
        count, vocab = shape
        pairs = len(rows)
        reported = [place for place, (_, row) in enumerate(rows) if row.settings.logprob]
        most = _most_listed(rows, vocab)
        listed = len(reported) * most
        best, finite, chosen, of_chosen, ids, values = torch.split(
            numbers, [count, count, pairs, len(reported), listed, listed]
        )
        draws = [Draw(token_id, None, None) for token_id in chosen.tolist()]
        tops = values.view(torch.float32).view(-1, most).tolist() if most else [[] for _ in reported]
        of_tops = ids.view(-1, most).tolist() if most else [[] for _ in reported]
        for place, logprob, names, found in zip(
            reported, of_chosen.view(torch.float32).tolist(), of_tops, tops, strict=True
        ):
            draws[place].logprob = logprob
            wanted = rows[place][1].settings.top_logprobs
            if wanted is not None:
                draws[place].top = tuple(zip(names[:wanted], found[:wanted], strict=True))
        return Looked(best.tolist(), finite.tolist(), draws)


def keep_by_sorting(scores: Tensor, top_k: Tensor | None, top_p: Tensor | None) -> Tensor:
    """The ``Filter`` of devices that have none of their own: one sort of each row."""
    ordered, places = scores.sort(dim=-1, stable=True)
    if top_k is not None:
        border = ordered.gather(1, (scores.shape[1] - top_k.long())[:, None])
        ordered = ordered.masked_fill(ordered < border, -torch.inf)
    if top_p is not None:
        left_out = torch.softmax(ordered, dim=-1).cumsum(dim=-1) <= 1 - top_p[:, None]
        left_out[:, -1] = False
        ordered = ordered.masked_fill(left_out, -torch.inf)
    return torch.empty_like(scores).scatter_(1, places, ordered)


def _given(numbers: Sequence[float], like: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
    """Numbers of the host on the device of another tensor; nothing waits for them to arrive."""
    return torch.tensor(numbers, dtype=dtype).to(like.device, non_blocking=True)


def _most_listed(rows: Sequence[tuple[int, Row]], vocab: int) -> int:
    """The longest list of likeliest tokens that a pair reports."""
    return min(vocab, max((row.settings.top_logprobs or 0 for _, row in rows if row.settings.logprob), default=0))


def _penalised(logits: Tensor, row: Row) -> Tensor:
    """``penalties.penalise`` in float32, within its range."""
    settings, counts = row.settings, row.counts
    assert counts is not None
    seen = logits[counts.ids].double()
    seen = torch.where(seen > 0, seen / settings.repetition_penalty, seen * settings.repetition_penalty)
    seen -= settings.frequency_penalty * counts.generated
    seen -= settings.presence_penalty * (counts.generated > 0)
    most = torch.finfo(torch.float32).max
    return logits.index_copy(0, counts.ids, seen.clamp_(-most, most).float())
