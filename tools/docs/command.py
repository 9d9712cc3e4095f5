"""The command `mindspec docs`: writes the documentation as one file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_docs(commands: Any) -> None:
    """The command `docs`; ``commands``: what ``add_subparsers`` gave."""
    docs = commands.add_parser("docs", help="write the contract's documentation as one page", description=_run.__doc__)
    docs.add_argument("--out", type=Path, default=Path("docs.html"), metavar="FILE", help="default: docs.html")
    docs.add_argument("--lang", choices=("en", "zh"), default="en", help="its language; default: en")
    docs.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    """Write the documentation of the contract as one HTML page that needs no network."""
    from tools.docs.page import page

    try:
        given.out.write_text(page(given.lang), encoding="utf-8")
    except OSError as error:
        print(f"mindspec: {given.out} cannot be written: {error.strerror or error}")
        return 2
    print(given.out)
    return 0
