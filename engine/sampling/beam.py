"""Beam search for one request: which beams go on and which hypotheses are finished; it never touches a model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.sampling.params import DrawSettings, FinishRule
from engine.sampling.penalties import TokenCounts, penalise
from engine.sampling.sampler import largest, raw_logprobs
from engine.types import BeamHypothesis, Request, StepToken

_OUT = -1.0e9
"""Added to the score of what must not be picked; large against any sum of logprobs, as in transformers' search."""


@dataclass(slots=True)
class _Node:
    """One generated token and the way back to the prompt; hypotheses share their common beginning."""

    token_id: int
    parent: _Node | None
    logprob: float | None
    top: tuple[tuple[int, float], ...] | None


@dataclass(slots=True)
class _Beam:
    node: _Node | None
    """None before the first token."""
    counts: TokenCounts | None


@dataclass(slots=True)
class _Finished:
    node: _Node
    score: float


class BeamSearch:
    """The search of width W that transformers' ``generate`` does with num_beams = num_return_sequences = W,
    do_sample=False, length_penalty=1.0 and early_stopping=False.

    In every round the beams' log-softmax (after penalties, which act on the logits) is added to their cumulative
    scores, and the likeliest continuations are taken in order. Those among the first W that end (an EOS or stop
    token, or the token budget) become hypotheses, scored by cumulative logprob / generated tokens, the ending token
    included; only the best W hypotheses are kept. The first W that do not end are the beams of the next round. The
    search is over when W hypotheses are kept and the best running beam's score, divided by its own length, is not
    above the worst of them; or when every continuation looked at has ended, as at the token budget.

    Scores are float32 sums, as there. Of equal scores the lower beam, then the smaller token id, comes first.
    Width 1 is a greedy search on the penalised logits. Temperature, top_k, top_p and the seed have no part in it.
    """

    def __init__(self, request: Request, rule: FinishRule, device: torch.device) -> None:
        """Start before the first token of ``request``, which has ``use_beam_search`` and ``n`` as the width."""
        self.width = request.sampling.n
        self._rule = rule
        self._settings = DrawSettings.of(request.sampling, choice=0)
        counts = TokenCounts.start(self._settings, request.prompt_ids, device)
        self._beams = [_Beam(None, counts)]
        self._scores = torch.zeros(1, dtype=torch.float32, device=device)  # [beams]
        self._finished: list[_Finished] = []
        self._generated = 0

    @property
    def last_tokens(self) -> list[int]:
        """The newest token of each running beam; empty before the first token."""
        return [beam.node.token_id for beam in self._beams if beam.node is not None]

    def advance(self, logits: Tensor) -> list[int] | None:
        """Add one token.

        Args:
            logits: float32 ``[beams, vocab]``, in the order of the running beams; in the first round one row, the
                prompt's.

        Returns:
            For each beam of the next round the index of the row that it continues (a row may have several children,
            or none); None when the search is over.
        """
        logits = logits.float()
        vocab = logits.shape[1]
        # Enough that ``width`` continuations are left when the likeliest tokens of every beam are all ending ones.
        looked_at = max(2, 1 + len(self._rule.end_ids)) * self.width
        if not self._generated and vocab < looked_at:
            # A tiny vocabulary: the missing continuations come from copies of the prompt's beam that rank last.
            logits = logits.expand(self.width, vocab)
            self._beams *= self.width
            self._scores = self._scores.new_tensor([0.0] + [_OUT] * (self.width - 1))
        totals = (self._logprobs(logits) + self._scores[:, None]).flatten()  # [beams * vocab]
        scores, picks = largest(totals, looked_at)  # both [looked_at], or fewer
        rows: list[int] = (picks // vocab).tolist()
        tokens: list[int] = (picks % vocab).tolist()
        self._generated += 1

        ends = [self._rule.check(token, self._generated)[0] is not None for token in tokens]
        finishing = [index for index in range(min(self.width, len(ends))) if ends[index]]
        ending = torch.tensor(ends, dtype=torch.float32, device=scores.device)
        running, order = largest(scores + ending * _OUT, self.width)  # both [width]
        continuing: list[int] = order.tolist()
        nodes = self._grow(logits, rows, tokens, {*finishing, *continuing})

        averages: list[float] = (scores / self._generated).tolist()
        self._finished += [_Finished(nodes[index], averages[index]) for index in finishing]
        self._finished.sort(key=lambda hypothesis: -hypothesis.score)  # stable: of equals the older stays ahead
        del self._finished[self.width :]
        if all(ends) or self._settled(running):
            return None

        parents = [rows[index] for index in continuing]
        self._beams = [self._child(self._beams[rows[index]], nodes[index]) for index in continuing]
        self._scores = running
        return parents if self._generated > 1 else [0] * len(parents)  # the first round has the prompt's row alone

    def hypotheses(self) -> list[BeamHypothesis]:
        """The finished hypotheses, best first, once ``advance`` has returned None."""
        found = []
        for choice, finished in enumerate(self._finished):
            tokens: list[StepToken] = []
            node: _Node | None = finished.node
            while node is not None:
                tokens.append(StepToken(choice, node.token_id, node.logprob, node.top))
                node = node.parent
            tokens.reverse()
            last = tokens[-1]
            last.finish_reason, last.stop_token_id = self._rule.check(last.token_id, len(tokens))
            found.append(BeamHypothesis(tokens, finished.score))
        return found

    def _settled(self, running: Tensor) -> bool:
        """Whether no running beam (scores ``[beams]``, descending) can improve on the hypotheses kept."""
        if len(self._finished) < self.width:
            return False
        return (running[0] / self._generated).item() <= self._finished[-1].score

    def _logprobs(self, logits: Tensor) -> Tensor:
        """Log-softmax after penalties, float32 ``[beams, vocab]``, of ``logits`` of the same shape."""
        if not self._settings.penalised:
            return torch.log_softmax(logits, dim=-1)
        rows = [
            penalise(row, beam.counts, self._settings) if beam.counts is not None else row
            for row, beam in zip(logits, self._beams, strict=True)
        ]
        return torch.log_softmax(torch.stack(rows), dim=-1).float()

    def _grow(self, logits: Tensor, rows: list[int], tokens: list[int], wanted: set[int]) -> dict[int, _Node]:
        """The new nodes of the continuations ``wanted``, with the raw logprobs that the request asks for."""
        indices = sorted(wanted)
        found: list[tuple[float | None, tuple[tuple[int, float], ...] | None]]
        if self._settings.logprob:
            tops = [self._settings.top_logprobs] * len(indices)
            found = [*raw_logprobs(logits[[rows[i] for i in indices]], [tokens[i] for i in indices], tops)]
        else:
            found = [(None, None)] * len(indices)
        return {
            index: _Node(tokens[index], self._beams[rows[index]].node, logprob, top)
            for index, (logprob, top) in zip(indices, found, strict=True)
        }

    @staticmethod
    def _child(parent: _Beam, node: _Node) -> _Beam:
        counts = parent.counts
        if counts is not None:
            counts = counts.copy()
            counts.add(node.token_id)
        return _Beam(node, counts)
