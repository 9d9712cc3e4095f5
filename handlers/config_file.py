"""Reads MindIE's config.json: strict JSON, generated models and rules; all faults at once, each with its path."""

from __future__ import annotations

import copy
import difflib
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import jiter
from pydantic import ValidationError

from generated import config_rules
from generated.config import Config
from generated.config_keys import KEYS, Key
from generated.problems import is_tag, render_path, shown, value_at
from handlers.media.urls import UrlError, read_domain

MOST_BYTES: Final = 10 * 1024 * 1024
"""Size of a file at most, as in MindIE."""
_PLACE: Final = re.compile(r"^(.*?) at line (\d+) column (\d+)$", re.DOTALL)
_NOT_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
_SHOWN: Final = 100
PLUGINS: Final = ("prefix_cache", "mtp", "la", "memory_decoding", "splitfuse")
"""What plugin_type may list."""

_STAND_INS: Final[Mapping[str, Any]] = {"string": "x", "object": {}, "list": []}

Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    key: str
    """The path of the key, or a place such as ``line 3, column 7``; empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        return f"{self.key}: {self.message}" if self.key else self.message


class ConfigError(Exception):
    """The file cannot be used; carries every fault."""

    def __init__(self, path: Path, faults: list[Fault]) -> None:
        self.path = path
        self.faults = faults
        super().__init__("\n".join(f"{path}: {fault}" for fault in faults))


@dataclass(frozen=True)
class ConfigFile:
    """A file that may be used."""

    path: Path
    raw: dict[str, Any]
    config: Config
    unknown: list[Fault]
    """Keys that are not known, with the nearest known one."""
    named: list[Fault]
    """Keys that have no meaning here, and why."""

    def value(self, path: str) -> Any:
        """What the file says at a path such as ``ServerConfig.port``; None where it says nothing."""
        return value_at(self.raw, _steps(path))


def read_config(path: Path) -> ConfigFile:
    """Read and check a file.

    Raises:
        ConfigError: with all faults: of the file, of its JSON, or of its values.
    """
    raw = _parsed(path)
    faults, config = _check(raw)
    if config is None or faults:
        raise ConfigError(path, faults)
    return ConfigFile(path, raw, config, list(_unknown(raw)), list(_named(raw)))


def path_text(path: Path_) -> str:
    """A path as messages show it: ``BackendConfig.ModelDeployConfig.ModelConfig[0].modelName``."""
    return render_path(path)


def key_of(path: Path_) -> Key | None:
    """The known key at a path."""
    return KEYS.get(_pattern(path))


def leaves(raw: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every value of a file that belongs to a key, with its path; sections and lists of sections are entered."""
    pattern = _pattern(path)
    if isinstance(raw, dict) and (not path or _has_children(pattern)):
        for name, value in raw.items():
            yield from leaves(value, (*path, name))
    elif isinstance(raw, list) and _has_children(pattern + "[]"):
        for index, value in enumerate(raw):
            yield from leaves(value, (*path, index))
    else:
        yield path, raw


def plugins_of(text: str) -> tuple[str, ...]:
    """The plugins of a valid plugin_params."""
    kinds = json.loads(text).get("plugin_type", "") if text.strip() else ""
    return tuple(name.strip() for name in kinds.split(",") if name.strip())


