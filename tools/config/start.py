"""Finds and reads the config.json of a start, and says what an operator ought to know about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from handlers.config_file import ConfigFile, Fault, read_config
from tools.config.options import Chosen, choose, is_mock, weights_path
from tools.config.weights import WeightsFacts, weights_facts
from tools.serving import PATH_VARIABLE


def config_path(given: argparse.Namespace, environment: Mapping[str, str]) -> Path | None:
    """The file of a start: --config, else the variable's where no --model says otherwise; None for none."""
    if given.config is not None:
        return Path(given.config)
    named = environment.get(PATH_VARIABLE)
    return Path(named) if named and given.model is None else None


def configured(given: argparse.Namespace, environment: Mapping[str, str]) -> Chosen | None:
    """What the file of a start chooses; None without a file.

    Raises:
        ConfigError: the file cannot be used.
        WeightsProblem: the weights that it names cannot be.
    """
    path = config_path(given, environment)
    if path is None:
        return None
    file = read_config(path)
    folder = given.model or weights_path(file)
    weights = facts_of(file, folder)
    chosen = choose(file, environment, weights)
    if not is_mock(file):
        chosen.options["model"] = folder
    return chosen


def facts_of(file: ConfigFile, folder: Path | None) -> WeightsFacts | None:
    """What the weights of a file say; None where none are loaded.

    Raises:
        WeightsProblem: they cannot be served.
    """
    return None if is_mock(file) or folder is None else weights_facts(folder)


def start_lines(chosen: Chosen) -> Iterator[str]:
    """What a start says about its file: keys that nobody knows, and those without a meaning here."""
    file = chosen.file
    for fault in [*file.unknown, *chosen.notes]:
        yield f"{file.path}: {fault}"
    if file.named:
        names = ", ".join(fault.key for fault in file.named)
        count = f"{len(file.named)} key{'s' * (len(file.named) != 1)}"
        have = "have" if len(file.named) != 1 else "has"
        yield f"{file.path}: {count} {have} no meaning here (`mindspec config check` says why): {names}"


def findings(chosen: Chosen) -> list[Fault]:
    """All that is to be said about a file that may be used."""
    return [*chosen.file.unknown, *chosen.notes, *chosen.file.named]
