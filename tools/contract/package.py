"""Loads a generated package from any folder, and judges request bodies with its models."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    name = f"contract_{digest.hexdigest()[:16]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        if spec is None or spec.loader is None:
            raise ImportError(f"{folder} holds no package")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            for path in sorted(folder.glob("[a-z]*.py")):  # now: the folder may be a temporary one
                importlib.import_module(f"{name}.{path.stem}")
        except BaseException:
            for known in [known for known in sys.modules if known == name or known.startswith(name + ".")]:
                del sys.modules[known]
            raise
    return Package(name)


@dataclass(frozen=True)
class Verdict:
    """What the models say about a body: accepted when ``code`` is empty."""

    code: str = ""
    param: str | None = None
    message: str = ""


class Judge:
    """Judges bodies of one request model."""

    def __init__(self, package: Package, request: str) -> None:
        self.request = request
        self.package = package
        self.model = getattr(package.module("models"), request)
        self._explain = package.module("problems").explain
        self._fields_only = package.module("base").FIELDS_ONLY
        self._normalise = package.module("rules").NORMALISERS.get(request)
        self.plain = package.module("rules").PLAIN

    def verdict(self, body: Any, deployment: Any = None) -> Verdict:
        """The whole check, as a server does it."""
        server = deployment if deployment is not None else self.plain
        try:
            self.model.model_validate(body, context=server)
        except ValidationError as error:
            problem = self._explain(error, body, self.request, server)
            return Verdict(problem.code, problem.param, problem.message)
        return Verdict()

    def broken(self, body: Any, deployment: Any = None) -> list[tuple[str, tuple[str | int, ...]]] | None:
        """All rules that a body breaks, as (id, owner's path), None where a field is at fault already."""
        server = deployment if deployment is not None else self.plain
        try:
            model = self.model.model_validate(body, context=self._fields_only)
        except ValidationError:
            return None
        if self._normalise is not None:
            self._normalise(model, server)
        return [(rule.id, path) for rule, path in model.broken(server)]