def _parsed(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(path, [Fault("", f"cannot be read: {error.strerror or error}")]) from None
    if len(text) > MOST_BYTES:
        raise ConfigError(path, [Fault("", f"is larger than {MOST_BYTES // 2**20} MB, the most that is read")])
    if not text.strip():
        raise ConfigError(path, [Fault("", "is empty; a JSON object is expected")])
    try:
        found = jiter.from_json(text, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        raise ConfigError(path, [_json_fault(str(error), text)]) from None
    if not isinstance(found, dict):
        raise ConfigError(path, [Fault("", f"holds {shown(found)}; a JSON object is expected")])
    return found


def _json_fault(reason: str, text: bytes) -> Fault:
    place = _PLACE.match(reason)
    if place is None:
        return Fault("", f"is not JSON: {reason}")
    what, line, column = place[1], int(place[2]), int(place[3])
    where = f"line {line}, column {column}"
    if duplicate := re.match(r'Detected duplicate key (".*")$', what, re.DOTALL):
        return Fault(where, f"the key {duplicate[1][:_SHOWN]} stands twice in one object; remove one")
    lines = text.split(b"\n")
    rest = lines[line - 1][max(column - 1, 0) :].decode(errors="replace") if line <= len(lines) else ""
    for word in _NOT_NUMBERS:
        if rest.lstrip().startswith(word) or rest.lstrip("-").startswith(word.lstrip("-")[1:]):
            return Fault(where, f"{word} is no JSON number; write a number")
    return Fault(where, f"not JSON: {what}")


def _check(raw: dict[str, Any]) -> tuple[list[Fault], Config | None]:
    """All faults; and the configuration, where there are none."""
    faults = list(_form_faults(raw))
    wrong: list[Path_] = []
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        found = _field_faults(error, raw)
        faults = list(found.values()) + faults
        wrong = [_known_part(path) for path in found]
        # What is right of it is still held to the rules, so that one run tells all.
        mended = _mended(raw, wrong)
        if mended is None:
            return faults, None
        config = mended
    for rule, owner in config_rules.broken(config):
        blamed = [(*owner, *name.split(".")) for name in rule.fields]
        if not any(path[: len(other)] == other[: len(path)] for path in blamed for other in wrong):
            faults.append(_rule_fault(rule, owner, raw))
    return faults, None if wrong else config


def _field_faults(error: ValidationError, raw: dict[str, Any]) -> dict[Path_, Fault]:
    faults: dict[Path_, Fault] = {}
    for found in error.errors(include_url=False, include_input=False):
        path = _untagged(found["loc"])
        if path in faults:
            continue
        known = _known_part(path)
        key = key_of(known)
        must = "it must be" if known == path else f"{path_text(known[-1:])} must be" if known else "it must be"
        allowed = f"{must} {'an object' if key is None else key.allowed.removesuffix('; required')}"
        missing = found["type"] == "missing"
        given = "required and absent" if missing else shown(value_at(raw, path))
        faults[path] = Fault(path_text(path), f"is {given}; {allowed}")
    return faults


def _known_part(path: Path_) -> Path_:
    """The path of the key that a value belongs to: the items of its lists have none of their own."""
    while path and key_of(path) is None:
        path = path[:-1]
    return path


def _untagged(location: Path_) -> Path_:
    """Where an error is, without the marks of a union's branches."""
    return tuple(step for step in location if not is_tag(step))


def _mended(raw: dict[str, Any], wrong: list[Path_]) -> Config | None:
    """The configuration without what is wrong in it; required values are stood in for."""
    mended = copy.deepcopy(raw)
    for path in wrong:
        holder, key = value_at(mended, path[:-1]), key_of(path)
        if key is not None and isinstance(holder, dict):
            holder.pop(path[-1], None)
            if key.allowed.endswith("; required"):
                holder[path[-1]] = _STAND_INS[key.kinds[0]]
    try:
        return Config.model_validate(mended)
    except ValidationError:
        return None


def _rule_fault(rule: Any, owner: Path_, raw: dict[str, Any]) -> Fault:
    given = [(name, value_at(raw, (*owner, *name.split(".")))) for name in rule.fields]
    sent = ", ".join(f"{name.rpartition('.')[2]} is {shown(value, 40)}" for name, value in given if value is not None)
    path = path_text((*owner, *rule.fields[0].split(".")))
    return Fault(path, rule.message + (f"; here {sent}" if sent else ""))


def _form_faults(raw: dict[str, Any]) -> Iterator[Fault]:
    for path, value in leaves(raw):
        key = key_of(path)
        refuse = _FORMS.get(key.form or "") if key is not None else None
        texts = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, text in texts if refuse is not None else ():
            reason = refuse(text) if refuse is not None and isinstance(text, str) else ""
            if reason:
                where = path if index is None else (*path, index)
                yield Fault(path_text(where), f"is {shown(text)}; {reason}")


def _no_address(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return "it must be an IPv4 or IPv6 address"
    return ""


def _no_plugins(text: str) -> str:
    if not text.strip():
        return ""
    must = "it must be a JSON object as text, with plugin_type"
    try:
        found = jiter.from_json(text.encode(), allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        return f"{must} (not JSON: {error})"
    if not isinstance(found, dict) or not isinstance(found.get("plugin_type"), str):
        return f'{must}, such as {{"plugin_type": "prefix_cache"}}'
    wrong = [name for name in plugins_of(text) if name not in PLUGINS]
    return f"its plugin_type names {shown(wrong[0])}; known are {', '.join(PLUGINS)}" if wrong else ""


def _no_time(text: str) -> str:
    try:
        datetime.fromisoformat(text or "2000-01-01")
    except ValueError:
        return "there is no such time; it must be year-month-day hour:minute:second"
    return ""


def _no_network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return "it must be a network such as 10.0.0.0/8 or fd12::/16, with no address in it"
    return ""


def _no_media_host(text: str) -> str:
    try:
        read_domain(text)
    except UrlError as error:
        return f"the entry {error}"
    return ""


_FORMS: Final[Mapping[str, Callable[[str], str]]] = {
    "ip": _no_address,
    "plugin-params": _no_plugins,
    "local-time": _no_time,
    "network": _no_network,
    "media-host": _no_media_host,
}
"""Forms of texts: each gives what is allowed where a text has not got it."""


def _unknown(raw: dict[str, Any]) -> Iterator[Fault]:
    for path, _ in leaves(raw):
        for end in range(1, len(path) + 1):
            if isinstance(path[end - 1], str) and key_of(path[:end]) is None and not _is_any(path[:end]):
                yield Fault(path_text(path[:end]), "is not known and changes nothing" + _hint(path[:end]))
                break


def _hint(path: Path_) -> str:
    """What may have been meant: a key of the same section, else one of that name elsewhere."""
    section, name = _pattern(path[:-1]), str(path[-1])
    beside = {key.rpartition(".")[2].lower(): key for key in KEYS if key.rpartition(".")[0] == section}
    near = difflib.get_close_matches(name.lower(), list(beside), n=1, cutoff=0.7)
    if near:
        return f"; did you mean {beside[near[0]].rpartition('.')[2]}?"
    elsewhere = [key for key in KEYS if key.rpartition(".")[2].lower() == name.lower()]
    return f"; {name} belongs to {elsewhere[0].rpartition('.')[0] or 'the top level'}" if elsewhere else ""


def _named(raw: dict[str, Any]) -> Iterator[Fault]:
    for path, _ in leaves(raw):
        key = key_of(path)
        if key is not None and key.honoured is False:
            yield Fault(path_text(path), f"has no meaning here: {key.effect}")


def _pattern(path: Path_) -> str:
    """``ModelConfig[0].models.qwen3`` as ``ModelConfig[].models.*``."""
    pattern = ""
    for step in path:
        if isinstance(step, int):
            pattern += "[]"
        elif _has_children(pattern + ".*"):
            pattern += ".*"
        else:
            pattern += f".{step}" if pattern else step
    return pattern


def _is_any(path: Path_) -> bool:
    return _pattern(path).endswith(".*")


def _has_children(pattern: str) -> bool:
    return any(key.startswith(pattern + ".") for key in KEYS)


def _steps(path: str) -> Path_:
    return tuple(int(step) if step.isdecimal() else step for step in re.split(r"\.|\[|\]\.?", path) if step)
