"""The number of threads of a step follows the times of the steps before."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from engine.step_threads import LARGE_STEP_ROWS, PROBE_EVERY, StepThreads

Seconds = Callable[[int], float]


class Machine:
    """A clock that a step moves by what its number of threads takes."""

    def __init__(self, most: int) -> None:
        self.now = 0.0
        self.threads = StepThreads(most, lambda: self.now)

    def run(self, steps: int, seconds: Seconds, rows: int = 8) -> list[int]:
        """Run steps; gives the threads of each."""
        used = []
        for _ in range(steps):
            with self.threads.step(rows) as threads:
                self.now += seconds(threads)
            used.append(threads)
        return used


@pytest.fixture(autouse=True)
def _threads_of_torch() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def _idle(threads: int) -> float:
    return 0.030 if threads == 1 else 0.020


def _busy(threads: int) -> float:
    return 0.030 if threads == 1 else 0.080


def test_all_threads_work_where_each_has_a_core() -> None:
    """On an idle machine nine of ten steps run on both threads."""
    used = Machine(2).run(500, _idle)
    assert used.count(2) > 450


def test_one_thread_takes_over_beside_a_busy_neighbour() -> None:
    """Ten steps after a neighbour came, small steps run on one thread, but for a trial now and then."""
    machine = Machine(2)
    machine.run(100, _idle)
    machine.run(10, _busy)
    assert machine.run(500, _busy).count(1) > 450


def test_all_threads_come_back_when_the_neighbour_goes() -> None:
    """A trial finds that both threads are faster again."""
    machine = Machine(2)
    machine.run(1000, _busy)
    machine.run(300, _idle)
    assert machine.run(100, _idle).count(2) > 90


def test_trials_become_rare_while_they_show_a_clear_loser() -> None:
    """1,000 steps beside a neighbour try two threads less often than every 32 steps."""
    machine = Machine(2)
    machine.run(1000, _busy)
    assert 0 < machine.run(1000, _busy).count(2) < 1000 / PROBE_EVERY


def test_a_large_step_takes_all_threads_at_once() -> None:
    """Prompts are not tried on one thread."""
    assert Machine(4).run(50, _busy, rows=LARGE_STEP_ROWS) == [4] * 50


def test_sizes_are_judged_apart() -> None:
    """One row may run on one thread while sixteen run on two."""
    machine = Machine(2)
    for _ in range(200):
        machine.run(1, _busy, rows=1)
        machine.run(1, _idle, rows=16)
    assert machine.run(50, _busy, rows=1).count(1) > 40
    assert machine.run(50, _idle, rows=16).count(2) > 40


def test_torch_is_told_the_number() -> None:
    """Inside a step torch computes on the chosen number of threads."""
    threads = StepThreads(2, lambda: 0.0)
    with threads.step(LARGE_STEP_ROWS) as chosen:
        assert torch.get_num_threads() == chosen == 2


def test_one_thread_needs_no_choice() -> None:
    """With one thread allowed every step has one."""
    assert Machine(1).run(20, _busy) == [1] * 20
