"""The conditions of a script's rules: which endpoint, and what stands at a path of the request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import regex

from generated.base import ContractModel
from generated.models import ChatCompletionRequest, CompletionRequest
from generated.problems import shown
from handlers.sampling import AnyRequest

Condition = Callable[[AnyRequest], bool]
Key = str | int

ENDPOINTS: Final[tuple[tuple[str, type[AnyRequest]], ...]] = (
    ("chat", ChatCompletionRequest),
    ("completions", CompletionRequest),
)
_STEP: Final = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(-?\d{1,6})\]")
_REGEX_TIME_S: Final = 0.1
"""For one search; a pattern that takes longer does not fit."""


class BadCondition(ValueError):
    """A condition that cannot be used; the message says why."""


class _Absent:
    """Stands for what a request does not have."""


_ABSENT: Final = _Absent()


def all_of(conditions: Sequence[Condition]) -> Condition:
    """Holds where all do."""
    return lambda body: all(condition(body) for condition in conditions)


def of_endpoint(name: str) -> Condition:
    """Holds for the requests of one endpoint."""
    model = dict(ENDPOINTS)[name]
    return lambda body: isinstance(body, model)


def field_test(path: str, tests: Mapping[str, Any]) -> Condition:
    """Holds where what stands at the path passes all tests: equals, contains, regex, present.

    Null counts as absent. Content that is a list of parts is also its texts, joined.

    Raises:
        BadCondition: the path, or the pattern, cannot be read.
    """
    keys = _keys(path)
    checks = [_check(name, wanted) for name, wanted in tests.items()]

    def holds(body: AnyRequest) -> bool:
        found = _at(body, keys)
        return all(check(found) for check in checks)

    return holds


def _keys(path: str) -> list[Key]:
    """``messages[-1].content`` as its steps."""
    keys: list[Key] = []
    place = 0
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None or (step.start() != place):
            break
        keys.append(step[1] if step[1] is not None else int(step[2]))
        place = step.end()
    if not keys or place < len(path):
        raise BadCondition(f"{shown(path)} is no path; write one such as messages[-1].content")
    return keys


def _at(value: Any, keys: Sequence[Key]) -> Any:
    for key in keys:
        if isinstance(value, ContractModel):
            found = getattr(value, str(key), _ABSENT)
            value = found if found is not _ABSENT and key in type(value).model_fields else _extra(value, key)
        elif isinstance(value, dict):
            value = value.get(key, _ABSENT)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return _ABSENT
        if value is None:
            return _ABSENT
    return value


def _extra(model: ContractModel, key: Key) -> Any:
    """A member that the contract does not know, or knows under another name than Python allows."""
    for name, field in type(model).model_fields.items():
        if field.alias == key:
            return getattr(model, name)
    return (model.__pydantic_extra__ or {}).get(str(key), _ABSENT)


def _check(name: str, wanted: Any) -> Callable[[Any], bool]:
    if name == "present":
        return lambda found: (found is not _ABSENT) == wanted
    if name == "equals":
        return lambda found: found is not _ABSENT and bool(_plain(found) == wanted)
    if name == "contains":
        return lambda found: _contains(found, wanted)
    try:
        pattern = regex.compile(wanted)
    except regex.error as error:
        raise BadCondition(f"regex {shown(wanted)} is no regular expression: {error}") from None
    return lambda found: _searched(pattern, found)


def _plain(value: Any) -> Any:
    """Models as the JSON that was sent."""
    if isinstance(value, ContractModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(found, list) and any(_plain(item) == wanted for item in found):
        return True
    text = _text(found)
    return text is not None and isinstance(wanted, str) and wanted in text


def _searched(pattern: Any, found: Any) -> bool:
    text = _text(found)
    try:
        return text is not None and pattern.search(text, timeout=_REGEX_TIME_S) is not None
    except TimeoutError:
        return False


def _text(found: Any) -> str | None:
    """A text, or the texts of content parts."""
    if isinstance(found, str):
        return found
    if isinstance(found, list) and found and isinstance(found[0], ContractModel):
        return "".join(getattr(part, "text", None) or "" for part in found)
    return None
