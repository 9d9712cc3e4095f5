"""`mindspec lint`: what is wrong with a spec, with file and line; what the generator checks before it writes."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

FOUND: Final = 1
USAGE: Final = 2
_DEFAULT: Final = Path(__file__).resolve().parent.parent.parent / "spec" / "openapi.yaml"


def add_lint(commands: Any) -> None:
    """The command `lint`; ``commands``: what ``add_subparsers`` gave."""
    lint = commands.add_parser(
        "lint",
        help="check a spec: fields, ranges, rules, examples",
        description="Check a spec as the generator does before it writes: all findings at once, with file and line. "
        "Exit code 0: nothing found; 1: findings; 2: it cannot be read. Needs the dev extra of mindspec.",
    )
    lint.add_argument(
        "spec", nargs="?", type=Path, default=_DEFAULT, metavar="SPEC", help="by default this server's own"
    )
    lint.add_argument("--format", choices=["text", "json"], default="text")
    lint.add_argument("--output", type=Path, metavar="FILE", help="write the report there")
    lint.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Check a spec; returns the exit code."""
    try:
        from tools.generate.__main__ import generate
        from tools.generate.document import SpecError
    except ImportError as error:
        return _cannot(f"{error.name} is not installed; install mindspec with its dev extra: mindspec[dev]")
    path, findings = str(given.spec), []
    try:
        generate(given.spec)
    except SpecError as error:
        path, findings = error.path, [(finding.line, finding.message) for finding in error.findings]
    except OSError as error:
        return _cannot(f"{given.spec} cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        return _cannot(f"{given.spec} is no text in UTF-8")
    if given.format == "json":
        rows = [{"file": path, "line": line, "message": message} for line, message in findings]
        text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
    else:
        count = f"{len(findings)} finding{'s' * (len(findings) != 1)}" if findings else "nothing found"
        text = "".join(f"{path}:{line}: {message}\n" for line, message in findings) + f"{path}: {count}\n"
    if given.output is not None:
        given.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return FOUND if findings else 0


def _cannot(reason: str) -> int:
    print(f"mindspec lint: {reason}", file=sys.stderr)
    return USAGE
