"""What a version makes of a request: a refusal, or the values that it then goes by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from tools.diff.shapes import same
from tools.diff.version import Version

_GONE: Final = object()


@dataclass(frozen=True)
class Filled:
    """A value that nobody sent: the documented default."""

    value: Any


class Outcome(NamedTuple):
    """A refusal where there is a code; else the meaning of the request."""

    code: str = ""
    param: str | None = None
    message: str = ""
    meaning: Mapping[str, Any] | None = None
    """Members that the version knows, with defaults, normalised."""
    ignored: tuple[str, ...] = ()
    """Paths of the members that it does not know."""


def outcome(version: Version, request: str, body: Any, deployment: Any) -> Outcome:
    """Validate a body as a server does; ``deployment`` is one of this version."""
    judge = version.search(request).judge
    problems = version.package.module("problems")
    try:
        model = judge.model.model_validate(body, context=deployment)
    except ValidationError as error:
        problem = problems.explain(error, body, request, deployment)
        return Outcome(problem.code, problem.param, problem.message)
    return Outcome(
        meaning=_meaning(model, version.package.module("defaults")), ignored=tuple(problems.ignored_parameters(model))
    )


def _meaning(model: BaseModel, defaults: Any) -> dict[str, Any]:
    table = getattr(defaults, f"{type(model).__name__}Defaults", None)
    found: dict[str, Any] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        default = getattr(table, name, None)
        found[name] = Filled(default) if value is None and default is not None else _value(value, defaults)
    return found


def _value(value: Any, defaults: Any) -> Any:
    if isinstance(value, BaseModel):
        return _meaning(value, defaults)
    return [_value(item, defaults) for item in value] if isinstance(value, list) else value


def changed(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Paths at which the new version goes by something else than the old one did; what only it knows is no change.

    A default of a member that the new version has no more is none either: nobody sent it.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            other = new.get(key, _GONE)
            if other is _GONE:
                if value is not None and not isinstance(value, Filled):
                    yield f"{path}.{key}".lstrip("."), value, None
            else:
                yield from changed(value, other, f"{path}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (value, other) in enumerate(zip(old, new, strict=True)):
            yield from changed(value, other, f"{path}[{index}]")
    else:
        before, after = (value.value if isinstance(value, Filled) else value for value in (old, new))
        if not same(before, after):
            yield path, before, after
