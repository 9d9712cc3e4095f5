"""Holds the JSON of answers to the contract's schemas and to its order of members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import jiter
from pydantic import ValidationError

from generated.base import ContractModel
from generated.models import Usage
from generated.problems import is_tag, render_path, shown, value_at
from tools.laws.breach import Breach
from tools.laws.table import broken

MOST_FAULTS: Final = 10
"""Members at fault that are told of one answer or event."""
_MISSING: Final = "missing"


def parse(raw: bytes) -> Any:
    """Strict JSON: no key twice, no NaN.

    Raises:
        ValueError: it is none; the message says where.
    """
    return jiter.from_json(raw, allow_inf_nan=False, catch_duplicate_keys=True)


def faults(value: Any, models: Sequence[type[ContractModel]], law: str, where: str = "") -> list[Breach]:
    """The members that no model allows; of several models those of the one that comes nearest."""
    nearest: list[Breach] | None = None
    for model in models:
        try:
            model.model_validate(value)
        except ValidationError as error:
            found = _told(error, value, law, where)
            nearest = found if nearest is None or len(found) < len(nearest) else nearest
        else:
            return []
    return nearest or []


def _told(error: ValidationError, value: Any, law: str, where: str) -> list[Breach]:
    found: dict[str, Breach] = {}
    for one in error.errors(include_url=False, include_input=False):
        path = tuple(key for key in one["loc"] if not is_tag(key))
        name = render_path(path)
        if one["type"] == _MISSING:
            message = f"{where}{name} is required and is not there"
        else:
            given = shown(value_at(value, path))
            message = f"{where}{name or 'the body'} is {given}: {one['msg'][:1].lower()}{one['msg'][1:]}"
        found.setdefault(name, broken(law, name or None, message))
    return list(found.values())[:MOST_FAULTS]


def disorder(value: Mapping[str, Any], models: Sequence[type[ContractModel]], where: str = "") -> list[Breach]:
    """Whether the members of an answer, its choices and its usage stand in the contract's order; unknown ones may stand
    anywhere. The value obeys the schema."""
    order = orders(models[0])
    found = list(_objects(value, order))
    for name, given, known in found:
        kept = [key for key in given if key in known]
        if kept != sorted(kept, key=known.__getitem__):
            message = f"{where}{name or 'the answer'} has its members in the order {', '.join(kept)}"
            wanted = ", ".join(sorted(kept, key=known.__getitem__))
            return [broken("answer-key-order", name or None, f"{message}; the contract's is {wanted}")]
    return []


def _objects(
    value: Mapping[str, Any], order: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[str, Iterable[str], Mapping[str, int]]]:
    yield "", value, order[""]
    if "usage" in value:
        yield "usage", value["usage"], order["usage"]
    for index, choice in enumerate(value.get("choices", ())):
        yield f"choices[{index}]", choice, order["choices"]


@cache
def orders(model: type[ContractModel]) -> Mapping[str, Mapping[str, int]]:
    """Member to its place, for an answer, its usage and its choices."""
    choice = model.model_fields["choices"].annotation.__args__[0]  # type: ignore[union-attr]  # list[...] has one
    models: dict[str, type[ContractModel]] = {"": model, "usage": Usage, "choices": choice}
    return {name: {key: place for place, key in enumerate(one.model_fields)} for name, one in models.items()}
