"""Beam search on the mock's model: the steps of ``engine.sampling.beam``, without tensors."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.mock_model import MockModel, Voice
from engine.types import BeamHypothesis, FinishReason, SamplingParams, StepToken

Finish = Callable[[int, int], tuple[FinishReason | None, int | None]]
"""From a token's id and its number, counted from 1, to why the choice ends with it, and the stop token's id."""


@dataclass(slots=True)
class _Node:
    """One token and the way back; beams share their common beginning."""

    token: StepToken
    parent: _Node | None


@dataclass(slots=True)
class _Beam:
    voice: Voice
    node: _Node | None = None
    score: float = 0.0
    """Of all its tokens, after penalties."""


class MockBeams:
    """The search of one request; see ``engine.sampling.beam.BeamSearch``, whose rules it follows."""

    def __init__(
        self, model: MockModel, sampling: SamplingParams, voice: Voice, finish: Finish, looked_at: int
    ) -> None:
        """Args:
        model: what is searched.
        sampling: whose ``n`` is the width.
        voice: before the first token.
        finish: tells the tokens that end a choice.
        looked_at: continuations that are compared in a round, for each beam of the width.
        """
        self.width = sampling.n
        self._model = model
        self._sampling = sampling
        self._finish = finish
        self._looked_at = looked_at * self.width
        self._beams = [_Beam(voice)]
        self._ended: list[_Beam] = []
        """Their scores are means."""
        self._generated = 0

    def advance(self) -> bool:
        """Add one token to every beam; whether the search is over."""
        options = [(beam.score + value, index, token) for index, beam in enumerate(self._beams)
                   for token, value in self._continuations(beam)]  # fmt: skip
        best = heapq.nlargest(self._looked_at, options, key=lambda option: option[0])
        self._generated += 1
        running: list[_Beam] = []
        for place, (score, index, token) in enumerate(best):
            reason, stop_token_id = self._finish(token, self._generated)
            if reason is None:
                if len(running) < self.width:
                    running.append(self._grown(index, score, StepToken(0, token)))
            elif place < self.width:
                ended = self._grown(index, score, StepToken(0, token, None, None, reason, stop_token_id))
                ended.score /= self._generated
                self._ended.append(ended)
        self._ended.sort(key=lambda hypothesis: -hypothesis.score)
        del self._ended[self.width :]
        self._beams = running
        if not running:
            return True
        settled = len(self._ended) == self.width
        return settled and max(beam.score for beam in running) / self._generated <= self._ended[-1].score

    def hypotheses(self) -> list[BeamHypothesis]:
        """The finished beams, best first, once the search is over."""
        found = []
        for choice, ended in enumerate(self._ended):
            tokens, node = [], ended.node
            while node is not None:
                tokens.append(replace(node.token, choice=choice))
                node = node.parent
            found.append(BeamHypothesis(tokens[::-1], ended.score))
        return found

    def _continuations(self, beam: _Beam) -> list[tuple[int, float]]:
        """Tokens that may come, and their log probabilities after penalties."""
        found = self._model.penalised_logits(beam.voice, self._sampling)
        if beam.voice.counts is not None:
            peak = max(value for _, value in found)
            total = peak + math.log(sum(math.exp(value - peak) for _, value in found))
            found = [(token, value - total) for token, value in found]
        if beam.voice.upcoming and self._generated:
            return found[:1]  # a word that has begun is not broken off
        if not self._generated and len(found) < self._looked_at:
            found += self._model.more_candidates([token for token, _ in found], self._looked_at - len(found))
        return found

    def _grown(self, index: int, score: float, token: StepToken) -> _Beam:
        parent = self._beams[index]
        voice = parent.voice.copy()
        if self._sampling.logprobs is not None:
            token.logprob, token.top = self._model.logprobs(voice, token.token_id, self._sampling.logprobs)
        self._model.take(voice, token.token_id)
        return _Beam(voice, _Node(token, parent.node), score)
