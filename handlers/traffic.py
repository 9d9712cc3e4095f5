"""What the server has been asked and has answered: counts, times, and averages over a window."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.front_base import FrontCounts
from engine.tally import LATENCY_BOUNDS_S, TTFT_BOUNDS_S, Tally
from engine.types import AnswerReason, MediaKind
from handlers.record import Record

INFERENCE: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Endpoints whose POST is an inference request."""
WINDOW_S: Final = 60.0
"""Averages look back so far at most, in seconds."""


class _Sample(NamedTuple):
    at_s: float
    prompt_tokens: int
    generated_tokens: int


class Traffic:
    """The HTTP side's own counts. Belongs to one event loop.

    Every inference request counts as received when its headers have come, and as succeeded or failed when it is over;
    so received = succeeded + failed + those that are being answered. What counts as failed: every status from 400 on,
    an error event in a stream, and a client that hung up before the end.
    """

    def __init__(
        self, window_requests: int, counts: Callable[[], FrontCounts], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Args:
        window_requests: requests that averages look back over at most; MindIE's DYNAMIC_AVERAGE_WINDOW_SIZE.
        counts: the front's, as they are now.
        clock_s: the clock of ``Record.begun_s``.
        """
        self.received = self.succeeded = self.failed = 0
        self.answers: Counter[tuple[str, int]] = Counter()
        """Answers by endpoint and status, of all requests."""
        self.reasons: Counter[AnswerReason] = Counter()
        """Why the first choice of a succeeded request ended."""
        self.ttft_s = Tally(TTFT_BOUNDS_S)
        self.latency_s = Tally(LATENCY_BOUNDS_S)
        """From the coming of a request to the end of its answer, of those that succeeded."""
        self.media: Counter[MediaKind] = Counter()
        """Images, videos and recordings that were made ready for the engine."""
        self.media_s = Tally(TTFT_BOUNDS_S)
        """What reading and decoding the media of a request took, also where that failed."""
        self._counts = counts
        self._clock_s = clock_s
        # Each request leaves two samples: when it comes and when it is over.
        self._samples: deque[_Sample] = deque(maxlen=2 * window_requests)
        self._ttfts_s: deque[float] = deque(maxlen=window_requests)
        self._gaps_s: deque[float] = deque(maxlen=window_requests)

    def begin(self, record: Record) -> None:
        """A request has come."""
        if _infers(record):
            self.received += 1
            self._sample(record.begun_s)

    def first_token(self, record: Record) -> None:
        """Its first token has come."""
        ttft_s = record.ttft_s
        if ttft_s is not None:
            self.ttft_s.add(ttft_s)
            self._ttfts_s.append(ttft_s)

    def end(self, record: Record, now_s: float) -> None:
        """It is over, however it ended."""
        self.answers[record.endpoint, record.ended_status] += 1
        if not _infers(record):
            return
        if record.media_s is not None:
            self.media_s.add(record.media_s)
            self.media.update(item.kind for item in record.media)
        if record.failed:
            self.failed += 1
        else:
            self.succeeded += 1
            self.latency_s.add(now_s - record.begun_s)
            if record.generation is not None:
                self.reasons.update(record.generation.reasons[:1])
        self._sample(now_s)
        generation = record.generation
        if generation is not None and generation.first_s is not None:
            gaps = len(generation.stats.round_ms) - 1
            if gaps > 0:
                self._gaps_s.append((generation.heard_s - generation.first_s) / gaps)

    def refused(self, status: int) -> None:
        """A connection got an answer before a request could be read from it."""
        self.answers["other", status] += 1

    @property
    def failed_part(self) -> float:
        """Failed requests as a part of all received, since the start."""
        return self.failed / self.received if self.received else 0.0

    @property
    def tokens_per_s(self) -> tuple[float, float]:
        """Prompt and generated tokens a second over the window, up to now."""
        if not self._samples:
            return 0.0, 0.0
        now_s, counts = self._clock_s(), self._counts()
        since = next((sample for sample in self._samples if sample.at_s >= now_s - WINDOW_S), self._samples[-1])
        passed_s = now_s - since.at_s
        if passed_s <= 0:
            return 0.0, 0.0
        return (
            (counts.prompt_tokens - since.prompt_tokens) / passed_s,
            (counts.generated_tokens - since.generated_tokens) / passed_s,
        )

    @property
    def averaged(self) -> int:
        """Requests in the window, of those that had a first token."""
        return len(self._ttfts_s)

    @property
    def average_ttft_s(self) -> float:
        """Of the window's requests; 0 before the first."""
        return sum(self._ttfts_s) / len(self._ttfts_s) if self._ttfts_s else 0.0

    @property
    def average_gap_s(self) -> float:
        """Between two tokens, each request of the window counting once; 0 before the first."""
        return sum(self._gaps_s) / len(self._gaps_s) if self._gaps_s else 0.0

    def _sample(self, at_s: float) -> None:
        counts = self._counts()
        self._samples.append(_Sample(at_s, counts.prompt_tokens, counts.generated_tokens))


def _infers(record: Record) -> bool:
    return record.method == "POST" and record.endpoint in INFERENCE
