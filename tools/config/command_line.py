"""The options of `mindspec config`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_config(commands: Any) -> None:
    """The command `config` with its two parts; ``commands``: what ``add_subparsers`` gave."""
    config = commands.add_parser("config", help="check or explain a config.json")
    parts = config.add_subparsers(required=True, metavar="PART")
    check = parts.add_parser("check", help="say all that is wrong with a file, and which of its keys do nothing")
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--json", action="store_true", help="as JSON")
    check.set_defaults(run=_check)
    explain = parts.add_parser("explain", help="say what keys mean, or what a file comes to")
    explain.add_argument("what", nargs="?", metavar="KEY|FILE", help="a key, a variable or a file; all keys if absent")
    explain.set_defaults(run=_explain)


def _check(given: argparse.Namespace) -> int:
    from tools.config.command import check

    return check(given)


def _explain(given: argparse.Namespace) -> int:
    from tools.config.command import explain

    return explain(given)
