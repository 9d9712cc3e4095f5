"""Times what grammars cost the engine on this CPU: tokens a second held and free, and what a compile does to others."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.executor import Executor
    from engine.types import Request

_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
_PROMPT = "Write down what you know about the weather of ten cities, one after the other."


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both tables; returns the exit status."""
    options = _options().parse_args(arguments)
    # Read when torch is imported: its threads must sleep between operators, as they do in the engine.
    os.environ.update(
        OMP_NUM_THREADS=str(options.threads), OMP_WAIT_POLICY="PASSIVE", KMP_BLOCKTIME="0", GOMP_SPINCOUNT="0"
    )
    import torch

    from engine.packed_loader import load_executor

    torch.set_num_threads(options.threads)
    begin = time.perf_counter()
    executor = load_executor(str(options.model), dtype=options.dtype)
    print(f"loaded in {time.perf_counter() - begin:.1f} s")
    prompt = _prompt(options.model)
    print(f"{options.threads} threads, {options.dtype}, medians of {options.rounds} alternating rounds")
    print(f"tokens/s with {options.rows} requests of {options.tokens} tokens:")
    for title, temperature in (("greedy", 0.0), ("temperature 1, top_k 1000", 1.0)):
        print(f"  {title:28}{_speeds(executor, prompt, temperature, options)}")
    print(f"steps of {options.rows} requests while a schema is compiled beside them, ms:")
    for fields in options.fields:
        print(f"  {fields:5} fields: {_stall(executor, prompt, fields, options)}")
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_grammar", description=__doc__)
    parser.add_argument("model", type=Path, help="model folder")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--fields", type=int, nargs="*", default=[50, 300, 1000])
    return parser


def _prompt(model: Path) -> tuple[int, ...]:
    from engine.text.tokenizer import tokenizer_from_folder

    return tuple(tokenizer_from_folder(model).encode(_PROMPT, add_special_tokens=True))


def _list_of_cities() -> str:
    """A grammar whose answer does not end within the bench: strings, numbers and fixed words in turns."""
    city = {
        "name": {"type": "string", "maxLength": 40},
        "days": {"type": "array", "items": {"type": "integer", "minimum": -40, "maximum": 50}, "minItems": 3},
        "sky": {"enum": ["clear", "cloudy", "rain"]},
        "text": {"type": "string"},
    }
    item = {"type": "object", "properties": city, "required": list(city), "additionalProperties": False}
    schema = {"type": "array", "items": item, "minItems": 1000, "x-guidance": _LAYOUT}
    return "start: %json " + json.dumps(schema)


def _requests(
    prompt: tuple[int, ...], count: int, tokens: int, temperature: float, grammar: str | None
) -> list[Request]:
    from engine.types import Request, SamplingParams

    return [
        Request(
            f"r{number}",
            prompt,
            SamplingParams(max_tokens=tokens, temperature=temperature, top_k=1000, seed=number, ignore_eos=True),
            grammar=grammar,
        )
        for number in range(count)
    ]


def _run(executor: Executor, requests: list[Request], late: dict[int, Request] | None = None) -> list[float]:
    """Run requests to their end; ``late`` ones come at these steps. Returns seconds of each round."""
    from engine.scheduler import Scheduler
    from engine.types import RequestFailure

    scheduler = Scheduler(executor, 10**6)
    for request in requests:
        scheduler.submit(request, time.monotonic_ns())
    times: list[float] = []
    while scheduler.has_work:
        asked = (late or {}).get(len(times))
        begin = time.perf_counter()
        if asked is not None:
            scheduler.submit(asked, time.monotonic_ns())
        failures = [output for output in scheduler.run_round() if isinstance(output, RequestFailure)]
        times.append(time.perf_counter() - begin)
        if failures:
            raise RuntimeError(failures[0].message)
    return times


def _speeds(executor: Executor, prompt: tuple[int, ...], temperature: float, options: argparse.Namespace) -> str:
    grammars = {"free": None, "held": _list_of_cities()}
    found: dict[str, list[float]] = {name: [] for name in grammars}
    for round_ in range(options.rounds + 1):
        for name in sorted(grammars, reverse=bool(round_ % 2)):
            requests = _requests(prompt, options.rows, options.tokens, temperature, grammars[name])
            times = _run(executor, requests)
            if round_:  # the first one fills caches and compiles
                found[name].append(options.rows * options.tokens / sum(times))
    ratios = [held / free for held, free in zip(found["held"], found["free"], strict=True)]
    medians = {name: statistics.median(speeds) for name, speeds in found.items()}
    return f"free {medians['free']:7.1f}   held {medians['held']:7.1f}   ratio {statistics.median(ratios):.3f}"


def _stall(executor: Executor, prompt: tuple[int, ...], fields: int, options: argparse.Namespace) -> str:
    """Steps of free requests, in the middle of which one more comes: a free one, or one with a new schema."""
    steady: list[float] = []
    worst: dict[str, list[float]] = {"free": [], "held": []}
    for round_ in range(options.rounds):
        kinds: list[dict[str, Any]] = [{"type": kind} for kind in ("string", "integer", "number", "boolean")]
        properties = {f"field_{round_}_{number}": kinds[number % 4] for number in range(fields)}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        held = "start: %json " + json.dumps({**schema, "additionalProperties": False, "x-guidance": _LAYOUT})
        for name, grammar in (("free", None), ("held", held)):
            (late,) = _requests(prompt, 1, 2, 0.0, grammar)
            late = replace(late, request_id="late")
            times = _run(executor, _requests(prompt, options.rows, 40, 0.0, None), {15: late})
            steady += times[5:15]
            worst[name].append(max(times[15:35]))
    figures = [f"usual step {statistics.median(steady) * 1000:6.1f}"]
    figures += [
        f"worst when a {name} one comes {statistics.median(found) * 1000:6.1f}" for name, found in worst.items()
    ]
    return "   ".join(figures)


if __name__ == "__main__":
    raise SystemExit(main())
