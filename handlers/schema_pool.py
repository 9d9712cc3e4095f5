"""Makes grammars of the schemas that requests bring along, in processes that can be killed, and keeps the latest."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from handlers.errors import Problem, refused
from handlers.schema_check import SchemaLimits
from handlers.settings import Settings
from handlers.worker_pool import WorkerFault, WorkerLimits, WorkerLost, WorkerPool, WorkersBusy, WorkerTooSlow

_KEPT: Final = 128
"""Answers that are kept, refusals among them; not that one took too long, which a busy machine may be to blame for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One schema of a request."""

    schema: dict[str, Any]
    param: str
    """Where it stands in the request."""
    closed: bool
    """An object that says nothing of ``additionalProperties`` has none."""
    arguments: bool
    """It describes a function's arguments, which are an object."""


@dataclass(frozen=True, slots=True)
class Made:
    """The grammar, and for each schema a value under it where values were asked for."""

    grammar: str
    examples: list[Any]


class SchemaPool:
    """Checks schemas and makes grammars, within ``settings.schema_time_s`` a request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        limits = WorkerLimits(
            settings.schema_workers, settings.schema_time_s, settings.schema_wait_s, settings.schema_memory_bytes
        )
        self._workers = WorkerPool("handlers.schema_worker", limits)
        self._limits = SchemaLimits(settings.max_schema_depth, settings.max_schema_properties)
        self._kept: OrderedDict[bytes, dict[str, Any]] = OrderedDict()

    async def made(self, rules: str, schemas: Sequence[Asked], *, examples: bool) -> Made:
        """The grammar of these rules, in which ``schema_0`` and so on stand for the schemas, at least one.

        Raises:
            Problem: 422 unsupported - the keyword, the limit or the fault, by its path. 429 queue_full where no process
                came free in time; 500 where none could be started.
        """
        request = {
            "limits": asdict(self._limits),
            "rules": rules,
            "schemas": [asdict(asked) for asked in schemas],
            "examples": examples,
        }
        param = schemas[0].param
        key = self._key(request, param)
        answer = await self._answer(key, request, param)
        if "refused" in answer:
            raise refused("unsupported", answer["refused"], answer["param"])
        return Made(answer["grammar"], answer["examples"])

    async def close(self) -> None:
        """End the idle processes."""
        await self._workers.close()

    def _key(self, request: dict[str, Any], param: str) -> bytes:
        """What the answer is kept under. A request that is too large is not read to its end."""
        most, left = self._settings.max_schema_bytes, self._settings.max_schema_bytes
        digest = hashlib.sha256()
        for piece in json.JSONEncoder().iterencode(request):
            digest.update(piece.encode())
            left -= len(piece)
            if left < 0:
                message = f"{param}: the schemas of this request have more than {most} bytes together"
                raise refused("unsupported", message, param)
        return digest.digest()

    async def _answer(self, key: bytes, request: dict[str, Any], param: str) -> dict[str, Any]:
        if key not in self._kept:
            self._kept[key] = await self._ask(request, param)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    async def _ask(self, request: dict[str, Any], param: str) -> dict[str, Any]:
        settings = self._settings
        try:
            answer: dict[str, Any] = await self._workers.ask(request)
        except WorkersBusy:
            headers = {"Retry-After": str(settings.retry_after_s)}
            message = "Too many schemas sent in requests wait to be read; try again soon"
            raise Problem(429, "queue_full", message, headers=headers) from None
        except WorkerTooSlow:
            message = f"{param} takes longer than the {settings.schema_time_s:g} seconds allowed to compile"
            raise refused("unsupported", message, param) from None
        except WorkerFault as fault:
            if isinstance(fault, WorkerLost):
                raise refused("unsupported", f"{param} cannot be compiled within its limits", param) from None
            message = "The process that reads schemas did not start; the cause is in the server's log"
            raise Problem(500, "internal", message) from None
        return answer
