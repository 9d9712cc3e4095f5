"""The media of all admitted requests: what their prompts need, and turns of the encoder at what comes next."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from engine.executor import RequestRound
from engine.multimodal.embeddings import Embeddings
from engine.multimodal.family import MediaEncoder
from engine.multimodal.features import load_feature, load_features
from engine.multimodal.prompt import PromptItem, PromptMedia
from engine.multimodal.slices import Encoding
from engine.pace import StepPace
from engine.stats import MediaStats
from engine.types import MediaItem, Request

_log = logging.getLogger(__name__)

SLICE_S: Final = 0.025
"""A turn of the encoder in a round: so long an answer's next token waits for others' images at most, unless the encoder
cannot be stopped for longer."""
CACHE_BYTES: Final = 256 << 20
"""Of embeddings that are kept."""
_SHARE: Final = 0.4
"""And no more than this part of the round before, without its own turn, while answers are being written."""
_KNOWN_CONTENTS: Final = 1 << 16
"""Contents that have a number; one that was forgotten gets a new one, and no cached page is found for it."""
_FIRST_CPU_S: Final = 60.0
"""Processor time that is told of turns before the first one has been measured."""

_FAILED: Final = "The {kind} at prompt token {start} could not be encoded."
_MISFITS: Final = "The {kind} at prompt token {start} has {found} embeddings, and {tokens} tokens stand for it."
_NOT_FINITE: Final = "The model's encoder computed numbers that are not finite for the {kind} at prompt token {start}."


@dataclass(frozen=True, slots=True)
class Turn:
    """What became of one turn."""

    worked: frozenset[str] = frozenset()
    """Ids of the requests whose items were encoded, in part or whole."""
    failed: dict[str, str] = field(default_factory=dict)
    """Request id -> a sentence for the client."""

    def rounds(self) -> list[RequestRound]:
        """What a round without a step did for these requests."""
        going_on = [RequestRound(name, [], None, done=False, prefilling=True) for name in sorted(self.worked)]
        over = [RequestRound(name, [], None, done=True, failure=why) for name, why in self.failed.items()]
        return going_on + over


@dataclass(slots=True)
class _Job:
    item: MediaItem
    encoding: Encoding


class MediaDesk:
    """Numbers contents, keeps embeddings, and encodes one item after the other, in slices. Not thread safe.

    Which item is next follows from what runs: the oldest sequence whose prompt has come to one without embeddings.
    Further ones of its prompt follow at once, as far as the cache has room for all of them; else its prompt goes on
    first. What nobody waits for any more is given up at its next stop.
    """

    def __init__(
        self,
        encoder: MediaEncoder,
        hidden: int,
        dtype: torch.dtype,
        *,
        slice_s: float = SLICE_S,
        cache_bytes: int = CACHE_BYTES,
        tell: Callable[[float], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Args:
        encoder: of the model.
        hidden: width of an embedding.
        dtype: of the text model.
        slice_s: length of a turn.
        cache_bytes: of embeddings; one item may take more.
        tell: gets the expected processor time of a long turn, as in ``StepPace``.
        clock: seconds.
        """
        self._encoder = encoder
        self._width = hidden
        self._dtype = dtype
        self._slice_s = slice_s
        self._tell = tell
        self._clock = clock
        self._pace = StepPace(tell)
        self._measured = False
        self._threads = torch.get_num_threads()
        self._kept = Embeddings(cache_bytes)
        self._numbers: OrderedDict[bytes, int] = OrderedDict()
        self._last_number = 0
        self._live: dict[str, PromptMedia] = {}
        self._computed: dict[str, int] = {}
        """Of the requests that ran at the last turn, how many of their tokens; the least of their sequences."""
        self._job: _Job | None = None
        self._ended_s = clock()
        self._items = self._kept_items = self._encoded = self._turns_us = 0

    @property
    def stats(self) -> MediaStats:
        """Counts since the start, and the embeddings' memory."""
        counts = (self._items, self._kept_items, self._encoded, self._turns_us)
        return MediaStats(*counts, self._kept.used_bytes)

    def admit(self, request: Request) -> PromptMedia:
        """What the executor needs of a request with media, which counts as live until ``forget``.

        Raises:
            ValueError: the model does not take such media, or they do not fit the prompt.
            OSError, SafetensorError: the encoder's input cannot be read.
        """
        media = PromptMedia(request, [self._item(item) for item in request.media], self._kept)
        self._live[request.request_id] = media
        self._items += len(media.items)
        self._kept_items += sum(item.item.content_hash in self._kept for item in media.items)
        return media

    def forget(self, request_id: str) -> None:
        """The request is over; what is being encoded for nobody else is given up."""
        if self._live.pop(request_id, None) is not None and self._job is not None and not self._waiting_for(self._job):
            self._job.encoding.cancel()
            self._job = None

    def clear(self) -> None:
        """Forget all requests and embeddings."""
        self._live.clear()
        if self._job is not None:
            self._job.encoding.cancel()
            self._job = None
        self._kept.clear()

    def turn(self, reading: Iterable[tuple[PromptMedia, int]], answering: bool) -> Turn:
        """Let the encoder go on for a slice, if it has anything to do.

        Args:
            reading: of each sequence that runs, the oldest first, the media and how many of its tokens are computed.
            answering: sequences run that would gain a token in the next step.
        """
        began_s = self._clock()
        left_s = self._slice_s
        if answering:
            left_s = min(left_s, _SHARE * (began_s - self._ended_s))
        until_s = began_s + left_s
        worked: set[str] = set()
        failed: dict[str, str] = {}
        reading = list(reading)
        self._computed = {}
        for media, computed in reading:
            self._computed[media.request_id] = min(computed, self._computed.get(media.request_id, computed))
        while (job := self._job or self._next(reading)) is not None:
            self._job = job
            worked.update(self._waiting_for(job))
            if not self._go_on(job, left_s):
                break
            self._job = None
            failed = self._finish(job)
            left_s = until_s - self._clock()
            if failed or left_s <= 0:
                break
        self._ended_s = self._clock()
        if worked:
            self._turns_us += int((self._ended_s - began_s) * 1e6)
        return Turn(frozenset(worked - failed.keys()), failed)

    def _item(self, item: MediaItem) -> PromptItem:
        encoder, kind = self._encoder, item.kind
        if kind not in encoder.token_ids:
            raise ValueError(f"the model takes no {kind}")
        if item.tokens < 1:
            raise ValueError(f"an {kind} stands for {item.tokens} tokens")
        named = encoder.position_features(kind)
        found = encoder.positions(kind, {name: load_feature(item.features, name) for name in named})
        if found is not None and found[0].shape[1] != item.tokens:
            raise ValueError(f"{found[0].shape[1]} places of an {kind} are not its {item.tokens} tokens")
        places, advance = (None, item.tokens) if found is None else found
        number = self._numbers.get(item.content_hash)
        if number is None:
            self._last_number -= 1
            number = self._numbers[item.content_hash] = self._last_number
            if len(self._numbers) > _KNOWN_CONTENTS:
                self._numbers.popitem(last=False)
        self._numbers.move_to_end(item.content_hash)
        return PromptItem(item, number, places, advance)

    def _waiting_for(self, job: _Job) -> dict[str, MediaItem]:
        """Who needs what is being encoded, and their own item of it; who has computed it and answers does not."""
        waiting: dict[str, MediaItem] = {}
        for name, media in self._live.items():
            computed = self._computed.get(name, 0)
            for each in media.items:
                if each.end > computed and each.item.content_hash == job.item.content_hash:
                    waiting.setdefault(name, each.item)
        return waiting

    def _next(self, reading: list[tuple[PromptMedia, int]]) -> _Job | None:
        """Begin with the next item, after room was made for it; None where there is none, or no room yet.

        There is room once nothing else is needed by the sequences up to this one: then it is taken in any case.
        """
        needed: set[bytes] = set()
        held = 0
        for media, computed in reading:
            missing = media.missing(computed)
            for item in media.items:
                if item is missing:
                    break
                if item.end > computed and item.item.content_hash not in needed:
                    needed.add(item.item.content_hash)
                    held += self._size(item.item)
            if missing is None:
                continue
            size = self._size(missing.item)
            if held and held + size > self._kept.limit_bytes:
                return None
            self._kept.make_room(size, needed)
            return self._begin(missing.item)
        return None

    def _size(self, item: MediaItem) -> int:
        return item.tokens * self._width * self._dtype.itemsize

    def _begin(self, item: MediaItem) -> _Job:
        def encode() -> Tensor:
            found = self._encoder.encode(item.kind, load_features(item.features))
            return found.to(self._dtype)

        return _Job(item, Encoding(encode, self._encoder.stops(item.kind), self._threads, self._clock))

    def _go_on(self, job: _Job, budget_s: float) -> bool:
        if not self._measured:
            self._tell(_FIRST_CPU_S)
        with self._pace.step(job.item.tokens):
            ended = job.encoding.go_on(budget_s)
        self._measured = True
        return ended

    def _finish(self, job: _Job) -> dict[str, str]:
        """Keep what was encoded; or say of each request that waits for it why it fails."""
        item, waiting, count = job.item, self._waiting_for(job), 0
        try:
            found = job.encoding.result()
        except FileNotFoundError:
            # Whoever gives a request up removes its files before this process hears of it. Others who have the same
            # content have files of their own, which are read next.
            theirs = {
                name for name, media in self._live.items() if any(i.item.features == item.features for i in media.items)
            }
            waiting = {name: own for name, own in waiting.items() if name in theirs}
            reason = _FAILED
        except Exception:
            _log.exception("the encoder failed")
            reason = _FAILED
        else:
            count = len(found)
            if found.shape != (item.tokens, self._width):
                reason = _MISFITS
            elif not found.isfinite().all():
                reason = _NOT_FINITE
            else:
                self._kept.put(item.content_hash, found)
                self._encoded += 1
                return {}
        return {
            name: reason.format(kind=own.kind, start=own.start, tokens=own.tokens, found=count)
            for name, own in waiting.items()
        }
