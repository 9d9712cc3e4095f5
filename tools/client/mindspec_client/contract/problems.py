"""Turns a model's refusal into one problem: the code, the path at fault and a sentence. Generated; do not edit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from .base import ContractModel, unknown
from .fields import FIELDS, KINDS, OPENAI_FORM
from .rules import PLAIN, Deployment, Path

_TOO_LONG = frozenset({"string_too_long", "too_long"})
SHOWN_CHARACTERS = 100
"""How much of a given value a message repeats."""


@dataclass(frozen=True)
class Problem:
    """Why a request is refused."""

    code: str
    param: str | None
    """A path such as ``messages[0].content``; None where the body as a whole is at fault."""
    message: str
    path: Path = field(default=(), compare=False)
    """The same path step by step."""
    allowed: str = field(default="", compare=False)
    """What may stand there, where a member is at fault."""


def explain(exc: ValidationError, raw_obj: Any, root: str, deployment: Deployment = PLAIN) -> Problem:
    """The first problem in the spec's order: fields before rules.

    Args:
        exc: what ``model_validate`` or ``model_validate_json`` raised.
        raw_obj: the parsed JSON body.
        root: the request model's name.
        deployment: the one that the body was validated for.
    """
    errors = exc.errors(include_url=False, include_input=False)
    kind, context = errors[0]["type"], errors[0].get("ctx", {})
    if kind == "json_invalid":
        return Problem("json_invalid", None, "the body is not valid JSON")
    if kind == "unknown_field":  # its last name is the client's own: of any length, and perhaps like a tag
        name = _cut(render_path(errors[0]["loc"]))
        return Problem(kind, name, f"{name} is not a field of this API", tuple(errors[0]["loc"]))
    if "fields" in context:
        return broken_rule(kind, str(context["message"]), list(context["fields"]), errors[0]["loc"], raw_obj)
    error = _first(errors, raw_obj)
    path = tuple(key for key in error["loc"] if not is_tag(key))
    kind, context, given = error["type"], error.get("ctx", {}), value_at(raw_obj, path)
    if kind == "refused_key":
        path = (*path, str(context["key"]))
        where = render_path(path)
        return Problem("out_of_range", where, f"{where} must not be sent; the server sets it", path)
    name = render_path(path) or "the body"
    allowed = _allowed(path, root, deployment)
    if kind == "missing":
        message = f"{name} is required and was not sent; send {allowed}"
        return Problem("missing", render_path(path), message, path, allowed)
    kinds = KINDS.get(root, {}).get(_pattern(path), ("object",))
    typed = any(_is_kind(given, one) for one in kinds)
    code = ("too_long" if kind in _TOO_LONG else "out_of_range") if typed else "wrong_type"
    message = f"{name} was given {shown(given)}; it must be {allowed}"
    return Problem(code, render_path(path) or None, message, path, allowed)


def ignored_parameters(model: ContractModel) -> list[str]:
    """Paths of the members that the contract does not know, such as ``messages[0].foo``."""
    return [render_path(path) for path in unknown(model)]


def render_path(path: Sequence[str | int]) -> str:
    """``("messages", 0, "role")`` as ``messages[0].role``."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


def is_tag(key: str | int) -> bool:
    """Whether a step of pydantic's location is the tag of a union's branch (see base.OneOf and base.Integer)."""
    return isinstance(key, str) and key.startswith("<") and key.endswith(">")


def _first(errors: list[ErrorDetails], raw_obj: Any) -> ErrorDetails:
    """The first error that is meant: of a union's errors those of the branch that has the value's JSON type.

    Where no branch has it, the error is about the union as a whole, so its location is cut there.
    """
    first = errors[0]
    tags = [index for index, key in enumerate(first["loc"]) if is_tag(key)]
    if not tags:
        return first
    union = first["loc"][: tags[0]]
    best, depth = first, -1
    for error in errors:
        if error["loc"][: tags[0]] != union:
            break
        fits = _fitting(error["loc"], raw_obj)
        if fits is None:
            return error
        if fits > depth:
            best, depth = error, fits
    return {**best, "loc": best["loc"][:depth], "type": "int_type"}


def _fitting(location: tuple[str | int, ...], raw_obj: Any) -> int | None:
    """None where every tag on the way fits the value there, else the index of the first tag that does not."""
    value = raw_obj
    for index, key in enumerate(location):
        if is_tag(key):
            if not _is_kind(value, str(key)[1:-1]):
                return index
        else:
            value = value_at(value, (key,))
    return None


def _is_kind(value: Any, kind: str) -> bool:
    """Whether a JSON value has a type. A whole float is an integer, and so is 1e400, which is infinite as a double."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "number":
        return number
    if kind == "integer":
        return number and (isinstance(value, int) or value.is_integer() or value in (math.inf, -math.inf))
    if kind == "decimal":
        return isinstance(value, float)
    if kind == "any":
        return value is not None
    types = {"string": str, "boolean": bool, "list": list, "object": dict}
    return isinstance(value, types[kind])


def value_at(raw_obj: Any, path: Path) -> Any:
    """The value at a path, None where there is none."""
    for key in path:
        if isinstance(raw_obj, dict) and key in raw_obj:
            raw_obj = raw_obj[key]
        elif isinstance(raw_obj, list) and isinstance(key, int) and key < len(raw_obj):
            raw_obj = raw_obj[key]
        else:
            return None
    return raw_obj


def _pattern(path: Path) -> str:
    return render_path(["[]" if isinstance(key, int) else key for key in path]).replace(".[]", "[]")


def _allowed(path: Path, root: str, deployment: Deployment) -> str:
    pattern = _pattern(path)
    if deployment.openai_form and pattern in OPENAI_FORM.get(root, {}):
        return OPENAI_FORM[root][pattern]
    return FIELDS.get(root, {}).get(pattern, "an object")


def broken_rule(kind: str, message: str, fields: Sequence[str], path: Path, raw_obj: Any) -> Problem:
    """A broken rule's problem, with what was sent for the fields that it blames; ``path``: to the first of them."""
    depth = len(fields[0].split("."))
    owner = path[: len(path) - depth]
    given = [(name, value_at(raw_obj, (*owner, *name.split(".")))) for name in fields]
    sent = ", ".join(f"{name} {shown(value, 40)}" for name, value in given if value is not None)
    return Problem(kind, render_path(path), message + (f" (given: {sent})" if sent else ""), path)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."


def shown(value: Any, limit: int = SHOWN_CHARACTERS) -> str:
    """A value as JSON, cut; long values are not rendered in full first."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 512:
        return f"a number of about {int(value.bit_length() * 0.30103)} digits"
    if isinstance(value, str):
        text = json.dumps(value[:limit], ensure_ascii=False)
        return text if len(value) <= limit and len(text) <= limit + 2 else f"{text[: limit - 3]}..."
    if isinstance(value, list):
        return f"a list of {len(value)} items" if value else "an empty list"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, float) and not math.isfinite(value):
        return "a number beyond the range of a double"
    return json.dumps(value)
