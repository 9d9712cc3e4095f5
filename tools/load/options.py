"""The options of ``mindspec bench``; apart from the rest so that the other commands import none of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

_CASES: Final = "start,c1,c4,c8,c16,d8,d16,long,prefix"
_DESCRIPTION: Final = """Compare the speed of inference servers that speak OpenAI's POST /v1/completions, on this
machine. The first server is compared with the others: the same load goes to each in turns, round by round. Servers that
wait for their turn are frozen (SIGSTOP), so that an idle one that polls or spins costs the others nothing. Without any
server named, the embedded model is served and measured alone."""


def add_options(bench: argparse.ArgumentParser) -> None:
    """The options of ``mindspec bench``."""
    bench.description = _DESCRIPTION
    add = bench.add_argument
    add("--serve", action="append", default=[], metavar="[NAME=]ARGS", help='this program: options for "serve"')
    add("--url", action="append", default=[], metavar="[NAME=]URL", help="a server that runs already, on loopback")
    add("--servers", type=Path, metavar="FILE", help="more servers, as YAML (CONTRIBUTING.md shows how)")
    add(
        "--cases",
        default=_CASES,
        metavar="NAME,...",
        help=f"of start, c1, c4, ..., c4+half, ..., d8, d16, ..., long, prefix (default: {_CASES})",
    )
    add("--rounds", type=int, default=5, metavar="N", help="alternating rounds; the medians are shown (default: 5)")
    add("--tokens", type=int, default=64, metavar="N", help="output tokens of the c cases (default: 64)")
    add("--warm-starts", type=int, default=2, metavar="N", help="warm starts to take the median of (default: 2)")
    add(
        "--tokenizer",
        type=Path,
        metavar="DIR",
        help="folder whose tokenizer.json measures prompts; else the default model's",
    )
    add("--quiet-below", type=float, default=0.1, metavar="CORES", help="what others may use (default: 0.1)")
    add(
        "--quiet-wait", type=float, default=300, metavar="S", help="wait so long for quiet before a turn (default: 300)"
    )
    add("--retries", type=int, default=2, metavar="N", help="further tries of a noisy turn (default: 2)")
    add("--start-timeout", type=float, default=600, metavar="S", help="for a server's first answer (default: 600)")
    add("--json", type=Path, metavar="FILE", help="write everything that was measured")
    add("--logs", type=Path, metavar="DIR", help="keep the servers' output here")
