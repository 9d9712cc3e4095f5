"""The mock's language model: a distribution over 32 tokens that a hash of prompt and answer chooses, and draws from it.

Between two words any of 32 beginnings may come; their probabilities fall like a power of the rank, in one of eight
shapes. Inside a word the next token is as good as certain. So temperature, top_k, top_p and penalties mean what they
mean for a real model, and text stays readable.
"""

from __future__ import annotations

import math
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Final

from engine.mock_orders import MockOrders
from engine.sampling.thinking import ThinkingLimit
from engine.text.byte_tokenizer import TURN_END
from engine.text.tokenizer import TextTokenizer
from engine.types import GREEDY_BELOW, Request, SamplingParams

CANDIDATES: Final = 32
"""Tokens that share the probability of one position."""
_MASK: Final = (1 << 64) - 1
_SHAPES: Final = 8
_SHORTEST: Final = 6
"""Tokens before which no choice ends by itself."""
_LENGTH_SPREAD: Final = 58
"""A choice ends by itself after 63 tokens at the latest, at the next end of a word."""
_END_RANK: Final = 5
"""Where the end of the answer stands among the candidates between two words."""
_NEVER: Final = 1 << 62

_WORDS: Final = (
    " the| of| and| to| in| is| that| for| it| with| on| this| from| which| one| you| all| would| when| who| will|"
    " more|"
    " what| about| than| time| new| some| people| water| light| answer| question| model| number| table| music| Paris|"
    " small| great| world| house| after| before| because| between| never| always|, and|, but|. The|. It|! |? |; |: |\n|"
    "你好|世界|天气很好|我们|可以|今天|问题|回答|学习|的|是|在|，|。|人工智能| café| naïve|"
    " straße| Привет| 😀| 🚀| 👩‍🚀| 42| 3.14"
)

Top = tuple[tuple[int, float], ...]
"""(token id, raw logprob), descending."""


def _normal(weights: Sequence[float]) -> tuple[float, ...]:
    total = sum(weights)
    return tuple(math.log(weight / total) for weight in weights)


_OPEN: Final = tuple(
    _normal([(rank + 1) ** -(0.6 + 0.15 * shape) for rank in range(CANDIDATES)]) for shape in range(_SHAPES)
)
"""Log probabilities by rank between two words, [shape][rank]."""
_CERTAIN: Final = tuple(
    _normal([1000.0 + 500.0 * shape, *(1.0 / rank for rank in range(1, CANDIDATES))]) for shape in range(_SHAPES)
)
"""The same where the next token is known."""


@dataclass(slots=True)
class Voice:
    """One choice or beam: where it stands in its text."""

    context: int
    """A hash of the prompt and of all tokens so far."""
    length: int
    """After so many tokens it ends at the next end of a word."""
    draw_key: int
    """Of (seed, choice)."""
    last: int = _NEVER
    """The number of the token that must be the end, where one must."""
    most: int = _NEVER
    """After so many tokens it is cut off."""
    may_end: bool = True
    """It ends by itself."""
    position: int = 0
    upcoming: list[int] = field(default_factory=list)
    """Tokens that come next, last one first: the rest of a word, or what the mock was told."""
    counts: dict[int, int] | None = None
    """How often each token was generated; 0 for those of the prompt. Kept only where penalties act."""
    limit: ThinkingLimit | None = None

    def copy(self) -> Voice:
        """A voice that goes on separately."""
        counts = None if self.counts is None else dict(self.counts)
        return Voice(
            self.context,
            self.length,
            self.draw_key,
            self.last,
            self.most,
            self.may_end,
            self.position,
            self.upcoming.copy(),
            counts,
        )


