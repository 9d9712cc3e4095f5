"""What the documents say of each parameter besides its meaning: range, default, null, and where it comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tools.docs.wording import ENGLISH, Wording
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

    def sentences(self, say: Wording) -> str:
        """All but the meaning, in sentences."""
        parts = [say.allowed.format(self.allowed)]
        if self.openai_form:
            parts.append(say.openai_form.format(self.openai_form))
        parts.append(say.required if self.required else say.default.format(self.default or say.no_default))
        parts.append(say.null_is_absent if self.nullable else say.null_is_refused)
        return say.between.join([*parts, say.source.format(self.source)]) + say.end


def facts(contract: Contract, request: str, say: Wording = ENGLISH) -> list[Fact]:
    """Every member below a request model, in the order of the spec; items of lists are part of their list."""
    return [
        _fact(contract, pattern, member, shape, say)
        for pattern, member, shape in contract.walk(request)
        if not pattern.endswith("[]")
    ]


def all_facts(contract: Contract) -> Iterator[tuple[str, list[Fact]]]:
    """The facts of each operation that takes a body: method and path, then its members."""
    for operation in contract.operations:
        if operation.request:
            yield f"{operation.method.upper()} {operation.path}", facts(contract, operation.request)


def _fact(contract: Contract, pattern: str, member: Member, shape: Shape, say: Wording) -> Fact:
    schema, where = contract.document.resolve(contract.document.at(member.where), member.where)
    default = schema.get("default")
    return Fact(
        path=pattern,
        allowed=_words(shape, say),
        openai_form=_words(openai_shape(shape), say) if shape.openai_form else "",
        required=member.required,
        nullable=shape.nullable,
        default="" if default is None else _json(default),
        source=_source(schema, say),
        meaning=str(schema.get("description", "")),
        where=where,
    )


def _words(shape: Shape, say: Wording) -> str:
    """As error messages have it, with a pattern as code."""
    return re.sub(r"(?<=that matches )\S+?(?=,? |$)", lambda found: f"`{found[0]}`", say.words(shape))


def _source(schema: dict[str, Any], say: Wording) -> str:
    source = schema.get("x-source") or say.as_its_parts
    return source if isinstance(source, str) else ", ".join(source)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
