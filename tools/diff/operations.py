"""What differs between the operations of two versions: routes, parameters, statuses, media types, planes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.contract.values import compress
from tools.diff.change import Change, Example
from tools.diff.shapes import line
from tools.diff.version import Version
from tools.generate.document import Where
from tools.generate.shapes import Operation

Route = tuple[str, str]
Parameters = dict[tuple[str, str], dict[str, Any]]


def routes(version: Version) -> dict[Route, Operation]:
    """The operations by method and path."""
    return {(operation.method.upper(), operation.path): operation for operation in version.contract.operations}


def compare_operations(old: Version, new: Version) -> Iterator[Change]:
    """Operations that came, went or changed; not their bodies."""
    before, after = routes(old), routes(new)
    for route, operation in before.items():
        text = " ".join(route)
        if route not in after:
            change = _change(text, "operation", operation.id, None, True, False, line(old, _where(operation)), None)
            body = old.search(operation.request).start() if operation.request else None
            why = "method_not_allowed" if any(path == route[1] for _, path in after) else "not_found"
            change.breaks = Example(text, compress(body), "answered", f"refused, {why}", why)
            yield change
        else:
            lines = line(old, _where(operation)), line(new, _where(after[route]))
            for change in _operation(text, old, new, operation, after[route]):
                if change.where == text:  # what many operations share has no line of its own
                    change.line_old, change.line_new = lines
                yield change
    for route, operation in after.items():
        if route not in before:
            yield _change(
                " ".join(route), "operation", None, operation.id, False, True, None, line(new, _where(operation))
            )


def _change(
    where: str, keyword: str, old: Any, new: Any, narrows: bool, widens: bool,
    line_old: int | None = None, line_new: int | None = None, note: str = "",
) -> Change:  # fmt: skip
    return Change(
        "operation", where, keyword, old, new, narrows, widens, [where], line_old=line_old, line_new=line_new, note=note
    )


def _where(operation: Operation) -> Where:
    return "paths", operation.path, operation.method


def _operation(text: str, old: Version, new: Version, before: Operation, after: Operation) -> Iterator[Change]:
    if before.id != after.id:
        note = "clients that are generated from the spec name their function by it"
        yield _change(text, "operationId", before.id, after.id, False, False, note=note)
    if before.plane != after.plane:
        gone = after.plane != "all"
        yield _change(text, "x-plane", before.plane, after.plane, gone, not gone, note="the address that offers it")
    if (before.request is None) != (after.request is None):
        gone = before.request is not None
        yield _change(
            text, "requestBody", before.request, after.request, not gone, gone, note="whether it takes a body"
        )
    takes = [_content(version, operation) for version, operation in ((old, before), (new, after))]
    if takes[0] != takes[1] and before.request and after.request:
        fewer, more = takes[0] - takes[1], takes[1] - takes[0]
        values = ", ".join(sorted(fewer)) or None, ", ".join(sorted(more)) or None
        yield _change(text, "requestBody content", *values, bool(fewer), bool(more))
    mine, others = _parameters(old, before), _parameters(new, after)
    for key in {**mine, **others}:
        name = f"{key[0]} parameter {key[1]}"
        if key[0] == "path":
            continue  # part of the path, whatever it is called
        if key not in others or key not in mine:
            needed = key in others and bool(others[key].get("required"))
            lost = key not in others
            yield _change(text, name, "there" if lost else None, None if lost else "there", lost or needed, not lost)
        elif mine[key].get("required") != others[key].get("required"):
            needed = bool(others[key].get("required"))
            yield _change(text, f"{name} required", not needed, needed, needed, not needed)
        elif mine[key].get("schema") != others[key].get("schema"):
            yield _change(
                text, f"{name} schema", mine[key].get("schema"), others[key].get("schema"), False, False,
                note="the server takes any text there; what it says of it changed",
            )  # fmt: skip
    yield from _answers(text, before, after)
    yield from _headers(text, old, new, before, after)
    keys = [_security(version, operation) for version, operation in ((old, before), (new, after))]
    if keys[0] != keys[1]:
        open_before, open_after = ({} in options or not options for options in keys)
        closed, opened = open_before and not open_after, open_after and not open_before
        yield Change("operation", "authentication", "security", keys[0], keys[1], closed, opened, [text])


def _content(version: Version, operation: Operation) -> set[str]:
    """The media types of an operation's body."""
    document, where = version.contract.document, _where(operation)
    body, _ = document.resolve(document.at(where).get("requestBody") or {}, where)
    return set(body.get("content") or {})


def _security(version: Version, operation: Operation) -> list[Any]:
    """What a request has to bring, alternatives of each other; none, or an empty one: nothing."""
    data = version.contract.document
    return list(data.at(_where(operation)).get("security", data.data.get("security") or []))


def _headers(text: str, old: Version, new: Version, before: Operation, after: Operation) -> Iterator[Change]:
    """Headers of answers that came or went."""
    mine, others = _headers_of(old, before), _headers_of(new, after)
    for status in sorted({*mine} & {*others}):
        for name in sorted(mine[status] ^ others[status]):
            lost = name in mine[status]
            old_name, new_name = (name, None) if lost else (None, name)
            yield Change("operation", f"answers {status}", "header", old_name, new_name, lost, False, [text])


def _headers_of(version: Version, operation: Operation) -> dict[str, set[str]]:
    document, where = version.contract.document, _where(operation)
    found = {}
    for status, node in document.at(where)["responses"].items():
        found[str(status)] = set(document.resolve(node, where)[0].get("headers") or {})
    return found


def _parameters(version: Version, operation: Operation) -> Parameters:
    document, where = version.contract.document, _where(operation)
    nodes = document.at(where).get("parameters") or []
    known = [document.resolve(node, where)[0] for node in nodes]
    return {(str(item.get("in")), str(item.get("name"))): item for item in known}


def _answers(text: str, before: Operation, after: Operation) -> Iterator[Change]:
    mine, others = _media(before), _media(after)
    for status in sorted({*mine, *others}):
        if status not in others:
            note = "" if status < 400 else "nobody can have counted on a failure"
            yield _change(text, "status", status, None, status < 400, False, note=note)
        elif status not in mine:
            note = "" if status < 400 else "clients take unknown failures by their class"
            yield _change(text, "status", None, status, status < 400, False, note=note)
        else:
            for media in sorted({*mine[status], *others[status]}):
                lost, won = media not in others[status], media not in mine[status]
                if lost or won:
                    shown = (media or "no body") if lost else None, (media or "no body") if won else None
                    yield _change(text, f"{status} content", *shown, lost, False)
                elif mine[status][media] and not others[status][media]:
                    yield _change(text, f"{status} x-may-be-empty", True, False, False, False)
                elif others[status][media] and not mine[status][media]:
                    yield _change(text, f"{status} x-may-be-empty", False, True, True, False)


def _media(operation: Operation) -> Mapping[int, Mapping[str, bool]]:
    found: dict[int, dict[str, bool]] = {}
    for answer in operation.answers:
        found.setdefault(answer.status, {})[answer.media] = answer.may_be_empty
    return found
