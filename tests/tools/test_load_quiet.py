"""Whose processor time is whose, from made-up readings and a made-up /proc; waiting for a quiet moment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.load.host import MemoryProbe, changed_speed
from tools.load.neighbour import neighbour
from tools.load.processes import (
    MachineStat,
    all_processes,
    listener,
    machine_stat,
    memory_bytes,
    process_stat,
    tree,
)
from tools.load.quiet import Reading, Usage, read, usage, wait_until_quiet

TICKS_S = os.sysconf("SC_CLK_TCK")


def write_process(proc: Path, pid: int, parent: int, session: int, ticks: tuple[int, ...], state: str = "S") -> None:
    """A process named with everything that makes a careless reader stumble."""
    (proc / str(pid)).mkdir()
    times = " ".join(map(str, ticks))
    text = f"{pid} (a) b (c) {state} {parent} 9 {session} 0 -1 0 0 0 0 0 {times} 20 0 1 0 500"
    (proc / str(pid) / "stat").write_text(text)


def test_a_process_line_is_read_whatever_its_name(tmp_path: Path) -> None:
    """User and system time, and that of the children that have ended."""
    write_process(tmp_path, 7, 3, 5, (100, 20, 3, 1))

    stat = process_stat(7, tmp_path)

    assert stat is not None
    assert (stat.pid, stat.parent, stat.session) == (7, 3, 5)
    assert stat.cpu_s == pytest.approx(124 / TICKS_S)


def test_a_process_that_is_gone_or_a_zombie_is_none(tmp_path: Path) -> None:
    """Both use nothing any more."""
    write_process(tmp_path, 8, 1, 8, (1, 1, 0, 0), state="Z")
    assert (process_stat(8, tmp_path), process_stat(9, tmp_path)) == (None, None)


def test_the_machines_busy_time_leaves_out_idle_and_waiting(tmp_path: Path) -> None:
    """user, nice, system, irq and softirq are busy; steal is told apart."""
    (tmp_path / "stat").write_text("cpu  100 10 30 9999 8888 2 3 44 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    assert machine_stat(tmp_path) == MachineStat(pytest.approx(145 / TICKS_S), pytest.approx(44 / TICKS_S))


def test_a_tree_holds_descendants_and_the_rest_of_its_session(tmp_path: Path) -> None:
    """A grandchild whose parent has died belongs to init now, but still to the session."""
    write_process(tmp_path, 10, 1, 10, (0,) * 4)
    write_process(tmp_path, 11, 10, 10, (0,) * 4)
    write_process(tmp_path, 12, 11, 12, (0,) * 4)
    write_process(tmp_path, 13, 1, 10, (0,) * 4)
    write_process(tmp_path, 14, 1, 14, (0,) * 4)

    assert sorted(stat.pid for stat in tree(10, all_processes(tmp_path))) == [10, 11, 12, 13]


def test_memory_is_the_proportional_set_size_unless_the_resident_one_is_asked_for(tmp_path: Path) -> None:
    """In bytes; 0 for a process that may not be looked at."""
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "smaps_rollup").write_text("00-ff ---p\nRss:  900 kB\nPss:  600 kB\nPss_Anon: 1 kB\n")
    assert (memory_bytes(5, tmp_path), memory_bytes(6, tmp_path)) == (614_400, 0)
    assert memory_bytes(5, tmp_path, "Rss") == 921_600


def test_whoever_listens_on_a_port_is_found(tmp_path: Path) -> None:
    """By the socket's number among the process's open files; a client's end of a connection does not count."""
    (tmp_path / "net").mkdir()
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    rows = "   0: 0100007F:1F90 0100007F:AAAA 01 0:0 0:0 0 0 0 111 1\n   1: 0100007F:1F90 0:0 0A 0:0 0:0 0 0 0 222 1\n"
    (tmp_path / "net" / "tcp").write_text(head + rows)
    write_process(tmp_path, 20, 1, 20, (0,) * 4)
    write_process(tmp_path, 21, 1, 21, (0,) * 4)
    for pid, inode in ((20, 111), (21, 222)):
        (tmp_path / str(pid) / "fd").mkdir()
        (tmp_path / str(pid) / "fd" / "4").symlink_to(f"socket:[{inode}]")

    assert listener(0x1F90, tmp_path) == 21
    assert listener(80, tmp_path) is None


