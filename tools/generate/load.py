"""Reads the spec: YAML to plain data, with the file line of every node, and local references followed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Where = tuple[str | int, ...]
"""The way from the top of the document to a node: keys and list indices."""

_SCALARS: tuple[tuple[re.Pattern[str], Any], ...] = (
    (re.compile(r"(?:|~|null)"), lambda text: None),
    (re.compile(r"true|false"), lambda text: text == "true"),
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"), float),
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with the spec, and what to do about it."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


class SpecError(Exception):
    """The spec cannot be used; carries every finding, by line."""

    def __init__(self, path: str, findings: list[Finding]) -> None:
        self.path = path
        self.findings = sorted(set(findings), key=lambda finding: (finding.line, finding.message))
        super().__init__("\n".join(f"{path}:{finding.line}: {finding.message}" for finding in self.findings))


@dataclass
class Document:
    """A loaded YAML file: its data, and where each node stands in the file."""

    path: str
    data: dict[str, Any]
    lines: dict[Where, int]
    findings: list[Finding] = field(default_factory=list)
    blocked: bool = False

    def line(self, where: Where) -> int:
        """The line of a node, or of its nearest known ancestor."""
        while where not in self.lines:
            where = where[:-1]
        return self.lines[where]

    def complain(self, where: Where, message: str, *, blocks: bool = True) -> None:
        """Note a finding at a node; one that blocks keeps the generated code from running."""
        self.findings.append(Finding(self.line(where), message))
        self.blocked = self.blocked or blocks

    def at(self, where: Where) -> Any:
        """The data at a place."""
        node: Any = self.data
        for key in where:
            node = node[key]
        return node

    def follow(self, reference: str) -> Where | None:
        """The place that a ``#/a/b`` reference names, or None where there is nothing."""
        if not reference.startswith("#/"):
            return None
        where: Where = tuple(part.replace("~1", "/").replace("~0", "~") for part in reference[2:].split("/"))
        try:
            self.at(where)
        except (KeyError, TypeError, IndexError):
            return None
        return where

    def resolve(self, node: Any, where: Where) -> tuple[Any, Where]:
        """A node with its ``$ref`` chain followed; keys beside a ``$ref`` win over the target's.

        Returns the merged node and the place where it is defined. A dead or circular reference is a finding and
        gives an empty schema.
        """
        seen: set[Where] = set()
        beside: dict[str, Any] = {}
        while isinstance(node, dict) and "$ref" in node:
            target = self.follow(str(node["$ref"]))
            if target is None or target in seen:
                why = "points to nothing" if target is None else "points to itself"
                self.complain(where, f"$ref {node['$ref']} {why}; name an entry that exists in this file")
                return {}, where
            seen.add(target)
            beside = {**{key: value for key, value in node.items() if key != "$ref"}, **beside}
            node, where = self.at(target), target
        return ({**node, **beside} if beside else node), where


def load(path: Path) -> Document:
    """Parse a spec file.

    Scalars follow YAML 1.2 (so ``on`` and ``off`` are text and 1e-6 is a number). A key that stands twice in one
    mapping is a finding.

    Raises:
        SpecError: the file is not YAML or not a mapping.
    """
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SpecError(str(path), [Finding(line, f"not YAML: {error.problem}; fix the syntax")]) from None
    document = Document(str(path), {}, {(): 1})
    data = _plain(node, (), document)
    if not isinstance(data, dict):
        raise SpecError(str(path), [Finding(1, "not a mapping; a spec starts with `openapi: 3.1.0`")])
    document.data = data
    return document


def _plain(node: yaml.Node | None, where: Where, document: Document) -> Any:
    """Plain data of a YAML node; notes the line of every key and item on the way."""
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in mapping:
                document.findings.append(Finding(line, f"key {key} stands twice in one mapping; remove one"))
            document.lines[(*where, key)] = line
            mapping[key] = _plain(value, (*where, key), document)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            document.lines[(*where, index)] = item.start_mark.line + 1
            items.append(_plain(item, (*where, index), document))
        return items
    if isinstance(node, yaml.ScalarNode):
        if node.style is None:
            for pattern, make in _SCALARS:
                if pattern.fullmatch(node.value):
                    return make(node.value)
        return node.value
    return None
