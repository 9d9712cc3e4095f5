"""How many threads run a step: all, until one is faster for a while."""

from __future__ import annotations

from collections.abc import Callable

from engine.native.pacing import Pacing


class Machine:
    """Steps with made-up times, and the clock that they move."""

    def __init__(self, threads: int = 2) -> None:
        self.now = 0.0
        self.pacing = Pacing(threads, clock=lambda: self.now)

    def run(self, steps: int, seconds: Callable[[bool, int], float], rows: int = 4) -> list[bool]:
        """Which of ``steps`` ran on all threads, when each takes ``seconds(all threads, rows)``."""
        found = []
        for _ in range(steps):
            together = self.pacing.together(rows)
            spent = seconds(together, rows)
            self.now += spent
            self.pacing.note(rows, together, spent)
            found.append(together)
        return found


def quiet(together: bool, rows: int) -> float:
    """Two threads take 6 ms, one takes 10."""
    return 0.006 if together else 0.010


def busy(together: bool, rows: int) -> float:
    """Beside a busy neighbour two threads take 20 ms."""
    return 0.020 if together else 0.010


def test_all_threads_run_on_a_quiet_machine() -> None:
    """But for a trial now and then, which loses."""
    found = Machine().run(2000, quiet)
    assert found.count(False) == 4 * 3
    assert all(found[100:500])


def test_one_thread_takes_over_beside_a_neighbour() -> None:
    """Within two dozen steps, and but for short trials it stays."""
    machine = Machine()
    machine.run(100, quiet)
    found = machine.run(400, busy)
    assert not any(found[24:60])
    assert found.count(True) < 30


def test_all_threads_come_back_when_the_neighbour_goes() -> None:
    """After the next trial; later ones lose."""
    machine = Machine()
    machine.run(100, quiet)
    machine.run(300, busy)
    found = machine.run(2000, quiet)
    assert found[-600:].count(False) <= 6


def test_a_neighbour_that_was_there_from_the_start_is_noticed() -> None:
    """What is usual was slow, so only a trial without cause can tell."""
    found = Machine().run(1000, busy)
    assert found[60:].count(True) < 40


def test_steps_of_a_new_size_find_their_way_back() -> None:
    """Their first ones run on one thread beside a neighbour, who then goes."""
    machine = Machine()
    machine.run(100, quiet)
    machine.run(300, busy)
    machine.run(20, busy, rows=9)
    found = machine.run(2000, quiet, rows=9)
    assert found[-600:].count(False) <= 6


def test_steps_of_different_sizes_do_not_look_slow() -> None:
    """Steps of a long prompt between decode steps take longer without any neighbour."""
    machine = Machine()
    found = []
    for _ in range(100):
        found += machine.run(2, lambda together, rows: 0.01)
        found += machine.run(1, lambda together, rows: 0.3, rows=500)
    assert found.count(False) == 3  # the trial without cause


def test_a_pool_of_one_thread_has_no_choice() -> None:
    """It never runs together with others."""
    assert not any(Machine(threads=1).run(50, busy))