def test_this_process_can_be_read() -> None:
    """The real /proc: our own time grows with what we do, and is not taken for another's."""
    before = read([])
    until_s = time.process_time() + 0.05
    while time.process_time() < until_s:
        sum(range(1000))
    after = read([])

    assert after.client_s > before.client_s
    assert after.mine_s == after.client_s


def test_usage_is_split_among_server_client_and_others() -> None:
    """In 2 s: 3 of 4 core-seconds busy, 2 of them ours, half of one our client's."""
    before = Reading(at_s=10, busy_s=100, steal_s=7, mine_s=20, client_s=4)
    after = Reading(at_s=12, busy_s=103, steal_s=7.4, mine_s=22, client_s=4.5)

    found = usage(before, after)

    assert (found.others, found.steal) == (pytest.approx(0.5), pytest.approx(0.2))
    assert (found.server, found.client) == (pytest.approx(0.75), pytest.approx(0.25))
    assert found.disturbance == pytest.approx(0.7)


def test_ticks_that_fall_between_two_readings_do_not_make_others_negative() -> None:
    """Ours may be rounded up while the machine's are rounded down."""
    assert usage(Reading(0, 10, 0, 5, 5), Reading(1, 10.5, 0, 5.51, 5)).others == 0


def readings(others: list[float]) -> tuple[Callable[[], Reading], list[float]]:
    """A reader of a machine on which others use so many cores in each window of 1 s, and the pauses made."""
    moments: Iterator[Reading] = (
        Reading(at_s=index, busy_s=sum(others[:index]), steal_s=0, mine_s=0, client_s=0)
        for index in range(len(others) + 1)
    )
    return lambda: next(moments), []


async def waited(others: list[float], patience_s: float = 100) -> tuple[Usage, list[float], list[float]]:
    """The result of waiting, the pauses, and the windows that were told."""
    take, pauses = readings(others)
    told: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    found = await wait_until_quiet(
        take,
        below_cores=0.1,
        patience_s=patience_s,
        pause=pause,
        told=lambda seen: told.append(round(seen.others, 6)),
    )
    return found, pauses, told


async def test_waiting_ends_with_the_first_quiet_window() -> None:
    """The noisy ones before it are told."""
    found, pauses, told = await waited([0.9, 0.2, 0.05, 0.9])
    assert (found.others, pauses, told) == (pytest.approx(0.05), [1.0] * 3, [0.9, 0.2])


async def test_waiting_gives_up_when_patience_ends() -> None:
    """The last window says that it was not quiet."""
    found, pauses, told = await waited([0.5] * 10, patience_s=3)
    assert (found.others, len(pauses), told) == (pytest.approx(0.5), 3, [0.5, 0.5])


def test_the_memory_probe_gives_a_speed() -> None:
    """Small arrays, so that this test takes no time: some GB/s on any machine."""
    assert 0.1 < MemoryProbe(threads=2, bytes_per_thread=1 << 20).gb_per_s() < 10_000


@pytest.mark.parametrize(
    ("speeds", "changed"), [([], False), ([30.0], False), ([30.0, 35.9], False), ([30.0, 33.0, 36.1], True)]
)
def test_a_host_changed_its_speed_above_a_fifth(speeds: list[float], changed: bool) -> None:
    """The fastest reading against the slowest."""
    assert changed_speed(speeds) is changed


def test_a_neighbour_of_no_cores_is_no_process() -> None:
    """Cases without one start nothing."""
    with neighbour(0) as pids:
        assert pids == []


def test_a_neighbour_runs_until_it_is_not_wanted() -> None:
    """It is a process of its own, and gone afterwards."""
    with neighbour(0.1) as pids:
        assert process_stat(pids[0]) is not None
    assert process_stat(pids[0]) is None


def test_a_neighbour_has_one_core_at_most() -> None:
    """It is a single thread."""
    with pytest.raises(ValueError, match="not between 0 and 1"), neighbour(2):
        pass
