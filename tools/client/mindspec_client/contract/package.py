# Written by `mindspec generate` from tools/contract/package.py; do not edit.
"""Loads a generated package from any folder, and judges request bodies with its models."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError


@dataclass(frozen=True)
class Package:
    """A generated package; its modules are reached by name, since each package has classes of its own."""

    name: str

    def module(self, name: str) -> Any:
        """One of its modules: models, rules, problems, fields, base."""
        return importlib.import_module(f"{self.name}.{name}")

    def deployment(self, **words: Any) -> Any:
        """A Deployment from plain data, such as ``features=["mtp"]``."""
        sets = {key: frozenset(value) if isinstance(value, list) else value for key, value in words.items()}
        return self.module("rules").Deployment(**sets)


def load_package(folder: Path) -> Package:
    """Import the generated package in a folder under a name of its own, so that several can be loaded at once."""
    paths = sorted(folder.glob("*.py"))
    name = f"contract_{hashlib.sha256(b''.join(path.read_bytes() for path in paths)).hexdigest()[:16]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        if spec is None or spec.loader is None:
            raise ImportError(f"{folder} holds no package")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
        for path in paths:  # all of them now, since the folder may be a temporary one
            importlib.import_module(f"{name}.{path.stem}" if path.stem != "__init__" else name)
    return Package(name)


class Verdict(NamedTuple):
    """What the models say about a body: accepted when ``code`` is empty."""

    code: str = ""
    param: str | None = None
    message: str = ""


class Judge:
    """Judges bodies of one request model; without a deployment it judges for one that has no feature."""

    def __init__(self, package: Package, request: str) -> None:
        self.request, self.package = request, package
        self.model, self.rules = getattr(package.module("models"), request), package.module("rules")
        self.plain = self.rules.PLAIN

    def verdict(self, body: Any, deployment: Any = None) -> Verdict:
        """The whole check, as a server does it."""
        server = deployment or self.plain
        try:
            self.model.model_validate(body, context=server)
        except ValidationError as error:
            problem = self.package.module("problems").explain(error, body, self.request, server)
            return Verdict(problem.code, problem.param, problem.message)
        return Verdict()

    def broken(self, body: Any, deployment: Any = None) -> list[tuple[str, tuple[str | int, ...]]] | None:
        """All rules that a body breaks, as (id, owner's path), None where a field is at fault already."""
        server = deployment or self.plain
        try:
            model = self.model.model_validate(body, context=self.package.module("base").FIELDS_ONLY)
        except ValidationError:
            return None
        self.rules.NORMALISERS.get(self.request, lambda model, server: None)(model, server)
        return [(rule.id, path) for rule, path in model.broken(server)]
