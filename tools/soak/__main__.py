"""``python -m tools.soak``: start the server with its engine in float32, soak it, report."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tools.load.client import Address
from tools.load.command import free_port
from tools.load.progress import Progress
from tools.load.prompts import token_counter
from tools.load.servers import Server, ServerSpec, own_command
from tools.soak.driver import Outcome, Plan, Soak
from tools.soak.kinds import requests
from tools.soak.watch import pages_from_metrics
from tools.weights import ensure_default_model


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when there is nothing to complain about."""
    given = _parser().parse_args(arguments)
    plan = Plan(
        requests=given.requests,
        concurrency=given.concurrency,
        kills=given.kills,
        rounds=given.rounds,
        round_requests=given.round_requests,
        seed=given.seed,
    )
    with tempfile.TemporaryDirectory(prefix="mindspec-soak-") as scratch:
        logs: Path = given.logs or Path(scratch)
        logs.mkdir(parents=True, exist_ok=True)
        outcome = asyncio.run(soak(plan, given.distinct, given.max_tokens, given.serve, logs))
    print(report(outcome))
    if given.json:
        given.json.write_text(json.dumps(as_json(outcome), indent=1) + "\n", encoding="utf-8")
    return 1 if outcome.complaints() else 0


async def soak(plan: Plan, distinct: int, max_tokens: int, serve: str, logs: Path) -> Outcome:
    """Start a server with the default model, soak it, stop it.

    Args:
        distinct: different requests; each is answered alone first.
        serve: further options of ``mindspec serve``.
    """
    folder = ensure_default_model(lambda line: print(line, file=sys.stderr))
    port = free_port()
    options = ("--model", str(folder), "--dtype", "float32", *shlex.split(serve))
    spec = ServerSpec("soak", Address("127.0.0.1", port), folder.name, own_command(options, port))
    server = Server(spec, logs)
    wanted = requests(token_counter(folder), distinct, max_tokens, folder.name, plan.seed)
    progress = Progress(1, sys.stderr)
    try:
        await server.start(300)
        pages = pages_from_metrics(spec.address)
        return await Soak(server, wanted, plan, pages=pages, told=progress.now).run()
    finally:
        progress.close()
        await server.stop()


def report(outcome: Outcome) -> str:
    """What was found, in lines."""

    def counted(counts: dict[str, int]) -> str:
        return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))

    pages = "the server does not say" if outcome.pages_in_use is None else str(outcome.pages_in_use)
    lines = [
        f"Answers: {counted(outcome.verdicts)}",
        f"Requests: {counted(outcome.kinds)}",
        "Back after a kill: " + (", ".join(f"{s:.1f} s" if s else "never" for s in outcome.recovered_s) or "no kill"),
        f"GET /health: slowest {outcome.health_slowest_s:.2f} s",
        f"Pages in use afterwards: {pages}",
    ]
    if outcome.memory:
        shown = ", ".join(f"{memory.http_mb:.0f}+{memory.engine_mb:.0f}" for memory in outcome.memory)
        lines.append(f"Memory after each round (HTTP + engine), MB: {shown}")
    complaints = outcome.complaints()
    lines += [f"! {complaint}" for complaint in complaints[:20]]
    if len(complaints) > 20:
        lines.append(f"! and {len(complaints) - 20} more")
    return "\n".join(lines)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Everything."""
    counts = {"verdicts": dict(outcome.verdicts), "kinds": dict(outcome.kinds)}  # asdict makes nonsense of a Counter
    return {
        **asdict(replace(outcome, verdicts=Counter(), kinds=Counter())),
        **counts,
        "complaints": outcome.complaints(),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    add = parser.add_argument
    add("--requests", type=int, default=500, metavar="N")
    add("--concurrency", type=int, default=32, metavar="N")
    add("--kills", type=int, default=2, metavar="N", help="of the engine, spread over the requests (default: 2)")
    add("--rounds", type=int, default=10, metavar="N", help="for memory, after the requests (default: 10)")
    add("--round-requests", type=int, default=50, metavar="N", help="in each round (default: 50)")
    add("--distinct", type=int, default=100, metavar="N", help="different requests (default: 100)")
    add("--max-tokens", type=int, default=32, metavar="N", help="of an answer at most (default: 32)")
    add("--seed", type=int, default=1)
    add("--serve", default="", metavar="ARGS", help='further options for "serve"')
    add("--json", type=Path, metavar="FILE")
    add("--logs", type=Path, metavar="DIR", help="keep the server's output here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
