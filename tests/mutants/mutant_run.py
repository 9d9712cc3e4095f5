"""Runs the mutants by hand: whether each is seen by its own witness, and which of them ``mindspec conform`` finds.

    python tests/mutants/mutant_run.py verify
    python tests/mutants/mutant_run.py conform --clean 5 --report found.json
    python tests/mutants/mutant_run.py conform --only ranked-by-sum

``verify`` starts the mock from this tree, on which every witness must hold, then from a changed copy for each mutant,
on which its witness must not. ``conform`` judges the mock from this tree some times, in which nothing may be found, and
then each mutant once. The command that judges is always that of this tree; only the server is the copy's. It is no
test: that some mutants survive is a result, not a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from mutant_witnesses import WITNESSES, Ask
from mutants import MUTANTS, Mutant

ROOT: Final = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def mock(tree: Path) -> Iterator[str]:
    """The address of a mock server that runs from ``tree``; it is killed at the end."""
    command = [sys.executable, "-m", "tools.cli", "mock", "--port", "0"]
    process = subprocess.Popen(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise RuntimeError(f"the mock from {tree} did not start: {line!r}")
        yield found[0]
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def mutated(mutant: Mutant) -> Iterator[str]:
    """The address of a mock server with one mistake."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        mutant.plant(ROOT, tree)
        with mock(tree) as url:
            yield url


def holds(name: str, url: str) -> bool:
    """Whether a server keeps what a mutant breaks. Raises what a witness raises at an answer that is none."""
    ask = Ask(url)
    try:
        return WITNESSES[name](ask)
    finally:
        ask.close()


def verify(chosen: Sequence[Mutant]) -> int:
    """Print what each witness says; the number of those that do not tell their mutant from the original."""
    wrong = 0
    with mock(ROOT) as url:
        clean = {mutant.name: holds(mutant.name, url) for mutant in chosen}
    for mutant in chosen:
        with mutated(mutant) as url:
            seen = not holds(mutant.name, url)
        good = clean[mutant.name] and seen
        wrong += not good
        verdict = "ok" if good else f"original keeps it: {clean[mutant.name]}, mutant breaks it: {seen}"
        print(f"{mutant.kind:9} {mutant.name:35} {verdict}", flush=True)
    return wrong


def judge(url: str, seed: int) -> dict[str, Any]:
    """What ``mindspec conform`` says of a server: its status, its seconds, and its report."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        command = [sys.executable, "-m", "tools.cli", "conform", url, "--seed", str(seed)]
        command += ["--format", "json", "--output", str(output)]
        begun_s = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        took_s = time.monotonic() - begun_s
        report = json.loads(output.read_text(encoding="utf-8")) if output.exists() else None
    return {"status": done.returncode, "took_s": round(took_s, 1), "report": report, "stderr": done.stderr[-2000:]}


def conform(chosen: Sequence[Mutant], clean: int, report: Path | None, seed: int) -> None:
    """Judge the original ``clean`` times and each mutant once; write all to ``report``, as it comes."""
    found: dict[str, Any] = {}
    runs: list[tuple[str, Mutant | None]] = [(f"original {number}", None) for number in range(1, clean + 1)]
    runs += [(mutant.name, mutant) for mutant in chosen]
    for name, mutant in runs:
        with mock(ROOT) if mutant is None else mutated(mutant) as url:
            found[name] = judge(url, seed)
        print(f"{name:35} status {found[name]['status']}, {found[name]['took_s']} s", flush=True)
        if report is not None:
            report.write_text(json.dumps(found, indent=1), encoding="utf-8")


def main() -> int:
    """The command line; 1 where a witness cannot tell its mutant."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("verify", "conform"))
    parser.add_argument("--only", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--clean", type=int, default=1, metavar="N", help="times that conform judges the original")
    parser.add_argument("--report", type=Path, metavar="FILE", help="of conform, as JSON")
    parser.add_argument("--seed", type=int, default=1, help="of mindspec conform")
    given = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if not given.only or mutant.name in given.only]
    if given.command == "verify":
        return 1 if verify(chosen) else 0
    conform(chosen, given.clean, given.report, given.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
