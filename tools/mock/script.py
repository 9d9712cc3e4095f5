"""A script of the mock: a YAML or JSON file of rules, read and checked as a whole before the mock starts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from generated.problems import render_path, shown
from generated.rules import Deployment
from handlers.sampling import AnyRequest
from tools.generate.load import Document, SpecError, Where, load
from tools.mock.conditions import BadCondition, Condition, all_of, field_test, of_endpoint
from tools.mock.wishes import BadWish, Call, Failure, Wish, seconds

MAX_SCRIPT_BYTES: Final = 8 * 2**20
"""Of a script file."""
MAX_FAULTS_SHOWN: Final = 100
"""Of a script; the others are not told."""
_NOTHING: Final = Wish()


class ScriptError(Exception):
    """The script cannot be used; a line for each fault, with the file's line, the path in it and what is allowed."""


@dataclass(frozen=True, slots=True)
class _Rule:
    holds: Condition
    wish: Wish


class Script:
    """The rules in the order of the file."""

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self._rules = tuple(rules)
        self.thinks = any(rule.wish.reasoning_content is not None for rule in self._rules)
        """Some rule has reasoning_content, so the model is one that thinks."""

    def reply(self, body: AnyRequest) -> Wish:
        """What the first rule that fits wants; nothing where none does."""
        return next((rule.wish for rule in self._rules if rule.holds(body)), _NOTHING)


def read_script(path: Path, server: Deployment) -> Script:
    """Read a file.

    Args:
        path: of a YAML or JSON file.
        server: what CEL conditions are told of the deployment.

    Raises:
        ScriptError: with all faults.
    """
    try:
        size = path.stat().st_size
        if size > MAX_SCRIPT_BYTES:
            raise ScriptError(f"{path} has {size} bytes; a script has at most {MAX_SCRIPT_BYTES}")
        _refuse_aliases(path)
        document = load(path)
    except RecursionError:
        raise ScriptError(f"{path} nests too deep to be read") from None
    except TypeError:
        raise ScriptError(f"{path} has a key that is no text") from None
    except (OSError, UnicodeDecodeError, yaml.reader.ReaderError) as error:
        raise ScriptError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    except SpecError as error:
        finding = error.findings[0]
        message = "a script is an object with rules" if "mapping" in finding.message else finding.message
        raise ScriptError(f"{path}:{finding.line}: {message}") from None
    for fault in _schema().iter_errors(document.data):
        _complain(document, fault)
    script = None if document.findings else Script(_rules(document, server))
    if script is None or document.findings:
        faults = sorted(set(document.findings))[:MAX_FAULTS_SHOWN]
        raise ScriptError("\n".join(f"{path}:{fault.line}: {fault.message}" for fault in faults))
    return script


def _refuse_aliases(path: Path) -> None:
    """A few aliases of aliases stand for more than any memory holds."""
    with contextlib.suppress(yaml.MarkedYAMLError):  # it is told when the file is loaded
        for event in yaml.parse(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark is not None else 1
                raise ScriptError(f"{path}:{line}: *{event.anchor} is an alias, which is not read; write it out")


@lru_cache(maxsize=1)
def _schema() -> Draft202012Validator:
    return Draft202012Validator(json.loads((files("tools.mock") / "script.schema.json").read_text(encoding="utf-8")))


def _complain(document: Document, error: ValidationError) -> None:
    """Note what the schema says against a script, in the words of its descriptions."""
    where: Where = tuple(error.absolute_path)
    name = render_path(where) or "the script"
    given: Any = error.instance
    if error.validator == "additionalProperties" and isinstance(error.schema, Mapping):
        known = error.schema["properties"]
        for key in given:
            if key not in known:
                path = render_path((*where, key))
                document.complain((*where, key), f"{path} is not known; there are {', '.join(known)}")
        return
    if error.validator == "required":
        wanted: Any = error.validator_value
        missing = [key for key in wanted if key not in given]
        document.complain(where, f"{name} lacks {' and '.join(missing)}")
        return
    allowed = error.schema.get("description", "something else") if isinstance(error.schema, Mapping) else "absent"
    document.complain(where, f"{name} is {shown(given)}; it must be {allowed}")


def _rules(document: Document, server: Deployment) -> list[_Rule]:
    """The rules of a script that follows the schema; what is wrong in them beyond that becomes a finding."""
    rules = []
    for number, entry in enumerate(document.data["rules"]):
        where: Where = ("rules", number)
        conditions = list(_conditions(document, entry.get("when", {}), (*where, "when"), server))
        rules.append(_Rule(all_of(conditions), _wish(document, entry["reply"], (*where, "reply"))))
    return rules


def _conditions(document: Document, when: Mapping[str, Any], where: Where, server: Deployment) -> Iterable[Condition]:
    endpoint = when.get("endpoint")
    if endpoint is not None:
        yield of_endpoint(endpoint)
    for path, tests in when.get("fields", {}).items():
        try:
            yield field_test(path, tests)
        except BadCondition as error:
            document.complain((*where, "fields", path), f"{render_path(where)}.fields: {error}")
    if "cel" in when:
        from tools.mock.cel_condition import cel_condition  # late: it reads the spec

        try:
            yield cel_condition(when["cel"], endpoint, server)
        except BadCondition as error:
            document.complain((*where, "cel"), f"{render_path(where)}.cel: {error}")


def _wish(document: Document, reply: Mapping[str, Any], where: Where) -> Wish:
    def time(name: str) -> float | None:
        try:
            return None if name not in reply else seconds(reply[name])
        except BadWish as error:
            document.complain(
                (*where, name), f"{render_path(where)}.{name} is {shown(reply[name])}; it must be {error}"
            )
            return None

    def excludes(first: str, *others: str) -> None:
        clash = [name for name in others if name in reply]
        if first in reply and clash:
            message = f"{render_path(where)} has {first} and {' and '.join(clash)}, which exclude each other"
            document.complain((*where, first), message)

    excludes("error", *(name for name in reply if name not in ("error", "ttft")))
    excludes("disconnect_after", "error_after")
    excludes("tokens", "tool_calls", "reasoning_content")
    calls = reply.get("tool_calls")
    return Wish(
        failure=Failure(**reply["error"]) if "error" in reply else None,
        content=reply.get("content"),
        reasoning_content=reply.get("reasoning_content"),
        tool_calls=None if calls is None else tuple(Call(call["name"], call["arguments"]) for call in calls),
        finish=reply.get("finish"),
        tokens=reply.get("tokens"),
        cached_tokens=reply.get("cached_tokens"),
        ttft_s=time("ttft"),
        slow_token_s=time("slow_token"),
        disconnect_after=reply.get("disconnect_after"),
        error_after=reply.get("error_after"),
        seed_ignored=reply.get("seed_ignored", False),
    )
