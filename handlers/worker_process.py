"""The inside of a worker_pool.py process: its limits, and its loop over requests.

On the pipes each message is a 4-byte big-endian length and that many bytes of JSON. An answer with a true member
``last`` is the process's last one.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Final

READY: Final = b"ready"
"""What a worker writes first."""


def serve(
    answer: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    opens_files: bool,
    writes_files: bool = False,
    beyond_present: bool = False,
) -> None:
    """Answer requests from stdin on stdout until stdin closes or an answer is the last.

    The process's first argument is its memory limit in bytes, with ``beyond_present`` of what it takes from now on.
    Without ``writes_files`` it can write no file, with it none of more bytes than that limit; without ``opens_files``
    it can open none either, so that all it needs must have been loaded before.
    """
    if sys.platform != "win32":
        memory = int(sys.argv[1])
        present = _present_bytes() if beyond_present else 0
        _limit(memory + present, file_bytes=memory if writes_files else 0, opens_files=opens_files)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(READY)
    sink.flush()
    while (request := _read(source)) is not None:
        given = answer(request)
        data = json.dumps(given).encode()
        sink.write(struct.pack(">I", len(data)) + data)
        sink.flush()
        if given.get("last"):
            return


def _present_bytes() -> int:
    """The address space of this process; 0 where the system does not say."""
    import resource

    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _limit(memory_bytes: int, *, file_bytes: int, opens_files: bool) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not opens_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))


def _read(source: BinaryIO) -> dict[str, Any] | None:
    header = source.read(4)
    if len(header) < 4:
        return None
    request: dict[str, Any] = json.loads(source.read(struct.unpack(">I", header)[0]))
    return request
