"""A deterministic executor without weights: its text depends on prompt, adapter, seed, choice and position alone."""

from __future__ import annotations

import math
import time
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.executor import ReadAdapter, RequestRound
from engine.stats import ExecutorStats
from engine.text.byte_tokenizer import TURN_END, mock_tokenizer
from engine.text.tokenizer import TextTokenizer
from engine.types import (
    GREEDY_BELOW,
    BeamHypothesis,
    FinishReason,
    GrammarError,
    ModelInfo,
    Request,
    SamplingParams,
    StepToken,
)

_MASK = (1 << 64) - 1
_CANDIDATES = 32
"""Tokens that share the probability of one position."""
_GREEDY_SEED = 0x9E3779B97F4A7C15
"""Stands in for the seed where the seed must not matter."""
_SHORTEST, _LENGTH_SPREAD = 6, 58
"""A choice ends by itself after 6 to 63 tokens, at the next end of a word."""

_WORDS = (
    " the| of| and| to| in| is| that| for| it| with| on| this| from| which| one| you| all| would| when| who| will|"
    " more|"
    " what| about| than| time| new| some| people| water| light| answer| question| model| number| table| music| Paris|"
    " small| great| world| house| after| before| because| between| never| always|, and|, but|. The|. It|! |? |; |: |\n|"
    "你好|世界|天气很好|我们|可以|今天|问题|回答|学习|的|是|在|，|。|人工智能| café| naïve|"
    " straße| Привет| 😀| 🚀| 👩‍🚀| 42| 3.14"
)


Replies = Callable[[str], str | None]
"""From a prompt's text to what is written, control tokens as text; None for made-up text."""


class MockFailure(RuntimeError):
    """The failure that ``fail_at`` provokes."""


@dataclass(slots=True)
class _Voice:
    """One choice's or beam's source of tokens."""

    key: int
    length: int
    """After so many tokens it ends at the next end of a word."""
    words: int = 0
    position: int = 0
    upcoming: list[int] = field(default_factory=list)
    """Rest of the current word, last token first."""


@dataclass(slots=True)
class _Running:
    request: Request
    voices: dict[int, _Voice]
    beams: dict[int, list[StepToken]] | None
    """The tokens of each beam so far; None for choices."""


