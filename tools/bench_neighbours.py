"""Times decode steps on this CPU beside a process that takes one of its cores: never, in parts, or all the time."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.bench_step import decode_plan
from tools.load.neighbour import neighbour

if TYPE_CHECKING:
    from engine.plan import ModelRunner, Plan

NEIGHBOURS: Final = {
    "none": (0.0, 0.02),
    "0.3 of each ms": (0.3, 0.001),
    "3 of each 10 ms": (0.3, 0.010),
    "100 %": (1.0, 0.02),
}
"""Shares of a core that the neighbour uses, and of which period in seconds."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of rows on one way to run, beside one neighbour."""

    tokens_per_s: float
    worst_ms: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, one line for each number of threads; returns the exit status."""
    options = _options().parse_args(arguments)
    # Read when torch is imported: its threads must wait as they do in the engine.
    os.environ.update(OMP_NUM_THREADS=str(max(options.threads)), OMP_WAIT_POLICY="PASSIVE", GOMP_SPINCOUNT="3000")
    runners = {threads: _runner(options, threads) for threads in options.threads}
    found: dict[int, dict[str, list[Cell]]] = {threads: {} for threads in runners}
    core = max(os.sched_getaffinity(0))
    for name, (share, period_s) in NEIGHBOURS.items():
        with neighbour(share, period_s, core):
            for threads, runner in runners.items():
                plans = [decode_plan(rows, options.context, runner) for rows in options.rows]
                found[threads][name] = [timed(runner, plan, options.settle_s, options.seconds) for plan in plans]
    rows = " | ".join(map(str, options.rows))
    print(f"tokens/s (worst step in ms) at {rows} rows x {options.context}, beside a neighbour on core {core}")
    print(" ".join(f"{name:>30s}" for name in ("threads", *NEIGHBOURS)))
    for threads, cells in found.items():
        shown = [" | ".join(f"{cell.tokens_per_s:.0f} ({cell.worst_ms:.0f})" for cell in row) for row in cells.values()]
        print(" ".join(f"{text:>30s}" for text in (str(threads), *shown)))
    return 0


def timed(runner: ModelRunner, plan: Plan, settle_s: float, seconds: float) -> Cell:
    """The same step again and again, measured after it has had time to choose its threads."""
    step = partial(runner.run, plan)
    until_s = time.perf_counter() + settle_s
    while time.perf_counter() < until_s:
        step()
    times_s: list[float] = []
    while sum(times_s) < seconds:
        begun_s = time.perf_counter()
        step()
        times_s.append(time.perf_counter() - begun_s)
    return Cell(len(plan.spans) * len(times_s) / sum(times_s), max(times_s) * 1e3)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_neighbours", description=__doc__)
    parser.add_argument("model", type=Path, help="model folder")
    parser.add_argument("--path", choices=("native", "torch"), default="native")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1, len(os.sched_getaffinity(0))], help="most that a step may run on"
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 1])
    parser.add_argument("--context", type=int, default=200, help="tokens before each row, give or take a tenth")
    parser.add_argument("--settle-s", type=float, default=1.0, help="not counted, in each cell")
    parser.add_argument("--seconds", type=float, default=2.0, help="counted, in each cell")
    return parser


def _runner(options: argparse.Namespace, threads: int) -> ModelRunner:
    import torch

    from engine.loader import load
    from engine.native.load import build_native
    from engine.torch_runner import PAGE_SIZE, build

    torch.set_num_threads(threads if options.path == "torch" else 1)
    tokens = max(options.rows) * 2 * (options.context + 256)
    loaded = load(options.model, dtype="bfloat16")
    if options.path == "torch":
        return build(loaded, max_tokens=tokens)
    return build_native(loaded, page_size=PAGE_SIZE, max_tokens=tokens, threads=threads)


if __name__ == "__main__":
    raise SystemExit(main())
