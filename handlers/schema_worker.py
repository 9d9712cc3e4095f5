"""The process that reads JSON schemas sent in requests and makes grammars of them: started by ``schema_pool.py``.

A schema may be made to take any time or memory, and a fault of the grammar library would end its process; so this one
has limits, and can be killed.

In: ``{"limits", "rules", "schemas": [{"schema", "param", "closed", "arguments"}], "examples"}``; the rules are Lark in
which ``schema_0``, ``schema_1`` and so on stand for the schemas. Out: ``{"grammar", "examples"}``, or
``{"refused": message, "param"}``.
"""

from __future__ import annotations

import json
from typing import Any, Final

import jsonschema
from jsonschema.validators import validator_for
from llguidance import LLMatcher

from handlers.schema_check import SchemaCheck, SchemaLimits, SchemaRefused, shortened
from handlers.schema_shared import shared
from handlers.smallest import smallest
from handlers.worker_process import serve

_LAYOUT: Final = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
"""White space in JSON: at most one space after a comma or a colon, so that none goes on without end."""
_NO_EXAMPLE: Final = "asks for more than this mock can make up"


class _Refused(Exception):
    def __init__(self, param: str, reason: str) -> None:
        super().__init__(reason)
        self.param = param


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request."""
    try:
        return _grammar(request)
    except _Refused as error:
        return {"refused": f"{error.param} {error}", "param": error.param}


def _grammar(request: dict[str, Any]) -> dict[str, Any]:
    check = SchemaCheck(SchemaLimits(**request["limits"]))
    held: list[dict[str, Any]] = []
    for asked in request["schemas"]:
        schema, param = asked["schema"], asked["param"]
        try:
            held.append(check.held(schema, closed=asked["closed"], arguments=asked["arguments"]))
        except SchemaRefused as error:
            raise _Refused(param + error.path, error.reason) from None
        _check_form(schema, param)
    rules = [f"%json {json.dumps({**shared(schema), 'x-guidance': _LAYOUT})}" for schema in held]
    params = [asked["param"] for asked in request["schemas"]]
    grammar = "\n".join([request["rules"], *(f"schema_{index}: {rule}" for index, rule in enumerate(rules))])
    _check_grammar(grammar, rules, params)
    examples = []
    if request["examples"]:
        examples = [
            _example(made, asked["schema"], asked["param"])
            for made, asked in zip(held, request["schemas"], strict=True)
        ]
    return {"grammar": grammar, "examples": examples}


def _check_form(schema: dict[str, Any], param: str) -> None:
    """Refuse what is no schema in its own dialect."""
    try:
        validator_for(schema, default=jsonschema.Draft202012Validator).check_schema(schema)
    except jsonschema.SchemaError as error:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        raise _Refused(param + path, f"is no JSON Schema: {shortened(error.message)}") from None


def _check_grammar(grammar: str, rules: list[str], params: list[str]) -> None:
    """Refuse what the grammar library refuses, by the schema at fault; each is compiled alone only to find that one."""
    reason = _fault(grammar)
    if reason is None:
        return
    for rule, param in zip(rules, params, strict=True):
        alone = _fault(f"start: {rule}") if len(rules) > 1 else reason
        if alone is not None:
            raise _Refused(param, f"cannot be held by a grammar: {shortened(alone)}")
    raise _Refused(params[0], f"cannot be held by a grammar: {shortened(reason)}")


def _fault(grammar: str) -> str | None:
    """What the grammar library has against a grammar."""
    reason: str = LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(grammar))
    return reason if reason and not reason.startswith("WARNING") else None


def _example(held: dict[str, Any], schema: dict[str, Any], param: str) -> Any:
    """A value that is valid under both."""
    value = smallest(held)
    for valid in (held, schema):
        if not validator_for(valid, default=jsonschema.Draft202012Validator)(valid).is_valid(value):
            raise _Refused(param, _NO_EXAMPLE)
    return value


def main() -> None:
    """Serve requests from stdin until it closes. Argument: the memory limit in bytes."""
    serve(answer, opens_files=True)
