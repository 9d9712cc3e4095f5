"""`mindspec proxy`: its options, and its start."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from tools.server_options import FEATURES, MODEL_TYPES, port_number, read_profile

USAGE, ADDRESS_TAKEN = 2, 98
"""Exit codes: the command line is wrong; the address cannot be listened to."""


def add_proxy(commands: Any) -> None:
    """The command; ``commands``: what ``add_subparsers`` gave."""
    proxy = commands.add_parser(
        "proxy",
        help="stand between a client and a server, and tell breaches of either",
        description="Passes everything on between clients and a server, unbuffered, and tells breaches of either side.",
    )
    add = proxy.add_argument
    add("url", metavar="URL", help="the server: http or https, perhaps with a base path")
    add("--host", default="127.0.0.1", help="where to listen")
    add("--port", type=port_number, default=1026, help="0: any that is free")
    add(
        "--profile",
        type=read_profile,
        default=(),
        metavar="NAME,...",
        help="judge requests as a MindIE with these would: " + ", ".join(FEATURES + MODEL_TYPES),
    )
    add("--open-ai-support", default="vllm", metavar="FORM", help='judge requests as a server whose form is not "vllm"')
    add("--report", type=Path, metavar="FILE", help="where the lines go; standard output if absent")
    add("--format", choices=["text", "json"], default="text", help="of the lines and counts")
    add("--ca", type=Path, metavar="FILE", help="certificates that the server's must come from; the system's if absent")
    add("--insecure", action="store_true", help="do not look at the server's certificate")
    proxy.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from tools.proxy.server import serve
    from tools.proxy.upstream import read_upstream

    try:
        upstream = read_upstream(given.url, given.ca, verify=not given.insecure)
        if given.report is not None:
            given.report.open("w").close()
    except (ValueError, OSError) as error:
        print(f"mindspec: {error}", file=sys.stderr)
        return USAGE
    options = ["--format", given.format]
    options += ["--features", ",".join(name for name in given.profile if name not in MODEL_TYPES)]
    options += ["--model-type", next((name for name in given.profile if name in MODEL_TYPES), "")]
    options += ["--openai-form"] if given.open_ai_support != "vllm" else []
    options += ["--report", str(given.report)] if given.report is not None else []
    try:
        return asyncio.run(serve(upstream, given.host, given.port, options, _announce))
    except OSError as error:
        print(f"mindspec: cannot listen on {given.host}:{given.port}: {error}", file=sys.stderr)
        return ADDRESS_TAKEN


def _announce(line: str) -> None:
    print(line, flush=True)
