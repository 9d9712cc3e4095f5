"""Reads the spec: YAML 1.2 to plain data, with the file line of every node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tools.generate.document import Document, Finding, SpecError, Where

__all__ = ["Document", "Finding", "SpecError", "Where", "load", "parse"]

_SCALARS: tuple[tuple[str, Any], ...] = (
    (r"|~|null", lambda text: None),
    (r"true|false", lambda text: text == "true"),
    (r"[-+]?[0-9]+", int),
    (r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", float),
)
"""What plain text means in YAML 1.2: ``on`` and ``off`` are text, 1e-6 is a number."""


def load(path: Path) -> Document:
    """Parse a spec file.

    Raises:
        SpecError: the file is not YAML or not a mapping.
    """
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(text: str, name: str) -> Document:
    """Parse a spec's text; ``name`` is how findings call it.

    Raises:
        SpecError: the text is not YAML or not a mapping.
    """
    document = Document(name)
    try:
        document.data = _plain(document, yaml.compose(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SpecError(name, [Finding(line, f"not YAML: {error.problem}; fix the syntax")]) from None
    if not isinstance(document.data, dict):
        raise SpecError(name, [Finding(1, "not a mapping; a spec starts with `openapi: 3.1.0`")])
    return document


def _plain(document: Document, node: yaml.Node | None, where: Where = ()) -> Any:
    """Plain data of a YAML node; notes the line of every key and item on the way."""
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            document.lines[(*where, key.value)] = key.start_mark.line + 1
            if key.value in mapping:
                document.complain((*where, key.value), f"key {key.value} stands twice in one mapping; remove one")
            mapping[key.value] = _plain(document, value, (*where, key.value))
        return mapping
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            document.lines[(*where, index)] = item.start_mark.line + 1
        return [_plain(document, item, (*where, index)) for index, item in enumerate(node.value)]
    text = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
    plain = not isinstance(node, yaml.ScalarNode) or node.style is None
    makers = (make for pattern, make in _SCALARS if plain and re.fullmatch(pattern, text))
    return next(makers, str)(text)
