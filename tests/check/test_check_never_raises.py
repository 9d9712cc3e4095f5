"""Whatever is in a file, `mindspec check` says something about it and ends."""

from __future__ import annotations

import io
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generated.rules import PLAIN
from tools.check import sources
from tools.check.findings import Checker

NAMES = st.sampled_from(
    ["log", "entries", "request", "response", "url", "path", "method", "headers", "body", "postData", "text", "content",
     "encoding", "status", "answer", "messages", "prompt", "model", "role", "name", "value", "mimeType"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)
OBJECTS = st.lists(st.dictionaries(NAMES, JSON, max_size=6), min_size=1, max_size=4)

ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How long a busy machine takes decides nothing."""


def through(content: bytes) -> list[Any]:
    return list(Checker(PLAIN).findings(sources._file("f", io.BytesIO(content))))


@ANY_TIME
@given(content=st.binary(max_size=300))
def test_any_bytes(content: bytes) -> None:
    """Bytes."""
    through(content)


@ANY_TIME
@given(
    values=st.lists(st.dictionaries(NAMES, JSON, max_size=6), min_size=1, max_size=4), indent=st.sampled_from([None, 1])
)
def test_any_json_with_the_names_that_are_looked_for(values: list[Any], indent: int | None) -> None:
    """Objects that look like records and HARs, and are not."""
    through("\n".join(json.dumps(value, indent=indent) for value in values).encode())


@ANY_TIME
@given(entries=st.lists(st.fixed_dictionaries({"request": JSON, "response": JSON}), max_size=3))
def test_any_entries_of_a_har(entries: list[Any]) -> None:
    """The shape of a HAR around anything."""
    through(json.dumps({"log": {"entries": entries}}).encode())
