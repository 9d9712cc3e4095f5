"""Runs a report's findings again, each by the curl commands that it shows: ``python -m tools.conform.replay REPORT``.

A law is tried with a transport that sends nothing itself: every request is the curl command that the report would
print for it, run by the shell. Where the law fails again, the finding shows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tools.conform.asking import Ask, Target
from tools.conform.budget import Budget
from tools.conform.cases import Cases
from tools.conform.curl import CurlWriter
from tools.conform.law import Skip, UsedUp
from tools.conform.registry import all_laws
from tools.conform.runner import tried
from tools.conform.session import deployment_of
from tools.conform.wire import Address, Exchange, Got, Sent
from tools.server_options import read_profile

_PLENTY: Final = 10**9
_TIMED_OUT: Final = 28
"""curl's exit code for --max-time."""


class CurlTransport:
    """Sends by curl, and remembers which commands were run."""

    def __init__(self, writer: CurlWriter) -> None:
        self._writer = writer
        self.commands: set[str] = set()

    def exchange(self, sent: Sent) -> Exchange:
        """See ``Transport``."""
        command = self._writer.command(sent)
        self.commands.add(command)
        done = _run(command)
        return Exchange(sent, answer(done.stdout, done.returncode, sent.first_event))


def _run(command: str) -> subprocess.CompletedProcess[bytes]:
    """By the shell's standard input: one argument of a command has a bound."""
    return subprocess.run(["/bin/sh"], input=command.encode(), capture_output=True, check=False)


def answer(output: bytes, code: int, first_event: bool = False) -> Got:
    """What curl printed, as an answer: the last head, and the body behind it."""
    status, headers = 0, dict[str, str]()
    while output.startswith(b"HTTP/"):
        head, _, rest = output.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        status = int(first.split()[1])
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        output = rest
        if status >= 200:
            break
    if code == _TIMED_OUT and not (first_event and output):
        return Got(status, headers, output, "timeout")
    return Got(status, headers, output, "connection" if not status else "")


def replay(report: dict[str, Any], writer: CurlWriter, target: Target) -> list[tuple[str, int, int, bool]]:
    """For each broken law of a report: its id, its findings, its curls that were run, and whether it failed again."""
    laws = {law.id: law for law in all_laws(Cases(target.deployment))}
    found = []
    for entry in report["laws"]:
        if entry["status"] not in ("fail", "flaky"):
            continue
        transport = CurlTransport(writer)
        due = {request["curl"] for finding in entry["findings"] for request in finding["requests"]}
        try:
            shows = bool(tried(laws[entry["id"]], Ask(transport, target, Budget(_PLENTY, _PLENTY))))
        except (Skip, UsedUp):
            shows = False
        for command in due - transport.commands:  # of answers that differ from run to run
            _run(command)
        run = len(due & transport.commands)
        found.append((entry["id"], len(entry["findings"]), run, shows))
        print(f"{'shows' if shows else 'DOES NOT SHOW'} {entry['id']}: {run} of {len(due)} curls", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 where every finding shows again, 1 where one does not."""
    parser = argparse.ArgumentParser(prog="python -m tools.conform.replay", description=__doc__)
    parser.add_argument("report", type=Path, help="made with --format json")
    parser.add_argument("--key-env", metavar="NAME", help="as in the run")
    parser.add_argument("--ca", metavar="FILE", help="as in the run")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="S", help="as in the run")
    parser.add_argument("--profile", type=read_profile, default=(), metavar="NAME,...", help="as in the run")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="as in the run")
    given = parser.parse_args(arguments)
    report = json.loads(given.report.read_text(encoding="utf-8"))
    address = report["url"].split("/", 3)
    url, base = "/".join(address[:3]), f"/{address[3]}" if len(address) > 3 else ""
    writer = CurlWriter(Address.of(url).url, given.key_env, given.ca, given.timeout)
    deployment = deployment_of(CurlTransport(writer), base, given.profile)
    found = replay(report, writer, Target(report["model"], base, deployment, given.seed))
    findings = sum(count for _, count, _, _ in found)
    shown = sum(shows for *_, shows in found)
    print(f"{shown} of {len(found)} broken laws fail again, with {findings} findings in the report")
    return 0 if shown == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
