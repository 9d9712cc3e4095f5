"""Two ranks that load one model after the other: run as a program on folders, it prints their answers, which ``play``
reads."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Before transformers, in both processes: as in an engine process, it cannot be imported.
sys.modules.setdefault("torchvision", None)  # type: ignore[arg-type]  # None says so

PAGE = 8
EXTENT = 6
"""Pages of each sequence."""
TOKENS = 6
PROMPTS = [[5 + 3 * index % 50 for index in range(29)], [60 - 2 * index % 55 for index in range(18)]]


def play(*folders: Path | str) -> tuple[list[Any], str]:
    """What the program prints of each folder, and standard error. ``folder:dtype`` has another dtype than float32."""
    command = [sys.executable, "-m", "tests.engine.rank_play", *map(str, folders)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def _load(ranks: Any, folder: str) -> Any:
    from engine.loader import LoadError
    from engine.parallel.loading import load_part

    path, _, dtype = folder.partition(":")
    try:
        return load_part(
            ranks, Path(path), dtype=dtype or "float32", device="cpu", page_size=PAGE, memory_bytes=1 << 20
        )
    except LoadError as error:
        print(error, file=sys.stderr, flush=True)
        return None


def _follow(pipe: Connection, folders: list[str]) -> None:
    """The second rank: for each folder it obeys until it hears of an order that is none."""
    from engine.parallel.follower import obey
    from engine.parallel.ranks import Leader

    leader = Leader(pipe, 1, 2)
    for folder in folders:
        runner = _load(leader, folder)
        if runner is not None:
            with contextlib.suppress(TypeError):
                obey(leader, runner)


def _answers(runner: Any) -> tuple[list[list[int]], list[float]]:
    """Greedy answers to both prompts: one at once, the other in chunks, then both decode together; and the logits
    ``[vocab]`` behind the first prompt."""
    from engine.plan import Plan, Span

    def span(place: int, start: int, token_ids: list[int]) -> Span:
        return Span(range(place * EXTENT, (place + 1) * EXTENT), start, token_ids, 1)

    first = runner.run(Plan([span(0, 0, PROMPTS[0]), span(1, 0, PROMPTS[1][:7])], 0))[0]
    answers = [[int(first.argmax())]]
    answers.append([int(runner.run(Plan([span(1, 7, PROMPTS[1][7:])], 0))[0].argmax())])
    while len(answers[0]) < TOKENS:
        rows = [span(place, len(PROMPTS[place]) + len(answer) - 1, answer[-1:]) for place, answer in enumerate(answers)]
        for answer, row in zip(answers, runner.run(Plan(rows, 2)), strict=True):
            answer.append(int(row.argmax()))
    return answers, first.tolist()


def main() -> None:
    """Print, for each folder, answers, logits, the classes of the modules that run and how many weights are int8 as
    they were loaded; or null where it does not load."""
    from engine.parallel.leading_runner import LeadingRunner
    from engine.parallel.ranks import Followers

    folders = sys.argv[1:]
    mine, other = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_follow, args=(other, folders))
    process.start()
    other.close()
    followers = Followers([mine])
    for folder in folders:
        part = _load(followers, folder)
        if part is None:
            print("null", flush=True)
            continue
        answers, logits = _answers(LeadingRunner(part, followers))
        followers.order("next")  # type: ignore[arg-type]  # no order, so that it takes the next folder
        kinds = sorted({type(module).__name__ for module in part.model.modules()})
        left = sum(not parameter.is_floating_point() for parameter in part.model.parameters())
        print(json.dumps({"answers": answers, "logits": logits, "kinds": kinds, "int8_left": left}), flush=True)
    process.join()


if __name__ == "__main__":
    main()
