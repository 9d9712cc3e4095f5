"""The options of `mindspec conform`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tools.server_options import FEATURES, MODEL_TYPES, read_profile

REQUESTS = 20_000
TOKENS = 6_000_000
TIMEOUT_S = 120.0


def add_conform(commands: Any) -> None:
    """The command `conform`; ``commands``: what ``add_subparsers`` gave."""
    conform = commands.add_parser("conform", help="try the contract's laws on any server and score it")
    conform.add_argument("url", nargs="?", metavar="URL", help="http://HOST:PORT or https://HOST:PORT")
    conform.add_argument("--key", help="API key; better --key-env, since command lines can be seen")
    conform.add_argument("--key-env", metavar="NAME", help="environment variable that holds the API key")
    conform.add_argument("--model", help="name to send; by default the first that GET /models lists")
    conform.add_argument("--base-path", default="/v1", metavar="PATH", help="before /chat/completions (default /v1)")
    conform.add_argument("--ca", type=Path, metavar="FILE", help="PEM file of the authorities to trust")
    conform.add_argument("--requests", type=_positive, default=REQUESTS, metavar="N", help="requests at most")
    conform.add_argument(
        "--tokens", type=_positive, default=TOKENS, metavar="N", help="tokens read and written at most"
    )
    conform.add_argument("--timeout", type=_seconds, default=TIMEOUT_S, metavar="S", help="seconds for one exchange")
    conform.add_argument(
        "--concurrency", type=_positive, default=4, metavar="N", help="requests at once, in laws that allow it"
    )
    conform.add_argument(
        "--profile",
        type=read_profile,
        default=(),
        metavar="NAME,...",
        help="hold it to what a MindIE with these refuses: " + ", ".join(FEATURES + MODEL_TYPES),
    )
    conform.add_argument(
        "--only", action="append", default=[], metavar="LAW", help="a law, a group, or a pattern with *"
    )
    conform.add_argument("--skip", action="append", default=[], metavar="LAW", help="likewise")
    conform.add_argument("--seed", type=int, default=1, metavar="S", help="of the requests that are drawn (default 1)")
    conform.add_argument("--format", choices=["text", "json", "junit"], default="text")
    conform.add_argument(
        "--output", type=Path, metavar="FILE", help="write the report there instead of to the terminal"
    )
    conform.add_argument("--findings", type=_positive, default=3, metavar="N", help="shown of one law in the text")
    conform.add_argument("--frozen-list", action="store_true", help="list all laws with a digest of them, and end")
    conform.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from tools.conform.session import run

    return run(given)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number <= 3600:
        raise argparse.ArgumentTypeError("must be above 0 and at most 3600")
    return number
