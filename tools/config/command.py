"""`mindspec config check` and `mindspec config explain`."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from generated.config_keys import KEYS, VARIABLES, Key, Variable
from handlers import exit_codes
from handlers.config_file import ConfigError, Fault, read_config
from tools.config.access import access_faults
from tools.config.effective import effective
from tools.config.options import Chosen, choose, weights_path
from tools.config.start import facts_of, findings
from tools.config.weights import WeightsFacts, WeightsProblem


def check(given: argparse.Namespace) -> int:
    """Exit code 0 for a file that may be used, else 78."""
    faults: list[Fault] = []
    chosen: Chosen | None = None
    notes: list[Fault] = []
    try:
        chosen, _, problem = _read(given.file, os.environ)
        notes = ([Fault("weights", problem)] if problem else []) + findings(chosen)
        faults += access_faults(chosen.options, os.environ)
    except ConfigError as error:
        faults = error.faults
    if given.json:
        shown = {"file": str(given.file), "usable": not faults, "faults": _plain(faults), "notes": _plain(notes)}
        print(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        for fault in faults:
            print(f"{given.file}: {fault}", file=sys.stderr)
        for note in notes:
            print(f"{given.file}: {note}")
        if faults:
            print(f"{given.file}: {len(faults)} fault{'s' * (len(faults) != 1)}; it is not used", file=sys.stderr)
        else:
            print(f"{given.file}: may be used")
    return exit_codes.CONFIG if faults else exit_codes.OK


def _read(path: Path, environment: Mapping[str, str]) -> tuple[Chosen, WeightsFacts | None, str]:
    """A file, its weights if they can be read, and why they cannot."""
    file = read_config(path)
    weights, problem = None, ""
    try:
        weights = facts_of(file, weights_path(file))
    except WeightsProblem as error:
        problem = f"{error} (a start ends with exit code {exit_codes.WEIGHTS})"
    return choose(file, environment, weights), weights, problem


def _plain(faults: list[Fault]) -> list[dict[str, str]]:
    return [{"key": fault.key, "message": fault.message} for fault in faults]


def explain(given: argparse.Namespace) -> int:
    """One key, all keys, or the values of a file in effect."""
    what: str | None = given.what
    if what is None:
        print("\n".join(_summary(pattern, key) for pattern, key in KEYS.items() if key.honoured is not None))
        print("\n".join(_variable_summary(name, variable) for name, variable in VARIABLES.items()))
        return exit_codes.OK
    if what.endswith(".json") or "/" in what or Path(what).is_file():
        return _explain_file(Path(what))
    found = [pattern for pattern in KEYS if what in (pattern, pattern.rpartition(".")[2])]
    if what in VARIABLES:
        print(_variable_summary(what, VARIABLES[what]))
        return exit_codes.OK
    named = [pattern for pattern, key in KEYS.items() if key.environment == what]
    if not found and not named:
        names = sorted({pattern.rpartition(".")[2] for pattern in KEYS} | set(VARIABLES))
        near = difflib.get_close_matches(what, names, n=3, cutoff=0.5)
        hint = f"; near it are {', '.join(near)}" if near else ""
        print(f"mindspec: {what} is no key and no variable of config.json{hint}", file=sys.stderr)
        return exit_codes.USAGE
    print("\n\n".join(_full(pattern, KEYS[pattern]) for pattern in found or named))
    return exit_codes.OK


def _explain_file(path: Path) -> int:
    try:
        chosen, weights, problem = _read(path, os.environ)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return exit_codes.CONFIG
    if problem:
        print(f"{path}: {problem}", file=sys.stderr)
    for row in effective(chosen, weights):
        print(f"{row.path} = {row.value}  ({row.origin}{'' if row.honoured else '; no meaning here'})")
    for fault in chosen.file.unknown:
        print(f"{path}: {fault}", file=sys.stderr)
    return exit_codes.OK


def _summary(pattern: str, key: Key) -> str:
    return f"{pattern}: {key.description} {'' if key.honoured else 'No meaning here: '}{key.effect}"


def _variable_summary(name: str, variable: Variable) -> str:
    return f"{name}: {'' if variable.honoured else 'No meaning here: '}{variable.effect}"


def _full(pattern: str, key: Key) -> str:
    lines = [pattern, f"  {key.description}", f"  may be:   {key.allowed}"]
    if key.honoured is not None:
        lines += [f"  default:  {key.default}", f"  effect:   {'' if key.honoured else 'none here. '}{key.effect}"]
    if key.environment:
        lines.append(f"  variable: {key.environment} wins over the file")
    if key.reload:
        lines.append("  reloads:  a change takes effect while the server runs")
    below = [other for other in KEYS if other.startswith((pattern + ".", pattern + "[]."))]
    if key.honoured is None and below:
        lines.append(f"  holds:    {', '.join(other.removeprefix(pattern + '.') for other in below)}")
    return "\n".join(lines)
