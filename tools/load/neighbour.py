"""A process that uses a given share of a core: the neighbour that a server must get along with."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

_PERIOD_S: Final = 0.02


@contextlib.contextmanager
def neighbour(cores: float) -> Iterator[list[int]]:
    """Run it meanwhile; gives its process id, in a list that is empty for 0 cores.

    Raises:
        ValueError: not between 0 and 1.
    """
    if not 0 <= cores <= 1:
        raise ValueError(f"{cores} is not between 0 and 1")
    if cores == 0:
        yield []
        return
    process = subprocess.Popen([sys.executable, __file__, str(cores)])
    try:
        yield [process.pid]
    finally:
        process.kill()
        process.wait()


def work(cores: float) -> None:
    """Be busy for this share of every 20 milliseconds by the process's own clock, for ever.

    Where the share is not to be had, because others want the core too, it is not made up for later.
    """
    while True:
        busy_until_s = time.process_time() + _PERIOD_S * cores
        while time.process_time() < busy_until_s:
            pass
        time.sleep(_PERIOD_S * (1 - cores))


if __name__ == "__main__":
    work(float(sys.argv[1]))
