"""The ``mindspec bench`` command: which servers, and the run from the first start to the report."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shlex
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tools.load.cases import Case, case
from tools.load.client import Address
from tools.load.host import MemoryProbe
from tools.load.limits import limits_of
from tools.load.progress import Progress
from tools.load.prompts import Prompts, token_counter
from tools.load.quiet import read, wait_until_quiet
from tools.load.report import START, Comparison, as_json, text
from tools.load.rounds import Patience, Rounds, Turn
from tools.load.servers import Server, ServerError, ServerSpec, own_command

_KEYS: Final = {"url", "model", "command", "env", "cwd", "body", "pid", "files", "fresh"}


def run(given: argparse.Namespace) -> int:
    """Measure and print; 0 when every turn had a result."""
    try:
        servers = chosen_servers(given)
        names = [name for name in given.cases.split(",") if name]
        cases = [case(name, given.tokens) for name in names if name != START]
        folder = _tokenizer_folder(given.tokenizer)
        prompts = Prompts(token_counter(folder), random.randrange(1_000_000))
    except (ValueError, OSError) as error:
        print(f"mindspec bench: {error}", file=sys.stderr)
        return 1
    settings: dict[str, Any] = {
        name: value for name, value in vars(given).items() if isinstance(value, str | int | float)
    }
    settings["servers"] = [_shown(spec) for spec in servers]

    def save(found: Comparison) -> None:
        if given.json:
            given.json.write_text(json.dumps(as_json(found, settings), indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory(prefix="mindspec-bench-logs-") as scratch:
        logs: Path = given.logs or Path(scratch)
        logs.mkdir(parents=True, exist_ok=True)
        bench = Bench([Server(spec, logs) for spec in servers], cases, prompts, given, START in names, save)
        bench.found.limits = limits_of(folder)
        try:
            asyncio.run(bench.run())
        except ServerError as error:
            print(f"mindspec bench: {error}", file=sys.stderr)
            return 1
        except (KeyboardInterrupt, asyncio.CancelledError):
            print("mindspec bench: interrupted; what was measured so far:", file=sys.stderr)
    found = bench.found
    save(found)
    print(text(found))
    whole = len(found.turns) == found.rounds * len(cases) * len(servers)
    return 0 if whole and all(turn.figures for turn in found.turns) else 1


class Bench:
    """One run: starts, rounds, ends."""

    def __init__(
        self,
        servers: Sequence[Server],
        cases: Sequence[Case],
        prompts: Prompts,
        given: argparse.Namespace,
        measure_starts: bool,
        save: Callable[[Comparison], None],
    ) -> None:
        """``save`` is called after each turn: a long run that dies is not lost."""
        patience = Patience(given.quiet_below, given.quiet_wait, given.retries)
        self.found = Comparison([server.spec.name for server in servers], list(cases), given.rounds, patience)
        self._servers = servers
        self._prompts = prompts
        self._save = save
        self._warm_starts = given.warm_starts if measure_starts else 0
        self._timeout_s: float = given.start_timeout
        starts = sum(self._warm_starts + 1 if server.owned else 1 for server in servers)
        self._progress = Progress(starts + given.rounds * len(cases) * len(servers), sys.stderr)

    async def run(self) -> None:
        """Everything; ``found`` grows as it goes.

        Raises:
            ServerError: a server does not start, or refuses the load.
        """
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        probe = MemoryProbe()
        rounds = Rounds(self._prompts, self.found.patience, probe=probe.gb_per_s, read=read, told=self._progress.now)
        try:
            for server in self._servers:
                await self._start(server)
                server.freeze()
            await rounds.run(self._servers, self.found.cases, self.found.rounds, self._took)
            for server in self._servers:
                self.found.memory_mb[server.spec.name] = server.memory_mb()
        finally:
            self._progress.close()
            for server in self._servers:
                await server.stop()
                server.forget_caches()

    async def _start(self, server: Server) -> None:
        """Once, or where starts are measured: once cold, then warm as often as wanted; the last one stays."""
        name = server.spec.name
        kinds = ["cold"] + ["warm"] * self._warm_starts if self._warm_starts and server.owned else ["plain"]
        for kind in kinds:
            await server.stop()
            self._progress.now(f"{name}: {kind} start")
            if kind != "plain":
                patience = self.found.patience
                await wait_until_quiet(lambda: read([]), below_cores=patience.below_cores, patience_s=patience.wait_s)
            took_s = await server.start(self._timeout_s, cold=kind == "cold")
            if took_s is not None and kind != "plain":
                self.found.starts.setdefault(name, []).append({f"{kind}_s": took_s})
            self._progress.step()

    def _took(self, turn: Turn) -> None:
        self.found.turns.append(turn)
        self._save(self.found)
        self._progress.step()


def chosen_servers(given: argparse.Namespace) -> list[ServerSpec]:
    """The servers of the options, in the order --serve, --url, --servers.

    Raises:
        ValueError, OSError: one of them is not usable.
    """
    specs = []
    for number, value in enumerate(given.serve or ([] if given.url or given.servers else [""])):
        name, arguments = _named(value, "mindspec" if number == 0 else f"mindspec-{number + 1}")
        port = free_port()
        command = own_command(tuple(shlex.split(arguments)), port)
        specs.append(ServerSpec(name, Address("127.0.0.1", port), command=command))
    for number, value in enumerate(given.url):
        name, url = _named(value, f"url-{number + 1}")
        specs.append(ServerSpec(name, Address.of(url)))
    if given.servers:
        import yaml

        document = yaml.safe_load(given.servers.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise ValueError(f"{given.servers} holds no mapping of names to servers")
        specs += [spec_of(str(name), entry) for name, entry in document.items()]
    names = [spec.name for spec in specs]
    if len(set(names)) < len(names):
        raise ValueError(f"two servers have one name: {', '.join(names)}")
    return specs


def spec_of(name: str, entry: Any, environment: Mapping[str, str] = os.environ) -> ServerSpec:
    """One entry of a servers file; ``$NAME`` and ``${NAME}`` in its texts stand for environment variables.

    Raises:
        ValueError: a key is unknown, a value has the wrong type, a variable is not set, or the URL is not loopback.
    """
    if not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f"{name!r} is no name for a server: letters, digits, dots, hyphens and underscores only")
    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
        raise ValueError(f"server {name}: a mapping with a url is needed")
    if unknown := set(map(str, entry)) - _KEYS:
        raise ValueError(f"server {name}: unknown: {', '.join(sorted(unknown))}; known: {', '.join(sorted(_KEYS))}")
    expected = {"model": str, "command": str, "cwd": str, "env": dict, "body": dict, "pid": int, "files": list}
    for key, kind in (expected | {"fresh": list}).items():
        if entry.get(key) is not None and not isinstance(entry[key], kind):
            raise ValueError(f"server {name}: {key} must be a {kind.__name__}")

    def filled(value: Any) -> str:
        def variable(found: re.Match[str]) -> str:
            key = found[1] or found[2]
            if key not in environment:
                raise ValueError(f"server {name}: the environment variable {key} is not set")
            return environment[key]

        return re.sub(r"\$(?:\{(\w+)\}|(\w+))", variable, str(value))

    command = entry.get("command")
    return ServerSpec(
        name=name,
        address=Address.of(filled(entry["url"])),
        model=filled(entry["model"]) if entry.get("model") else None,
        command=tuple(shlex.split(filled(command))) if command else None,
        env={str(key): filled(value) for key, value in (entry.get("env") or {}).items()},
        cwd=Path(filled(entry["cwd"])) if entry.get("cwd") else None,
        body=entry.get("body") or {},
        pid=entry.get("pid"),
        files=tuple(Path(filled(path)) for path in entry.get("files") or []),
        fresh=tuple(map(str, entry.get("fresh") or [])),
    )


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _named(value: str, otherwise: str) -> tuple[str, str]:
    """Split ``NAME=VALUE``; options and URLs may hold equals signs of their own."""
    found = re.fullmatch(r"([A-Za-z_][\w.-]*)=(.*)", value)
    return (found[1], found[2]) if found else (otherwise, value)


def _tokenizer_folder(given: Path | None) -> Path:
    if given is not None:
        return given
    from tools.weights import ensure_default_model
    from tools.weights_source import WeightsError

    try:
        return ensure_default_model(lambda line: print(line, file=sys.stderr))
    except WeightsError as error:
        raise ValueError(f"no tokenizer to measure prompts with: {error}") from error


def _shown(spec: ServerSpec) -> dict[str, Any]:
    return {name: value for name, value in json.loads(json.dumps(asdict(spec), default=str)).items() if value}
