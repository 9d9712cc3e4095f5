"""A process that uses a given share of a core: the neighbour that a server must get along with."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator


@contextlib.contextmanager
def neighbour(cores: float, period_s: float = 0.02, core: int | None = None) -> Iterator[list[int]]:
    """Run it meanwhile; gives its process id, in a list that is empty for 0 cores.

    Args:
        cores: the share of a core that it uses.
        period_s: of each such period it works that share, then sleeps.
        core: the number of the core that it stays on; None lets it wander.

    Raises:
        ValueError: ``cores`` is not between 0 and 1.
    """
    if not 0 <= cores <= 1:
        raise ValueError(f"{cores} is not between 0 and 1")
    if cores == 0:
        yield []
        return
    process = subprocess.Popen([sys.executable, __file__, str(cores), str(period_s)])
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        yield [process.pid]
    finally:
        process.kill()
        process.wait()


def work(cores: float, period_s: float) -> None:
    """Be busy for this share of every period by the process's own clock, for ever.

    Where the share is not to be had, because others want the core too, it is not made up for later.
    """
    while True:
        busy_until_s = time.process_time() + period_s * cores
        while time.process_time() < busy_until_s:
            pass
        if cores < 1:
            time.sleep(period_s * (1 - cores))


if __name__ == "__main__":
    work(float(sys.argv[1]), float(sys.argv[2]))
