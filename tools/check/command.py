"""The options of `mindspec check`, and its run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tools.server_options import FEATURES, MODEL_TYPES, read_profile

_ABOUT = """\
Reads what a client sends and reports every breach of the contract. FILE may be JSON Lines (a body in each line, or a
record with path, method, headers, body and perhaps answer), a HAR, a single body, or a folder of such files; - is
standard input. Answers that were recorded are judged too, streams event by event.
Exit code: 0 nothing found, 1 something breaks the contract, 2 something could not be read."""


def add_check(commands: Any) -> None:
    """The command `check`; ``commands``: what ``add_subparsers`` gave."""
    check = commands.add_parser(
        "check",
        help="report what recorded requests break",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument(
        "files", nargs="*", default=["-"], metavar="FILE", help="a file, a folder, or - (the default): standard input"
    )
    check.add_argument(
        "--profile",
        type=read_profile,
        default=(),
        metavar="NAME,...",
        help="report what a MindIE with these would refuse: " + ", ".join(FEATURES + MODEL_TYPES),
    )
    check.add_argument("--strict-unknown", action="store_true", help="report unknown fields")
    check.add_argument(
        "--endpoint", choices=["chat", "completions"], help="what bodies are for that have no path beside them"
    )
    check.add_argument(
        "--open-ai-support", default="vllm", metavar="FORM", help='anything but "vllm": the bounds of OpenAI\'s form'
    )
    check.add_argument("--format", choices=["text", "json", "junit"], default="text", help="of the report")
    check.add_argument("--output", type=Path, metavar="FILE", help="write the report there")
    check.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Check the files; returns the exit code."""
    from generated.rules import Deployment
    from tools.check import report, sources
    from tools.check.findings import Checker, Finding

    server = Deployment(
        features=frozenset(name for name in given.profile if name not in MODEL_TYPES),
        model_type=next((name for name in given.profile if name in MODEL_TYPES), ""),
        openai_form=given.open_ai_support != "vllm",
        strict_unknown=given.strict_unknown,
    )
    checker = Checker(server, given.endpoint)
    found: list[Finding] = []
    lost = []
    for name in given.files:
        for one in checker.findings(sources.records(name)):
            if isinstance(one, Finding):
                found.append(one)
            else:
                lost.append(one)
                print(f"mindspec: {one}", file=sys.stderr)
    made = report.Report(checker.counts, found, lost)
    written = {"text": report.text, "json": report.as_json, "junit": report.junit}[given.format](made)
    if given.output is None:
        sys.stdout.write(written)
        return made.code
    try:
        given.output.write_text(written, encoding="utf-8")
    except OSError as error:
        print(f"mindspec: {given.output}: {error.strerror}", file=sys.stderr)
        return 2
    return made.code
