"""``python -m tools.open_loop``: start a server, load it at a fixed rate, compare its books with the client's."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.load.client import Address
from tools.load.command import free_port
from tools.load.servers import Server, ServerSpec
from tools.open_loop.driver import OpenLoop, Outcome, Plan

START_S = 300.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when there is nothing to complain about."""
    given = _parser().parse_args(arguments)
    plan = Plan(given.rate, given.seconds, given.tokens, given.sockets)
    outcome = asyncio.run(load(given.command, shlex.split(given.options), plan))
    print(report(outcome, from_s=given.seconds / 5))
    return 1 if outcome.complaints() else 0


async def load(command: str, options: Sequence[str], plan: Plan) -> Outcome:
    """Start ``mindspec COMMAND OPTIONS``, load it, stop it."""
    port = free_port()
    line = (sys.executable, "-m", "tools.cli", command, "--port", str(port), *options)
    with tempfile.TemporaryDirectory(prefix="mindspec-open-loop-") as logs:
        server = Server(ServerSpec("open-loop", Address("127.0.0.1", port), command=line), Path(logs))
        try:
            await server.start(START_S)
            return await OpenLoop(server.spec.address, server.model, plan, server.memory_mb).run()
        finally:
            await server.stop()


def report(outcome: Outcome, from_s: float) -> str:
    """What was found, in lines; the memory's slope from ``from_s`` on."""
    sizes = [size for _, size in outcome.memory]
    lines = [
        f"Sent {outcome.sent} on at most {outcome.most_sockets} sockets; stalled for {outcome.stalled_s:.1f} s",
        f"Answers: {dict(outcome.by_status)}; the server counted {dict(outcome.books.by_status)}",
        f"GET /health: p99 {outcome.health_p99_s:.3f} s, slowest {max(outcome.health_s):.3f} s",
        f"Memory: {sizes[0]:.1f} MB at first, {sizes[-1]:.1f} at last, "
        f"{outcome.slope_mb_per_minute(from_s):+.3f} MB a minute after {from_s:g} s",
    ]
    return "\n".join(lines + [f"! {complaint}" for complaint in outcome.complaints()])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.open_loop", description=__doc__)
    add = parser.add_argument
    add("command", choices=["serve", "mock"], help="which server")
    add("options", nargs="?", default="", help="its options, in one argument")
    add("--rate", type=float, default=32.0, metavar="N", help="requests a second (default: 32)")
    add("--seconds", type=float, default=600.0, metavar="S", help="how long they come (default: 600)")
    add("--tokens", type=int, default=16, metavar="N", help="of an answer (default: 16)")
    add("--sockets", type=int, default=1000, metavar="N", help="at the same time at most (default: 1000)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
