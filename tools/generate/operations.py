"""Emits operations.py (a handler's protocol and its closed set of answers) and routes.yaml (3.0.3, for Connexion)."""

from __future__ import annotations

import http
import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

from tools.generate.shapes import Contract, Operation
from tools.generate.write import render

_EVENTS = "text/event-stream"


def operations_source(contract: Contract) -> str:
    """The text of operations.py, not yet formatted."""
    operations = [_operation(operation) for operation in contract.operations]
    return render("operations.py.j2", operations=operations, classes=_classes)


def _operation(operation: Operation) -> dict[str, Any]:
    """One answer class for each success, one for a stream, and one for all errors that share a body."""
    answers: list[dict[str, Any]] = []
    errors: dict[str, list[int]] = {}
    for answer in operation.answers:
        body = " | ".join(f"models.{name}" for name in answer.models) or "None = None"
        body += " | None = None" if answer.may_be_empty and answer.models else ""
        if answer.status >= 400:
            errors.setdefault(body, []).append(answer.status)
        else:
            name = "Stream" if answer.media == _EVENTS else _title(answer.status)
            answers.append({"name": name, "status": [answer.status], "body": body, "media": answer.media})
    for index, (body, statuses) in enumerate(errors.items()):
        unique = "Error" if index == 0 else _title(statuses[0])
        answers.append({"name": unique, "status": sorted(statuses), "body": body, "media": "application/json"})
    return {
        "id": operation.id, "name": "".join(part.title() for part in operation.id.split("_")),
        "route": f"{operation.method.upper()} {operation.path}", "summary": operation.summary,
        "request": operation.request, "parameters": operation.parameters, "query": operation.query, "answers": answers,
        "plane": operation.plane, "method": operation.method.upper(), "path": operation.path,
        "whole": {answer.status: answer.models for answer in operation.answers if answer.media != _EVENTS},
        "events": [name for answer in operation.answers if answer.media == _EVENTS for name in answer.models],
    }  # fmt: skip


def _classes(names: Sequence[str]) -> str:
    """A tuple of models as source."""
    return f"({', '.join(f'models.{name}' for name in names)}{',' * (len(names) == 1)})"


def _title(status: int) -> str:
    """200 is Ok, 503 is ServiceUnavailable."""
    return re.sub(r"[^A-Za-z]", "", http.HTTPStatus(status).phrase.title()) if status != 200 else "Ok"


def routes_source(contract: Contract) -> str:
    """The text of routes.yaml: only what Connexion needs to route; bodies name their generated model.

    Descriptions stay behind, since Connexion renders local files as templates and they may hold braces.
    """
    info, paths = contract.document.data["info"], dict[str, Any]()
    for operation in contract.operations:
        entry: dict[str, Any] = {"operationId": operation.id, "responses": {}}
        # Slashes belong to the value: the names of models have them.
        text = {"in": "path", "required": True, "schema": {"type": "string", "format": "path"}}
        if operation.parameters or operation.query:
            asked = {"in": "query", "required": False, "schema": {"type": "string"}}
            entry["parameters"] = [{"name": name, **text} for name in operation.parameters]
            entry["parameters"] += [{"name": name, **asked} for name in operation.query]
        if operation.request:
            media = {"application/json": {"schema": {"type": "object", "x-model": operation.request}}}
            entry["requestBody"] = {"required": True, "content": media}
        entry["x-plane"] = operation.plane
        for answer in operation.answers:
            empty = {"description": http.HTTPStatus(answer.status).phrase, "content": {}}
            reply = entry["responses"].setdefault(str(answer.status), empty)
            reply["content"] |= {answer.media: {}} if answer.media else {}
        paths.setdefault(operation.path, {})[operation.method] = entry
    paths = {path: paths[path] for path in sorted(paths, key=_own_text)}
    routes = {"openapi": "3.0.3", "info": {key: str(info[key]) for key in ("title", "version")}, "paths": paths}
    plain = json.loads(json.dumps(routes))  # no object twice, which YAML would write as an anchor
    return "# Generated from the spec; do not edit.\n" + yaml.safe_dump(plain, sort_keys=False, width=120)


def _own_text(path: str) -> tuple[bool, int]:
    """The order of paths for a router that takes the first that fits: the one with more text of its own is meant."""
    return ("{" in path, -len(re.sub(r"\{\w+\}", "", path)) if "{" in path else 0)
