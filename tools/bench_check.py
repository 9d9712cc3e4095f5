"""Times `mindspec check` on recorded requests; run it as ``python -m tools.bench_check``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from generated.operations import WIRE
from tools.cli import main as mindspec
from tools.contract.corpus import load_corpus
from tools.contract.values import expand

MOST_BYTES = 4096
"""Bodies of the corpus at the limits of length are no usual requests."""


def records() -> Iterator[dict[str, Any]]:
    """The corpus's bodies for the two endpoints, accepted and refused, as records with their paths, over and over."""
    corpus = load_corpus(Path(__file__).parent.parent / "generated" / "corpus.json")
    paths = {name: WIRE[name].path for name in ("create_chat_completion", "create_completion")}
    told = [
        {"method": "POST", "path": paths[case.operation], "headers": {"Content-Type": "application/json"}, "body": body}
        for case in corpus
        if case.operation in paths and len(json.dumps(body := expand(case.body))) <= MOST_BYTES
    ]
    return cycle(told)


def main(arguments: list[str] | None = None) -> int:
    """Write a recording, check it, print the seconds of each round, from reading the file to the report."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench_check", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        recording, report = Path(folder) / "requests.jsonl", Path(folder) / "report.json"
        lines = [json.dumps(one, ensure_ascii=False) for one in islice(records(), given.requests)]
        recording.write_text("\n".join(lines), encoding="utf-8")
        print(f"{given.requests} requests, {recording.stat().st_size / 1e6:.1f} MB")
        for _ in range(given.rounds):
            start = time.perf_counter()
            mindspec(["check", str(recording), "--format", "json", "--output", str(report)])
            seconds = time.perf_counter() - start
            found = json.loads(report.read_text(encoding="utf-8"))
            print(f"{seconds:.2f} s, {len(found['breaches'])} breaches in {found['requests_at_fault']} requests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
