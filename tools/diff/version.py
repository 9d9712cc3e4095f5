"""One version of the contract, ready to be asked: its spec, read, and the package that is generated from it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tools.contract.corpus import Case, corpus_of
from tools.contract.package import Judge, Package, load_package
from tools.contract.search import Search
from tools.generate.__main__ import python_files
from tools.generate.document import Document, SpecError
from tools.generate.lint import check_fields, rules_run
from tools.generate.load import parse
from tools.generate.shapes import Contract, Operation, read
from tools.generate.write import write

SPEC_PATH: Final = "spec/openapi.yaml"
"""Where a revision has its spec unless it says otherwise."""


class Unreadable(Exception):
    """A version that cannot be read; the message says which and why."""


@dataclass
class Version:
    """A contract and its generated package; what is costly is made once, when it is asked for."""

    name: str
    contract: Contract
    package: Package
    _searches: dict[str, Search] = field(default_factory=dict)
    _corpora: dict[str, list[Case]] = field(default_factory=dict)

    def search(self, request: str) -> Search:
        """The search in the requests of one model."""
        if request not in self._searches:
            self._searches[request] = Search(self.contract, Judge(self.package, request))
        return self._searches[request]

    def corpus(self, operation: Operation) -> list[Case]:
        """The corpus of one operation; none where it takes no body."""
        if operation.id not in self._corpora:
            request = operation.request
            found = corpus_of(operation.id, self.search(request)) if request is not None else []
            self._corpora[operation.id] = found
        return self._corpora[operation.id]

    def deployment(self, words: Mapping[str, Any]) -> Any:
        """A deployment of this version's own class."""
        return self.package.deployment(**words)

    def close(self) -> None:
        """Forget the package's modules; they would stay for as long as the process."""
        for name in [
            name for name in sys.modules if name == self.package.name or name.startswith(f"{self.package.name}.")
        ]:
            del sys.modules[name]


def version_of(document: Document) -> Version:
    """Generate a version's package, as far as judging needs it.

    Raises:
        SpecError: no package can be made of the spec; carries the findings.
    """
    contract = read(document)
    check_fields(contract)
    if document.blocked:
        raise SpecError(document.path, document.findings)
    files = {name: text for name, text in python_files(contract).items() if name != "operations.py"}
    with tempfile.TemporaryDirectory() as folder:
        write(files, Path(folder))
        package = load_package(Path(folder))
    if not rules_run(contract, package):
        raise SpecError(document.path, document.findings)
    return Version(document.path, contract, package)


def read_source(source: str) -> Document:
    """The spec that a file, ``REVISION`` or ``REVISION:PATH`` names, parsed.

    Raises:
        Unreadable: there is no such file or revision.
        SpecError: it is no YAML.
    """
    path = Path(source)
    if path.is_file():
        try:
            return parse(path.read_text(encoding="utf-8"), source)
        except UnicodeDecodeError:
            raise Unreadable(f"{source} is no text in UTF-8") from None
    revision, _, inside = source.partition(":")
    if not revision or revision.startswith("-"):
        raise Unreadable(f"{source} is no file and no revision of git")
    name = f"{revision}:{inside or SPEC_PATH}"
    command = ["git", "show", "--no-textconv", name, "--"]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        raise Unreadable(f"{source} is no file, and git is not there to look for such a revision") from None
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["git says no more"]
        raise Unreadable(f"{source} is no file, and git has no {name}: {why[-1]}")
    return parse(done.stdout.decode("utf-8", "replace"), name)
