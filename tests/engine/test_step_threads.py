"""The number of threads of a step follows the times of the steps before."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import pytest

from engine.step_threads import LARGE_STEP_ROWS, StepThreads


class Machine:
    """Steps with made-up times, and the clock that they move."""

    def __init__(self, most: int = 2) -> None:
        self.now_s = 0.0
        self.threads = StepThreads(most, lambda: self.now_s)

    def run(self, steps: int, seconds: Callable[[int], float], rows: int = 4) -> list[int]:
        """The threads of each of ``steps``, when each takes ``seconds(threads)``."""
        used = []
        for _ in range(steps):
            with self.threads.step(rows) as threads:
                self.now_s += seconds(threads)
            used.append(threads)
        return used


def quiet(threads: int) -> float:
    """Two threads take 6 ms, one takes 10."""
    return 0.010 if threads == 1 else 0.006


def busy(threads: int) -> float:
    """Beside a busy neighbour two threads take 20 ms."""
    return 0.010 if threads == 1 else 0.020


def test_all_threads_run_on_a_quiet_machine() -> None:
    """But for trials of one step, which lose and become rare: six in 2,000 steps, none in the last 900."""
    used = Machine().run(2000, quiet)
    assert used.count(1) == 6
    assert used[-900:].count(1) == 0


def test_one_thread_takes_over_beside_a_neighbour() -> None:
    """Within two dozen steps, and but for short trials it stays."""
    machine = Machine()
    machine.run(200, quiet)
    used = machine.run(400, busy)
    assert 2 not in used[24:56]
    assert used.count(2) < 36


def test_all_threads_come_back_when_the_neighbour_goes() -> None:
    """After the next trial; later ones lose."""
    machine = Machine()
    machine.run(100, quiet)
    machine.run(300, busy)
    used = machine.run(2000, quiet)
    assert used[-600:].count(1) <= 6


def test_a_neighbour_that_was_there_from_the_start_is_noticed() -> None:
    """What is usual was slow, so only a trial without cause can tell; the first comes after 16 steps."""
    used = Machine().run(1000, busy)
    assert used[:24] == [2] * 16 + [1] * 8
    assert used.count(2) < 52


def test_trials_become_rare_while_they_are_lost() -> None:
    """One thread is confirmed again and again: of its later steps, 3 of 800 are tried on both."""
    machine = Machine()
    machine.run(2000, busy)
    assert machine.run(800, busy).count(2) == 3


def test_steps_that_wait_for_something_else_decide_nothing() -> None:
    """Every third step takes three times as long, on either way: all threads stay but for trials."""
    machine = Machine()
    times = cycle([1.0, 1.0, 3.0])
    used = machine.run(2000, lambda threads: quiet(threads) * next(times))
    assert used.count(1) < 30


def test_steps_of_a_new_size_find_their_way_back() -> None:
    """Their first ones run on one thread beside a neighbour, who then goes."""
    machine = Machine()
    machine.run(100, quiet)
    machine.run(300, busy)
    machine.run(20, busy, rows=9)
    used = machine.run(2000, quiet, rows=9)
    assert used[-600:].count(1) <= 6


def test_steps_of_different_sizes_do_not_look_slow() -> None:
    """The end of a prompt between decode steps takes longer without any neighbour: it brings no further trial."""
    mixed, used = Machine(), []
    for _ in range(100):
        used += mixed.run(2, quiet)
        used += mixed.run(1, lambda threads: 10 * quiet(threads), rows=60)
    assert used.count(1) == 5  # three trials without cause in 200 small steps, two in 100 larger ones


def test_what_is_best_for_one_row_is_not_taken_for_eight() -> None:
    """One row waits for memory, where a second thread may be no help; eight wait for arithmetic."""
    machine = Machine()
    assert machine.run(400, busy, rows=1)[-50:].count(1) >= 47
    used = machine.run(200, quiet, rows=8)
    assert used[:16] == [2] * 16
    assert used.count(1) <= 3


def test_a_large_step_takes_all_threads() -> None:
    """Prompts are not tried on one thread, and change nothing for small steps."""
    machine = Machine(4)
    assert machine.run(50, busy, rows=LARGE_STEP_ROWS) == [4] * 50
    assert machine.run(17, busy) == [4] * 16 + [1]


@pytest.mark.parametrize(("most", "rows"), [(1, 4), (2, 0)])
def test_where_nothing_is_to_be_shared_there_is_no_choice(most: int, rows: int) -> None:
    """One thread is all there are, or no row needs one."""
    assert Machine(most).run(20, busy, rows) == [most] * 20