class MockModel:
    """Which tokens may follow, and which one does. Holds nothing of any request."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        words = [tokenizer.encode(word, add_special_tokens=False) for word in _WORDS.split("|")]
        ends = tokenizer.encode(TURN_END, add_special_tokens=False)
        self.end_id = ends[0] if len(ends) == 1 else tokenizer.eos_token_ids[0]
        """What ends an answer."""
        self._tails: dict[int, list[list[int]]] = {}
        """The rests of the words that begin with a token, their last token first."""
        for word in words:
            self._tails.setdefault(word[0], []).append(word[:0:-1])
        self._heads = list(self._tails)
        self._whole = [word[0] for word in words if len(word) == 1]
        self._longest = max(map(len, words))
        self._around = self._heads + self._heads
        self._vocab_size = tokenizer.vocab_size

    def voices(self, request: Request, told: list[int] | None, orders: MockOrders, seed: int) -> dict[int, Voice]:
        """The voices of a request's choices; one for all beams.

        Args:
            request: whose prompt, adapter and sampling count.
            told: tokens to write, and no other.
            orders: about length and end.
            seed: of the draws.
        """
        sampling = request.sampling
        prompt = zlib.crc32(array("q", request.prompt_ids).tobytes())
        if request.adapter is not None:
            prompt ^= zlib.crc32(request.adapter.encode())
        context = mix(prompt)
        made = Voice(context, _SHORTEST + context % _LENGTH_SPREAD, 0, most=sampling.max_tokens)
        if told is not None:
            made.upcoming = self._written(told, orders)
        if orders.finish == "length":
            made.may_end, made.length = False, _NEVER
            most = orders.tokens if told is None else max(1, len(made.upcoming))
            made.most = min(made.most, _NEVER if most is None else most)
        elif told is None and orders.tokens is not None:
            made.may_end, made.length, made.last = False, _NEVER, orders.tokens
        elif told is None and orders.finish == "stop":
            made.last = sampling.max_tokens
        if penalised(sampling):
            made.counts = dict.fromkeys(request.prompt_ids if sampling.repetition_penalty != 1.0 else (), 0)
        if sampling.use_beam_search:
            return {0: made}
        voices = {}
        for choice in range(sampling.n):
            voice = voices[choice] = made.copy() if choice else made
            voice.draw_key = mix(mix(seed) ^ mix(choice))
            voice.limit = ThinkingLimit.of(request.thinking_budget)
        return voices

    def _written(self, told: list[int], orders: MockOrders) -> list[int]:
        """What is told in the wanted length, last token first."""
        ends = [] if orders.finish == "length" else [self.end_id]
        if orders.tokens is not None:
            most = max(0, orders.tokens - len(ends))
            told = (told * (most // max(1, len(told)) + 1))[:most] if told else [self._heads[0]] * most
        return [*ends, *reversed(told)]

    def next_token(self, voice: Voice, sampling: SamplingParams) -> int:
        """The token that comes now; ``take`` goes on with it."""
        forced = self._forced(voice)
        if forced is not None:
            return forced
        context = voice.context
        rank = 0
        if sampling.temperature >= GREEDY_BELOW:
            number = mix(voice.draw_key ^ mix(voice.position)) / 2**64
            if voice.counts is not None:
                return self._drawn_penalised(voice, sampling, number)
            shares = _shares(sampling.temperature, sampling.top_k, sampling.top_p)[context >> 8 & 7]
            rank = bisect_right(shares, number)
        if rank == _END_RANK and voice.may_end and voice.position >= _SHORTEST:
            return self.end_id
        return self._around[context % len(self._heads) + rank]

    def take(self, voice: Voice, token_id: int) -> None:
        """The voice goes on with this token, whoever chose it."""
        upcoming, limit = voice.upcoming, voice.limit
        if limit is not None and limit.forced is not None:
            if token_id == limit.closing_id:  # what was told goes on behind its own closing mark
                while upcoming and upcoming.pop() != token_id:
                    pass
        elif upcoming and upcoming[-1] == token_id:
            upcoming.pop()
        else:
            tails = self._tails.get(token_id)
            voice.upcoming = tails[(voice.context >> 16) % len(tails)].copy() if tails else []
        if limit is not None:
            limit.take(token_id)
        voice.context = mix(voice.context ^ token_id)
        voice.position += 1
        if token_id == self.end_id and voice.length < _NEVER:
            voice.length = voice.position + _LENGTH_SPREAD  # where it is ignored, another end comes
        if voice.counts is not None:
            voice.counts[token_id] = voice.counts.get(token_id, 0) + 1

    def _forced(self, voice: Voice) -> int | None:
        """The token that must come; None between two words."""
        if voice.limit is not None and (closing := voice.limit.forced) is not None:
            return closing
        if voice.upcoming:
            return voice.upcoming[-1]
        left = voice.last - voice.position
        if voice.position >= voice.length or left == 1:
            return self.end_id
        if 1 < left <= self._longest:  # only words of one token surely fit
            return self._whole[voice.context % len(self._whole)]
        return None

    def candidates(self, voice: Voice) -> tuple[list[int], tuple[float, ...]]:
        """The 32 tokens that may come at this place, and their raw log probabilities, likeliest first."""
        forced, context = self._forced(voice), voice.context
        start = context % len(self._heads)
        if forced is not None:
            others = [token for token in self._around[start : start + CANDIDATES] if token != forced]
            return [forced, *others[: CANDIDATES - 1]], _CERTAIN[context >> 8 & 7]
        ids = self._around[start : start + CANDIDATES]
        if voice.may_end and voice.position >= _SHORTEST:
            ids[_END_RANK] = self.end_id
        return ids, _OPEN[context >> 8 & 7]

    def more_candidates(self, known: Sequence[int], wanted: int) -> list[tuple[int, float]]:
        """Tokens beyond those ``known``, far less likely, for a search that is wider than they are many."""
        seen = set(known)
        rest = [token for token in range(self._vocab_size) if token not in seen and token != self.end_id][:wanted]
        rest += rest[-1:] * (wanted - len(rest))
        return [(token, -30.0 - 0.01 * rank) for rank, token in enumerate(rest)]

    def logprobs(self, voice: Voice, token_id: int, wanted: int | None) -> tuple[float, Top | None]:
        """The raw logprob of a token at this place, and those of the ``wanted`` likeliest."""
        ids, values = self.candidates(voice)
        logprob = values[ids.index(token_id)] if token_id in ids else -30.0
        return logprob, None if wanted is None else tuple(zip(ids[:wanted], values, strict=False))

    def penalised_logits(self, voice: Voice, sampling: SamplingParams) -> list[tuple[int, float]]:
        """The candidates and their logits after penalties: repetition, frequency, presence, as in
        ``engine.sampling.penalties``."""
        ids, values = self.candidates(voice)
        counts = voice.counts
        if counts is None:
            return list(zip(ids, values, strict=True))
        found = []
        for token_id, value in zip(ids, values, strict=True):
            count = counts.get(token_id)
            if count is not None:
                value *= max(sampling.repetition_penalty, 1e-150)  # never positive, so it is multiplied
                value -= sampling.frequency_penalty * count + (sampling.presence_penalty if count else 0.0)
            found.append((token_id, value))
        return found

    def _drawn_penalised(self, voice: Voice, sampling: SamplingParams, number: float) -> int:
        found = sorted(self.penalised_logits(voice, sampling), key=lambda pair: -pair[1])
        table = _kept([value for _, value in found], sampling.temperature, sampling.top_k, sampling.top_p)
        return found[bisect_right(table, number)][0]


def penalised(sampling: SamplingParams) -> bool:
    """Whether penalties act: never on greedy choices, always on beams."""
    if sampling.temperature < GREEDY_BELOW and not sampling.use_beam_search:
        return False
    return sampling.repetition_penalty != 1.0 or bool(sampling.presence_penalty or sampling.frequency_penalty)


@lru_cache(maxsize=64)
def _shares(temperature: float, top_k: int, top_p: float) -> tuple[list[float], ...]:
    """For each shape, where the ranks' shares of [0, 1) begin and end."""
    return tuple(_kept(values, temperature, top_k, top_p) for values in _OPEN)


def _kept(logits: Sequence[float], temperature: float, top_k: int, top_p: float) -> list[float]:
    """The ends of the shares of those that top_k and top_p keep, but for the last, of descending logits."""
    weights = [math.exp((value - logits[0]) / temperature) for value in logits[: top_k if top_k > 0 else None]]
    total = sum(weights)
    sums = list(accumulate(weight / total for weight in weights))
    kept = next((index + 1 for index, value in enumerate(sums) if value >= top_p), len(sums))
    return [value / sums[kept - 1] for value in sums[: kept - 1]]


def mix(value: int) -> int:
    """A 64-bit hash of an integer (the finaliser of SplitMix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
