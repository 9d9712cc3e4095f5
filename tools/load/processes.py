"""Processes as Linux shows them in /proc: a server's whole tree, its processor time, its memory, who listens."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

PROC: Final = Path("/proc")
_TICKS_S: Final = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One line of /proc/PID/stat."""

    pid: int
    parent: int
    session: int
    cpu_s: float
    """Its own processor time, and that of the children whose end it has been told."""


@dataclass(frozen=True, slots=True)
class MachineStat:
    """Processor time of the whole machine since its start."""

    busy_s: float
    steal_s: float
    """What the host gave to other machines while this one wanted to run."""


def process_stat(pid: int, proc: Path = PROC) -> ProcessStat | None:
    """None: there is no such process (any more)."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name stands in brackets and may hold anything, brackets and spaces included.
    fields = text[text.rfind(")") + 2 :].split()
    if fields[0] in ("Z", "X"):
        # Its time is its parent's as soon as the parent asks; until then it would be lost either way.
        return None
    return ProcessStat(
        pid=pid, parent=int(fields[1]), session=int(fields[3]), cpu_s=sum(map(int, fields[11:15])) * _TICKS_S
    )


def machine_stat(proc: Path = PROC) -> MachineStat:
    """The first line of /proc/stat."""
    numbers = [int(field) for field in (proc / "stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, interrupts, soft_interrupts, steal = numbers[:8]
    return MachineStat((user + nice + system + interrupts + soft_interrupts) * _TICKS_S, steal * _TICKS_S)


def all_processes(proc: Path = PROC) -> list[ProcessStat]:
    """Every process that can be seen."""
    found = (process_stat(int(entry), proc) for entry in os.listdir(proc) if entry.isdecimal())
    return [stat for stat in found if stat is not None]


def tree(root: int, processes: Iterable[ProcessStat]) -> list[ProcessStat]:
    """A process, its descendants, and the rest of the session that it may lead: orphans of its children stay there."""
    processes = list(processes)
    inside = {root}
    while True:
        more = {
            stat.pid for stat in processes if stat.pid not in inside and (stat.parent in inside or stat.session == root)
        }
        if not more:
            return [stat for stat in processes if stat.pid in inside]
        inside |= more


def trees(roots: Collection[int], proc: Path = PROC) -> list[ProcessStat]:
    """The union of several trees."""
    processes = all_processes(proc)
    return list({stat.pid: stat for root in roots for stat in tree(root, processes)}.values())


def memory_bytes(pid: int, proc: Path = PROC, kind: Literal["Pss", "Rss"] = "Pss") -> int:
    """Memory of a process. 0: gone, or not ours to see.

    Args:
        kind: Pss, the proportional set size, splits pages among the processes that share them, so sums are right; Rss,
            the resident set size, does not depend on what other processes do.
    """
    with contextlib.suppress(OSError):
        for line in (proc / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) * 1024
    return 0


def listener(port: int, proc: Path = PROC) -> int | None:
    """The process that listens on a TCP port of this machine; None: nobody does, or it is not ours to see."""
    wanted = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    wanted.add(f"socket:[{fields[9]}]")
    for stat in all_processes(proc) if wanted else ():
        with contextlib.suppress(OSError):
            for descriptor in (proc / str(stat.pid) / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor) in wanted:
                        return stat.pid
    return None
