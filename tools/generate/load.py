"""Reads the spec: YAML to plain data, with the file line of every node, and local references followed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Where = tuple[str | int, ...]
"""The way from the top of the document to a node: keys and list indices."""

_SCALARS: tuple[tuple[str, Any], ...] = (
    (r"|~|null", lambda text: None),
    (r"true|false", lambda text: text == "true"),
    (r"[-+]?[0-9]+", int),
    (r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", float),
)
"""What plain text means in YAML 1.2: ``on`` and ``off`` are text, 1e-6 is a number."""


class Finding(NamedTuple):
    """One thing that is wrong with the spec, and what to do about it."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


class SpecError(Exception):
    """The spec cannot be used; carries every finding, by line."""

    def __init__(self, path: str, findings: list[Finding]) -> None:
        self.findings = sorted(set(findings))
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

    def read(self, node: yaml.Node | None, where: Where = ()) -> Any:
        """Plain data of a YAML node; notes the line of every key and item on the way."""
        if isinstance(node, yaml.MappingNode):
            mapping: dict[str, Any] = {}
            for key, value in node.value:
                self.lines[(*where, key.value)] = key.start_mark.line + 1
                if key.value in mapping:
                    self.complain((*where, key.value), f"key {key.value} stands twice in one mapping; remove one")
                mapping[key.value] = self.read(value, (*where, key.value))
            return mapping
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[(*where, index)] = item.start_mark.line + 1
            return [self.read(item, (*where, index)) for index, item in enumerate(node.value)]
        text = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
        plain = not isinstance(node, yaml.ScalarNode) or node.style is None
        makers = (make for pattern, make in _SCALARS if plain and re.fullmatch(pattern, text))
        return next(makers, str)(text)


def load(path: Path) -> Document:
    """Parse a spec file.

    Raises:
        SpecError: the file is not YAML or not a mapping.
    """
    document = Document(str(path))
    try:
        document.data = document.read(yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SpecError(str(path), [Finding(line, f"not YAML: {error.problem}; fix the syntax")]) from None
    if not isinstance(document.data, dict):
        raise SpecError(str(path), [Finding(1, "not a mapping; a spec starts with `openapi: 3.1.0`")])
    return document
