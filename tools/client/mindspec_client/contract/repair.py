# Written by `mindspec generate` from tools/laws/repair.py; do not edit.
"""Puts accepted values in the place of those at fault, so that the rest of a request can still be judged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from . import problems
from .problems import render_path, value_at
from .rules import Path

_ABSENT: Final = object()


def take_out(body: Any, path: Path) -> None:
    """Remove a member at fault; an element of a list stays for ``put_accepted``."""
    owner = value_at(body, path[:-1])
    if isinstance(owner, dict):
        owner.pop(path[-1], None)


def put_accepted(body: Any, path: Path, operation_id: str) -> bool:
    """Set a required member or an element to a value that the contract accepts; whether there is one."""
    value = accepted(operation_id).get(pattern(path), _ABSENT)
    owner = value_at(body, path[:-1])
    if value is _ABSENT:
        return False
    own = json.loads(json.dumps(value))  # a copy, which may be repaired itself
    key = path[-1]
    if isinstance(owner, list) and isinstance(key, int):
        owner[key] = own
        return True
    if isinstance(owner, dict):
        owner[key] = own
        return True
    return False


def pattern(path: Path) -> str:
    """``("messages", 0, "role")`` as ``messages[].role``, as the corpus writes it."""
    return render_path(["[]" if isinstance(key, int) else key for key in path]).replace(".[]", "[]")


@cache
def accepted(operation_id: str) -> Mapping[str, Any]:
    """Path pattern to a value there, from requests of the corpus that are accepted; of several, the shortest."""
    corpus = json.loads((files(str(problems.__package__)) / "corpus.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for case in corpus["cases"]:
        if case["operation"] == operation_id and case["group"] == "inside" and "deployment" not in case:
            for where, value in _values(case["body"], ()):
                size = len(json.dumps(value))
                if size < sizes.get(where, size + 1):
                    found[where], sizes[where] = value, size
    return found


def _values(value: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Every value that is written out in full, by its pattern."""
    if isinstance(value, dict) and set(value) == {"repeat", "times"}:
        return
    if path and value is not None and '"repeat"' not in json.dumps(value):
        yield pattern(path), value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _values(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _values(inner, (*path, index))
