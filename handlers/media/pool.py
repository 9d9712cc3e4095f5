"""Turns files into encoders' inputs in processes that can be killed: a hostile file costs its own request only."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any, Final

from handlers.errors import Problem, internal, refused
from handlers.media.limits import MB, MediaLimits
from handlers.media.parts import PreparedMedia, SourceFile
from handlers.worker_pool import WorkerFault, WorkerLimits, WorkerLost, WorkerPool, WorkersBusy, WorkerTooSlow

if TYPE_CHECKING:
    from handlers.media.spool import Spool

_WORKER: Final = "handlers.media.worker"
"""By name: the module is for the processes alone."""
_START_S: Final = 120.0
"""Its libraries take some seconds to load, many on a machine that has no core to spare."""
_GRACE_S: Final = 10.0
"""A worker ends what is late by itself; it is killed where it does not."""
_MAX_TOKENS: Final = 1 << 20
"""Of an item; a process that a file has taken over might say anything."""
_RETRY_AFTER_S: Final = 1
_LOG: Final = logging.getLogger(__name__)


class MediaPool:
    """At most ``limits.decode_workers`` processes, each with one file at a time, ``decode_memory_bytes`` and
    ``decode_s`` for it. They live on; each file is decoded in a fork of its own, see worker.py."""

    def __init__(self, limits: MediaLimits, model_folder: Path) -> None:
        self._limits = limits
        self._model = str(model_folder)
        self.workers = WorkerPool(
            _WORKER,
            WorkerLimits(
                limits.decode_workers,
                limits.decode_s + _GRACE_S,
                limits.decode_wait_s,
                limits.decode_memory_bytes,
                _START_S,
                interrupts=True,
            ),
        )
        """The processes."""

    async def start(self) -> None:
        """Start a process ahead of the first request, and load the model's processors in it.

        Raises:
            Problem: 500; what is missing is in the log.
        """
        if answer := await self._ask({}, "media"):
            self._check({"failed": str(answer), **answer})

    async def prepare(self, file: SourceFile, spool: Spool) -> PreparedMedia:
        """What the model's processor makes of a file, in a new folder of the spool.

        Raises:
            Problem: 422 media_invalid or media_too_large for the part; 429 queue_full where no process came free within
                ``decode_wait_s``; 503 where the disk has no room; 500 where a process could not be started.
        """
        part, limits = file.part, self._limits
        # A folder of its own is all that a hostile file could write to.
        features = spool.new_folder() / "features.safetensors"
        request = {
            "path": str(file.path),
            "kind": part.kind,
            "said": part.audio_format,
            "features": str(features),
            "limits": {
                "max_pixels": limits.max_pixels,
                "max_video_s": limits.max_video_s,
                "max_audio_s": limits.max_audio_s,
                "disk_reserve_bytes": limits.disk_reserve_bytes,
                "decode_s": limits.decode_s,
            },
        }
        answer = await self._ask(request, part.param)
        self._refuse(answer, part.param)
        if (room := answer.get("room")) is not None:
            spool.room(room)
            raise _no_room()
        self._check(answer)
        tokens = answer["tokens"]
        if not isinstance(tokens, int) or not 0 < tokens <= _MAX_TOKENS:
            self._check({"failed": f"{tokens!r:.40} tokens of one item"})
        return PreparedMedia(part, tokens, bytes.fromhex(answer["hash"]), str(features))

    async def close(self) -> None:
        """End all idle processes."""
        await self.workers.close()

    async def _ask(self, request: Mapping[str, Any], param: str) -> dict[str, Any]:
        try:
            return await self.workers.ask({"model": self._model, **request})
        except WorkersBusy:
            message = f"Too many media wait to be decoded, {param} with them; try again soon"
            raise Problem(429, "queue_full", message, headers={"Retry-After": str(_RETRY_AFTER_S)}) from None
        except WorkerTooSlow:
            return {"late": True}
        except WorkerLost:
            return {"ended": 0}
        except WorkerFault:
            _LOG.error("the process that decodes media did not start; are the packages of the extra 'media' installed?")
            raise internal() from None

    def _refuse(self, answer: Mapping[str, Any], param: str) -> None:
        """Raise what the file is to blame for."""
        limits = self._limits
        if (code := answer.get("refused")) is not None:
            raise refused(str(code), f"{param} {answer['reason']}", param)
        if answer.get("late"):
            reason = f"takes longer than the {limits.decode_s:g} s allowed to be decoded"
            raise refused("media_too_large", f"{param} {reason}", param)
        if answer.get("memory"):
            reason = f"needs more than the {limits.decode_memory_bytes // MB} MB of memory allowed to be decoded"
            raise refused("media_too_large", f"{param} {reason}", param)
        if (ended := answer.get("ended")) is not None:
            reason = f"could not be decoded: the process that did ended{_by(ended)}"
            raise refused("media_invalid", f"{param} {reason}", param)

    def _check(self, answer: Mapping[str, Any]) -> None:
        """Raise what this server is to blame for."""
        if (failed := answer.get("failed")) is not None:
            _LOG.error("media could not be prepared: %s", failed)
            raise internal()


def _by(signal_number: int) -> str:
    try:
        return f" by {Signals(signal_number).name}"
    except ValueError:
        return " without an answer"


def _no_room() -> Problem:
    message = "The server's disk has no room for the media of this request; try again soon"
    return Problem(503, "queue_full", message, headers={"Retry-After": str(_RETRY_AFTER_S)})
