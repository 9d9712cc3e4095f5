"""What the documents say of each parameter besides its meaning: range, default, null, and where it comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tools.generate.fields import words
from tools.generate.load import Where
from tools.generate.shapes import Contract, Member, Shape, openai_shape


@dataclass(frozen=True)
class Fact:
    """One parameter, as the table of parameters shows it and its description ends with it."""

    path: str
    """Such as ``messages[].role``."""
    allowed: str
    openai_form: str
    """The same where the deployment answers in OpenAI's form; empty where nothing differs."""
    required: bool
    nullable: bool
    default: str
    """JSON; empty where there is none."""
    source: str
    meaning: str
    where: Where
    """The schema that the description belongs to."""

    @property
    def sentences(self) -> str:
        """All but the meaning, in sentences."""
        parts = [f"Allowed: {self.allowed}"]
        if self.openai_form:
            parts.append(f"In OpenAI's form: {self.openai_form}")
        parts.append("Required" if self.required else f"Default: {self.default or 'none'}")
        parts.append("null counts as absent" if self.nullable else "null is refused")
        return ". ".join([*parts, f"Source: {self.source}"]) + "."


def facts(contract: Contract, request: str) -> list[Fact]:
    """Every member below a request model, in the order of the spec; items of lists are part of their list."""
    return [
        _fact(contract, pattern, member, shape)
        for pattern, member, shape in contract.walk(request)
        if not pattern.endswith("[]")
    ]


def all_facts(contract: Contract) -> Iterator[tuple[str, list[Fact]]]:
    """The facts of each operation that takes a body: method and path, then its members."""
    for operation in contract.operations:
        if operation.request:
            yield f"{operation.method.upper()} {operation.path}", facts(contract, operation.request)


def _fact(contract: Contract, pattern: str, member: Member, shape: Shape) -> Fact:
    schema, where = contract.document.resolve(contract.document.at(member.where), member.where)
    default = schema.get("default")
    return Fact(
        path=pattern,
        allowed=_words(shape),
        openai_form=_words(openai_shape(shape)) if shape.openai_form else "",
        required=member.required,
        nullable=shape.nullable,
        default="" if default is None else _json(default),
        source=_source(schema),
        meaning=str(schema.get("description", "")),
        where=where,
    )


def _words(shape: Shape) -> str:
    """As error messages have it, with a pattern as code."""
    return re.sub(r"(?<=that matches )\S+?(?=,? |$)", lambda found: f"`{found[0]}`", words(shape))


def _source(schema: dict[str, Any]) -> str:
    source = schema.get("x-source") or "as its parts"
    return source if isinstance(source, str) else ", ".join(source)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
