"""`mindspec diff`: what a change of the contract breaks, with requests and answers that show it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

BREAKING: Final = 1
USAGE: Final = 2


def add_diff(commands: Any) -> None:
    """The command `diff`; ``commands``: what ``add_subparsers`` gave."""
    diff = commands.add_parser(
        "diff",
        help="say what a change of the contract breaks, with a request that shows it",
        description="Compare two specs: what differs, whether it breaks anybody, and for each break a request or an "
        "answer that both versions were asked about. Exit code 0: nothing breaks; 1: something does; 2: a spec cannot "
        "be read. Needs the dev extra of mindspec.",
    )
    diff.add_argument("old", metavar="OLD", help="a file, a revision of git, or REVISION:PATH (spec/openapi.yaml)")
    diff.add_argument("new", metavar="NEW", help="likewise")
    diff.add_argument("--format", choices=["text", "markdown", "json"], default="text")
    diff.add_argument("--output", type=Path, metavar="FILE", help="write the report there")
    diff.add_argument(
        "--requests", type=int, default=200, metavar="N", help="random requests and answers of each kind (200)"
    )
    diff.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Compare two specs; returns the exit code."""
    try:
        from tools.diff.compare import compare
        from tools.diff.report import render
        from tools.diff.version import Unreadable, read_source, version_of
        from tools.generate.document import SpecError
    except ImportError as error:
        return _cannot(f"{error.name} is not installed; install mindspec with its dev extra: mindspec[dev]")
    if given.requests < 0:
        return _cannot(f"--requests was given {given.requests}; it must be 0 or more")
    try:
        old, new = (version_of(read_source(source)) for source in (given.old, given.new))
    except (Unreadable, SpecError) as error:
        return _cannot(str(error))
    report = compare(old, new, given.requests)
    text = render(report, given.format)
    if given.output is not None:
        given.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return BREAKING if report.breaking else 0


def _cannot(reason: str) -> int:
    print(f"mindspec diff: {reason}", file=sys.stderr)
    return USAGE
