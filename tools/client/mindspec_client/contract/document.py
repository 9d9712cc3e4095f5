# Written by `mindspec generate` from tools/generate/document.py; do not edit.
"""A loaded spec as plain data: its nodes, the file line of each, local references followed, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

Where = tuple[str | int, ...]
"""The way from the top of the document to a node: keys and list indices."""


class Finding(NamedTuple):
    """One thing that is wrong with the spec, and what to do about it."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


class SpecError(Exception):
    """The spec cannot be used; carries every finding, by line."""

    def __init__(self, path: str, findings: list[Finding]) -> None:
        self.path, self.findings = path, sorted(set(findings))
        super().__init__("\n".join(f"{path}:{finding.line}: {finding.message}" for finding in self.findings))


@dataclass
class Document:
    """A loaded YAML file: its data, and where each node stands in the file."""

    path: str
    data: Any = None
    lines: dict[Where, int] = field(default_factory=lambda: {(): 1})
    findings: list[Finding] = field(default_factory=list)
    blocked: bool = False
    """Whether a finding keeps the generated code from running."""

    def complain(self, where: Where, message: str, *, blocks: bool = True) -> None:
        """Note a finding at a node, or at its nearest ancestor that has a line."""
        while where not in self.lines:
            where = where[:-1]
        self.findings.append(Finding(self.lines[where], message))
        self.blocked = self.blocked or blocks

    def at(self, where: Where) -> Any:
        """The data at a place; KeyError where there is none."""
        node: Any = self.data
        for key in where:
            node = (node if isinstance(node, dict) else dict(enumerate(node if isinstance(node, list) else ())))[key]
        return node

    def resolve(self, node: Any, where: Where) -> tuple[Any, Where]:
        """A node with its ``$ref`` chain followed; keys beside a ``$ref`` win over the target's.

        Returns the merged node and the place where it is defined. A dead or circular reference is a finding and
        gives an empty mapping.
        """
        beside: dict[str, Any] = {}
        seen: set[Where] = set()
        while isinstance(node, dict) and "$ref" in node:
            reference = str(node["$ref"])
            target: Where = tuple(key.replace("~1", "/").replace("~0", "~") for key in reference.split("/")[1:])
            beside = {**{key: value for key, value in node.items() if key != "$ref"}, **beside}
            try:
                node = self.at(target if target not in seen else ("#",))
            except KeyError:
                self.complain(where, f"$ref {reference} points to nothing; name an entry that exists in this file")
                return {}, where
            seen.add(target)
            where = target
        return ({**node, **beside} if beside else node), where
