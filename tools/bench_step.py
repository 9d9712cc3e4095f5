"""Times steps on this CPU: by rows, on torch before and after modules are replaced, on the native step, and by part."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.without_torchvision import leave_out_torchvision

if TYPE_CHECKING:
    from engine.plan import ModelRunner, Plan
    from engine.torch_runner import TorchRunner

_STAT = Path("/proc/stat")
_PATHS = ("plain", "replaced", "native", "int8")
"""Torch before and after modules are replaced, and the native step with either kind of weights."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, one line a case; returns the exit status."""
    options = _options().parse_args(arguments)
    # Read when torch is imported: its threads must wait as they do in the engine.
    os.environ.update(
        OMP_NUM_THREADS=str(options.threads), OMP_WAIT_POLICY="PASSIVE", KMP_BLOCKTIME="0", GOMP_SPINCOUNT="3000"
    )
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    runners = {path: _runner(options, path) for path in options.paths}
    cases: dict[str, dict[str, Callable[[], object]]] = {}
    for rows in options.rows:
        cases[f"decode {rows} x {options.context}"] = _decode_case(runners, rows, options.context)
    for length in options.prompt:
        cases[f"prompt {length} in {options.chunk}"] = {
            name: _prompt_case(runner, length, options.chunk) for name, runner in runners.items()
        }
    print(f"{options.threads} threads, {options.dtype}, medians of {options.rounds} interleaved rounds, ms")
    for title, parts in cases.items():
        rounds = options.rounds if title.startswith("decode") else max(3, options.rounds // 8)
        medians, others = _measure(parts, rounds, time.perf_counter if options.clock == "wall" else time.process_time)
        _report(title, medians, others, options)
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_step", description=__doc__)
    parser.add_argument("model", type=Path, help="model folder")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 4, 8, 16])
    parser.add_argument("--context", type=int, default=200, help="tokens before each decode row, give or take a tenth")
    parser.add_argument("--prompt", type=int, nargs="*", default=[2000], help="lengths of the prefill cases")
    parser.add_argument("--chunk", type=int, default=512)
    parser.add_argument("--paths", nargs="+", choices=_PATHS, default=["plain", "replaced"])
    parser.add_argument("--variant", help="the native step for this instruction set; the best if absent")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu sums what all threads compute, which a busy machine changes less",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


def _runner(options: argparse.Namespace, path: str) -> ModelRunner:
    leave_out_torchvision()
    from engine.loader import load
    from engine.native.load import build_native
    from engine.torch_runner import PAGE_SIZE, build

    tokens = max(options.rows or [1]) * 2 * (options.context + 256) + 2 * max(options.prompt or [0]) + 1024
    loaded = load(options.model, dtype=options.dtype)
    if path in ("native", "int8"):
        return build_native(
            loaded,
            page_size=PAGE_SIZE,
            max_tokens=tokens,
            threads=options.threads,
            variant=options.variant,
            weights="int8" if path == "int8" else "bf16",
        )
    return build(loaded, max_tokens=tokens, fuse=path == "replaced")


def _decode_case(runners: dict[str, ModelRunner], rows: int, context: int) -> dict[str, Callable[[], object]]:
    """Whole steps, and on torch products and attention alone."""
    from engine.attention.cpu import CpuStep
    from engine.torch_runner import TorchRunner

    plan = decode_plan(rows, context, next(iter(runners.values())))
    parts: dict[str, Callable[[], object]] = {}
    for name, runner in runners.items():
        parts[name] = partial(runner.run, plan)
        if isinstance(runner, TorchRunner):
            parts[f"{name}: products"] = _products(runner, rows)
            parts[f"{name}: attention"] = _attention(
                runner, partial(CpuStep, runner.pool, plan, runner.page_size), rows
            )
    return parts