class MockExecutor:
    """An ``Executor`` whose model is a hash function. Every choice ends by itself unless ``ignore_eos``.

    Every position has 32 candidate tokens whose probabilities sum to one. A greedy choice takes the likeliest and
    does not depend on the seed. Penalties, top_k and top_p do not change the text.
    """

    def __init__(
        self,
        tokenizer: TextTokenizer | None = None,
        *,
        max_position_embeddings: int = 131072,
        step_delay_s: float = 0.0,
        fail_at: int | None = None,
        replies: Replies | None = None,
    ) -> None:
        """Args:
        tokenizer: whose ids to make; the built-in byte-level one by default.
        step_delay_s: seconds that every round sleeps.
        fail_at: the round, counted from 1 since the last failure, that raises; None for never.
        replies: what to write, for a script.
        """
        self._replies = replies
        self._tokenizer = tokenizer or mock_tokenizer()
        self.info = ModelInfo(
            vocab_size=self._tokenizer.vocab_size,
            max_position_embeddings=max_position_embeddings,
            eos_token_ids=self._tokenizer.eos_token_ids,
            dtype="none",
            device="none",
            architecture="Mock",
        )
        self.step_delay_s = step_delay_s
        self.fail_at = fail_at
        self._rounds = 0
        self._words = [self._tokenizer.encode(word, add_special_tokens=False)[::-1] for word in _WORDS.split("|")]
        eos = self._tokenizer.encode(TURN_END, add_special_tokens=False)
        self._eos = eos[0] if len(eos) == 1 else self._tokenizer.eos_token_ids[0]
        self._eos_ids = frozenset(self._tokenizer.eos_token_ids)
        self._common = sorted({token_id for word in self._words for token_id in word})
        self._requests: dict[str, _Running] = {}
        self._live = 0
        self.sequences_run = 0

    @property
    def live_sequences(self) -> int:
        """Live choices, and the width of each beam request."""
        return self._live

    @property
    def stats(self) -> ExecutorStats:
        """Every admitted sequence runs in every round; there are no pages."""
        return ExecutorStats(self.live_sequences)

    def refuse(self, request: Request) -> str | None:
        """Never: it needs no memory."""
        return None

    def prepared(self, request: Request) -> bool:
        """Always. Raises GrammarError for a grammar without a text that is known to be under it."""
        if request.grammar is not None and request.forced_text is None:
            raise GrammarError("The mock cannot hold answers to a grammar.")
        return True

    def can_admit(self, request: Request) -> bool:
        """Always."""
        return True

    def add(self, request: Request) -> None:
        """Admit a request. Raises ValueError when its id is admitted already."""
        if request.request_id in self._requests:
            raise ValueError(f"request {request.request_id!r} is admitted already")
        sampling = request.sampling
        prompt_key = zlib.crc32(array("q", request.prompt_ids).tobytes())
        if request.adapter is not None:
            prompt_key ^= zlib.crc32(request.adapter.encode())
        steady = sampling.use_beam_search or sampling.temperature < GREEDY_BELOW
        key = _mix(prompt_key ^ _mix(_GREEDY_SEED if steady else sampling.seed))
        told = self._told(request)
        voices = {}
        for choice in range(sampling.n):
            # Greedy choices of one prompt are alike; beams and drawn choices differ.
            voice_key = key if steady and not sampling.use_beam_search else _mix(key + choice)
            voices[choice] = _Voice(voice_key, _SHORTEST + voice_key % _LENGTH_SPREAD)
            if told is not None:
                voices[choice].upcoming = [self._eos, *reversed(told)]
        running = _Running(request, voices, None)
        if sampling.use_beam_search:
            for beam, voice in voices.items():  # the beams differ in their first two tokens
                first, second = beam % len(self._common), beam // len(self._common) % len(self._common)
                voice.upcoming = [self._common[second], self._common[first]]
            running.beams = {beam: [] for beam in voices}
        self._requests[request.request_id] = running
        self._live += sampling.n

    def _told(self, request: Request) -> list[int] | None:
        """The tokens that the mock was told to write for this request, if it was."""
        text = request.forced_text
        if text is None and self._replies is not None:
            text = self._replies(self._tokenizer.decode(request.prompt_ids, skip_special_tokens=False))
        return None if text is None else self._tokenizer.encode(text, add_special_tokens=False)

    def remove(self, request_id: str) -> None:
        """Drop a request; an unknown id is fine."""
        running = self._requests.pop(request_id, None)
        if running is not None:
            self._live -= len(running.voices)

    def remove_choice(self, request_id: str, choice: int) -> bool:
        """End one choice; an unknown one is fine, and so is a beam request."""
        running = self._requests.get(request_id)
        if running is None or running.beams is not None or running.voices.pop(choice, None) is None:
            return running is not None
        self._live -= 1
        if not running.voices:
            del self._requests[request_id]
        return bool(running.voices)

    def read_adapter(self, folder: str, max_rank: int | None) -> ReadAdapter:
        """Nothing is read: a name is enough to answer otherwise."""
        return {}

    def load_adapter(self, number: int, name: str, read: ReadAdapter) -> None:
        """Nothing is kept."""

    def unload_adapter(self, number: int) -> None:
        """Nothing was kept."""

    def step(self) -> list[RequestRound]:
        """Run one round; see ``Executor.step``. Raises MockFailure where ``fail_at`` says so."""
        if self.step_delay_s:
            time.sleep(self.step_delay_s)
        self._rounds += 1
        self.sequences_run = self._live
        if self.fail_at is not None and self._rounds >= self.fail_at:
            self._rounds = 0
            raise MockFailure("this mock was told to fail")
        rounds = []
        for request_id, running in list(self._requests.items()):
            if running.beams is not None:
                done = self._grow(running.beams, running)
                rounds.append(RequestRound(request_id, [], _ranked(running.beams) if done else None, done))
            else:
                tokens = [
                    self._next(choice, voice, running.request.sampling) for choice, voice in running.voices.items()
                ]
                for token in tokens:
                    if token.finish_reason is not None:
                        del running.voices[token.choice]
                        self._live -= 1
                done = not running.voices
                rounds.append(RequestRound(request_id, tokens, None, done))
            if done:
                self.remove(request_id)
        return rounds

    def _next(self, choice: int, voice: _Voice, sampling: SamplingParams) -> StepToken:
        if not voice.upcoming:
            if voice.position >= voice.length:
                voice.upcoming = [self._eos]
                voice.length += _LENGTH_SPREAD  # with ignore_eos it goes on, and comes here again
            else:
                voice.words += 1
                voice.upcoming = self._words[_mix(voice.key + voice.words) % len(self._words)].copy()
        token_id = voice.upcoming.pop()
        voice.position += 1
        logprob, top = None, None
        if sampling.logprobs is not None or sampling.rank_by_logprob or sampling.use_beam_search:
            logprob, top = self._logprobs(token_id, voice, sampling)
        finish_reason, stop_token_id = self._finish(token_id, voice.position, sampling)
        return StepToken(choice, token_id, logprob, top, finish_reason, stop_token_id)

    def _finish(self, token_id: int, position: int, sampling: SamplingParams) -> tuple[FinishReason | None, int | None]:
        if token_id in self._eos_ids and not sampling.ignore_eos:
            return "stop", None
        if token_id in sampling.stop_token_ids:
            return "stop", token_id
        return ("length", None) if position >= sampling.max_tokens else (None, None)

    def _logprobs(
        self, token_id: int, voice: _Voice, sampling: SamplingParams
    ) -> tuple[float, tuple[tuple[int, float], ...] | None]:
        """The chosen token's logprob, and the likeliest candidates where they were asked for.

        The chosen token gets a hashed share of the probability (over a half where it must be the likeliest), the
        other candidates share the rest by a softmax over hashed logits.
        """
        noise = _mix(voice.key ^ _mix(voice.position))
        share = (noise >> 11) / (1 << 53)
        greedy = sampling.temperature < GREEDY_BELOW or sampling.use_beam_search
        chosen = 0.5 + 0.49 * share if greedy else 0.05 + 0.9 * share
        logprob = math.log(chosen)
        if sampling.logprobs is None:
            return logprob, None
        others = self._others(token_id, noise)
        weights = [math.exp(6.0 * (_mix(noise + other) >> 11) / (1 << 53)) for other in others]
        scale = math.log1p(-chosen) - math.log(sum(weights))
        candidates = [(token_id, logprob)]
        candidates += [(other, math.log(weight) + scale) for other, weight in zip(others, weights, strict=True)]
        candidates.sort(key=lambda candidate: -candidate[1])
        return logprob, tuple(candidates[: sampling.logprobs])

    def _others(self, token_id: int, noise: int) -> Sequence[int]:
        start = noise % len(self._common)
        around = self._common[start:] + self._common[:start]
        return [other for other in around[:_CANDIDATES] if other != token_id][: _CANDIDATES - 1]

    def _grow(self, beams: dict[int, list[StepToken]], running: _Running) -> bool:
        """Add one token to every beam that has not ended; whether all have."""
        growing = [beam for beam, tokens in beams.items() if not tokens or tokens[-1].finish_reason is None]
        for beam in growing:
            beams[beam].append(self._next(beam, running.voices[beam], running.request.sampling))
        return all(beams[beam][-1].finish_reason is not None for beam in growing)


def _ranked(beams: dict[int, list[StepToken]]) -> list[BeamHypothesis]:
    """Finished beams as hypotheses, best first."""
    ranked = [
        BeamHypothesis(tokens, sum(token.logprob or 0.0 for token in tokens) / len(tokens)) for tokens in beams.values()
    ]
    ranked.sort(key=lambda beam: -beam.score)
    for index, beam in enumerate(ranked):
        for token in beam.tokens:
            token.choice = index
    return ranked


def make_executor(
    *, max_position_embeddings: int = 131072, step_delay_s: float = 0.0, fail_at: int | None = None
) -> MockExecutor:
    """For ``engine.process``: a MockExecutor in a process of its own."""
    return MockExecutor(max_position_embeddings=max_position_embeddings, step_delay_s=step_delay_s, fail_at=fail_at)


def _mix(value: int) -> int:
    """A 64-bit hash of an integer (the finaliser of SplitMix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
