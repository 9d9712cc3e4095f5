"""Headers and scripts that mean harm, or nothing: each is read or refused in words, whatever stands in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generated.rules import Deployment
from handlers.errors import Problem
from tools.mock import script as scripts
from tools.mock.directives import DIRECTIVES, read_header
from tools.mock.script import ScriptError, read_script
from tools.mock.wishes import MAX_DELAY_S, MAX_TOKENS

_VALUES = st.sampled_from(
    ["", "=", "=1", "=1s", "=²", "=1e9s", "=999999999.999999s", "=-1", "=length", "=404", "=503/x"]
)
_DIRECTIVES = st.builds(lambda name, value: name + value, st.sampled_from([*DIRECTIVES, "x", ""]), _VALUES)
_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_NAMES = st.sampled_from(
    ["rules", "when", "reply", "cel", "fields", "endpoint", "content", "tool_calls", "name", "arguments", "ttft",
     "tokens", "error", "status", "regex", "equals", "contains", "present", "finish", "messages[0].content"]
)  # fmt: skip
_JSON: st.SearchStrategy[Any] = st.recursive(
    _PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=6), max_leaves=20
)
_TESTS = st.dictionaries(st.sampled_from(["equals", "contains", "regex", "present"]), _PLAIN, min_size=1)
_CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "endpoint": st.sampled_from(["chat", "completions"]),
        "cel": st.text("self.n has()[]!&|<>=?:'\"019+-", max_size=30),
        "fields": st.dictionaries(st.text("ab.[]-0", max_size=8), _TESTS, max_size=3),
    },
)


def read(path: Path) -> None:
    """A script, or its refusal in lines of words."""
    refusal = "none"
    try:
        read_script(path, Deployment())
    except ScriptError as error:
        refusal = str(error)
    assert refusal.strip()


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=4) | st.lists(_DIRECTIVES.map(str.encode), max_size=5))
def test_any_header_is_read_or_refused(values: list[bytes]) -> None:
    """422 that names X-Mock; what is read is within the limits."""
    wish, refusal = None, None
    try:
        wish = read_header(values)
    except Problem as problem:
        refusal = problem
    if refusal is not None:
        assert (refusal.status, refusal.param) == (422, "X-Mock")
        assert len(refusal.message) < 2000
    if wish is not None:
        assert 0 <= (wish.ttft_s or 0) <= MAX_DELAY_S
        assert 0 <= (wish.tokens or 0) <= MAX_TOKENS


@settings(deadline=None)
@given(_JSON | st.fixed_dictionaries({"rules": st.lists(_JSON, max_size=3)}))
def test_any_json_is_a_script_or_refused(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    """Never an exception of another kind."""
    path = tmp_path_factory.mktemp("any") / "script.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    read(path)


@settings(deadline=None)  # the first reads the spec
@given(_CONDITIONS)
def test_any_condition_is_compiled_or_refused(tmp_path_factory: pytest.TempPathFactory, when: Any) -> None:
    """Paths, patterns and CEL of any text."""
    path = tmp_path_factory.mktemp("any") / "script.json"
    path.write_text(json.dumps({"rules": [{"when": when, "reply": {"tokens": 1}}]}), encoding="utf-8")
    read(path)


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text("rules:- {}[]&*a\n'\"?", max_size=60).map(str.encode))
def test_any_bytes_are_a_script_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Not even text."""
    path = tmp_path_factory.mktemp("any") / "script.yaml"
    path.write_bytes(data)
    read(path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: &a [1]\nrules: [*a, *a]", "script.yaml:2: *a is an alias, which is not read; write it out"),
        ("rules: " + "[" * 5000, "nests too deep"),
        ("? [a]\n: 1", "has a key that is no text"),
    ],
)
def test_what_would_take_all_memory_or_stack_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    """Aliases, deep nesting, keys that are lists."""
    path = tmp_path / "script.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScriptError) as caught:
        read_script(path, Deployment())
    assert fault in str(caught.value)


def test_a_large_script_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its size and the limit."""
    monkeypatch.setattr(scripts, "MAX_SCRIPT_BYTES", 10)
    path = tmp_path / "script.yaml"
    path.write_text("rules: [{reply: {tokens: 1}}]", encoding="utf-8")
    with pytest.raises(ScriptError, match="has 29 bytes; a script has at most 10"):
        read_script(path, Deployment())


def test_not_more_than_a_hundred_faults_are_told(tmp_path: Path) -> None:
    """Of two hundred."""
    path = tmp_path / "script.yaml"
    path.write_text("rules:\n" + "- reply: {tokens: 0}\n" * 200, encoding="utf-8")
    with pytest.raises(ScriptError) as caught:
        read_script(path, Deployment())
    assert len(str(caught.value).splitlines()) == 100
