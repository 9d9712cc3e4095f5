"""What an action costs in processor time, whatever else the process of the tests holds."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import process_time

_TRIES = 3


def least_cpu_s(action: Callable[[], object]) -> float:
    """Seconds of this process, the least of three runs.

    Without the garbage collector: a look at all that thousands of tests before have left would be counted, and took as
    long as what was measured.
    """
    taken_s = []
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(_TRIES):
            begin = process_time()
            action()
            taken_s.append(process_time() - begin)
    finally:
        if enabled:
            gc.enable()
    return min(taken_s)
