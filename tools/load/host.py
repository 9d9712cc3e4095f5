"""A quick probe of the machine itself: how fast all its cores together read memory, now."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Sequence

_BYTES_PER_THREAD = 96 << 20
"""Well above what a processor caches."""


class MemoryProbe:
    """Reads large arrays on all cores at once. Decoding with few requests is bound by exactly this speed."""

    def __init__(self, threads: int | None = None, bytes_per_thread: int = _BYTES_PER_THREAD) -> None:
        import numpy

        count = threads or len(os.sched_getaffinity(0))
        self._arrays = [numpy.ones(bytes_per_thread // 8, dtype=numpy.int64) for _ in range(count)]
        # An OR over integers is the cheapest arithmetic that reads everything; it lets go of the interpreter's lock.
        self._reduce = numpy.bitwise_or.reduce

    def gb_per_s(self, repeats: int = 3) -> float:
        """Gigabytes (10^9 bytes) a second, the median of ``repeats`` passes; 20 to 50 ms in all."""
        return statistics.median(self._pass() for _ in range(repeats))

    def _pass(self) -> float:
        spans: list[tuple[float, float]] = []
        start = threading.Barrier(len(self._arrays))

        def work(index: int) -> None:
            start.wait()
            begin = time.perf_counter()
            self._reduce(self._arrays[index])
            spans.append((begin, time.perf_counter()))

        threads = [threading.Thread(target=work, args=(index,)) for index in range(len(self._arrays))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed_s = max(end for _, end in spans) - min(begin for begin, _ in spans)
        return float(sum(array.nbytes for array in self._arrays)) / elapsed_s / 1e9


def changed_speed(readings: Sequence[float], tolerance: float = 0.2) -> bool:
    """Whether the fastest of these readings is more than ``tolerance`` above the slowest: a host in two states."""
    return bool(readings) and max(readings) > min(readings) * (1 + tolerance)