def decode_plan(rows: int, context: int, runner: ModelRunner) -> Plan:
    """Rows with contexts that differ by up to a tenth, in extents of one size."""
    from engine.plan import Plan, Span

    draws = random.Random(0)
    size = -(-(context * 11 // 10 + 64) // runner.page_size)
    spans = []
    for row in range(rows):
        start = draws.randint(context * 9 // 10, context * 11 // 10)
        spans.append(Span(range(row * size, (row + 1) * size), start, [draws.randrange(runner.info.vocab_size)], True))
    return Plan(spans, rows)


def _prompt_case(runner: ModelRunner, length: int, chunk: int) -> Callable[[], object]:
    from engine.plan import Plan, Span

    pages = range(-(-length // runner.page_size))
    tokens = [index * 7 % runner.info.vocab_size for index in range(length)]

    def run() -> None:
        for start in range(0, length, chunk):
            piece = tokens[start : start + chunk]
            runner.run(Plan([Span(pages, start, piece, start + len(piece) == length)], 0))

    return run


def _products(runner: TorchRunner, rows: int) -> Callable[[], object]:
    """All matrix products of a step, with nothing between them."""
    import torch

    from engine.fused.products import Product

    layers: list[Any] = [
        module for module in runner.model.modules() if isinstance(module, Product) or type(module) is torch.nn.Linear
    ]
    inputs = {layer.in_features: torch.randn(rows, layer.in_features, dtype=runner.model.dtype) for layer in layers}

    def run() -> None:
        with torch.inference_mode():
            for layer in layers:
                layer(inputs[layer.in_features])

    return run


def _attention(runner: TorchRunner, make_step: Callable[[], Any], rows: int) -> Callable[[], object]:
    """Stores and attention of all layers, with nothing between them."""
    import torch

    from engine.attention.registry import LayerRules

    config = runner.model.config.get_text_config()
    shapes = [(keys.shape[0], keys.shape[2]) for keys in runner.pool.keys]
    heads = config.num_attention_heads
    rows_of = {
        shape: [torch.randn(rows, count, shape[1], dtype=runner.model.dtype) for count in (heads, shape[0], shape[0])]
        for shape in set(shapes)
    }

    def run() -> None:
        with torch.inference_mode():
            step = make_step()
            for layer, shape in enumerate(shapes):
                step.attend(layer, *rows_of[shape], LayerRules(shape[1] ** -0.5))

    return run


def _measure(
    parts: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> tuple[dict[str, float], float]:
    """Median milliseconds of each part, in turns; and the cores that other processes used meanwhile."""
    times: dict[str, list[float]] = {name: [] for name in parts}
    for part in parts.values():
        part()
    busy, own, began = _busy_seconds(), sum(os.times()[:2]), time.perf_counter()
    for _ in range(rounds):
        for name, part in parts.items():
            start = clock()
            part()
            times[name].append((clock() - start) * 1e3)
    spent = time.perf_counter() - began
    others = (_busy_seconds() - busy - (sum(os.times()[:2]) - own)) / spent
    return {name: statistics.median(values) for name, values in times.items()}, max(0.0, others)


def _busy_seconds() -> float:
    """CPU time that the machine has spent on anything, in seconds; 0 where it does not say."""
    try:
        fields = [int(value) for value in _STAT.read_text().splitlines()[0].split()[1:]]
    except (OSError, ValueError, IndexError):
        return 0.0
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def _report(title: str, medians: dict[str, float], others: float, options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps({"case": title, "median_ms": medians, "others_cores": round(others, 2)}), flush=True)
        return
    first = medians[options.paths[0]]
    line = f"{title:22s}"
    for name in options.paths:
        line += f"  {name} {medians[name]:8.1f} ({first / medians[name]:4.2f} times as fast)"
        if title.startswith("prompt"):
            line += f" {int(title.split()[1]) / medians[name] * 1e3:6.0f} tokens/s"
        elif f"{name}: products" in medians:
            products, attention = medians[f"{name}: products"], medians[f"{name}: attention"]
            rest = 1 - (products + attention) / medians[name]
            line += f" products {products:5.1f}, attention {attention:5.1f}, rest {rest:4.0%}"
    print(f"{line}  | others {others:.2f} cores", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
