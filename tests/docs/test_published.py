"""What the published documents say beyond the spec: facts, rules, the guide, and the form for older tools."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from generated.fields import FIELDS
from generated.rules import RULES_OF
from tools.docs.older import schema

ROOT = Path(__file__).parents[2]
DOCUMENTS = {
    name: json.loads((ROOT / "generated" / name).read_text(encoding="utf-8"))
    for name in ("openapi.json", "openapi-3.0.json")
}
CONTRACT = DOCUMENTS["openapi.json"]
RULES = CONTRACT["components"]["x-rules"]
SECTIONS = {"ChatCompletionRequest": "POST /v1/chat/completions", "CompletionRequest": "POST /v1/completions"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_largest_seed_is_written_out_to_its_last_digit(name: str) -> None:
    """Tools round the number 2^64-1, so the text says it."""
    seed = DOCUMENTS[name]["components"]["schemas"]["ChatCompletionRequest"]["properties"]["seed"]
    assert seed["maximum"] == 18446744073709551615
    assert "Allowed: an integer from 0 to 18446744073709551615, or null." in seed["description"]


def test_a_parameter_says_its_range_default_null_and_source() -> None:
    """All of it in the last paragraph of its description."""
    last = CONTRACT["components"]["schemas"]["N"]["description"].split("\n\n")[-1]
    assert last == (
        "Allowed: an integer from 1 to 8192, or null. Default: 1. null counts as absent. "
        "Source: chat_zh, completions_zh, ruling."
    )


def test_every_rule_stands_in_the_text_of_an_operation_with_both_requests() -> None:
    """Id, message, and lines with whole requests as JSON."""
    text = "\n".join(node["description"] for path in CONTRACT["paths"].values() for node in path.values())
    entries = re.findall(r"\*\*`([a-z0-9-]+)`\*\* \[.*?\]: (.*(?:\n.+|\n\n- .+)*)", text)
    assert {rule for rule, _ in entries} == set(RULES)
    messages = {(rule.id, rule.message) for rules in RULES_OF.values() for rule in rules.values()}
    for rule, entry in entries:
        assert any(entry.startswith(f"{message}.") for owner, message in messages if owner == rule)
        for word in ("passes", "refused"):
            shown = re.search(rf"- {word}: `(.*)`$", entry, re.MULTILINE)
            assert shown is not None
            assert "model" in json.loads(shown[1])


def test_the_guide_names_every_code_of_an_error() -> None:
    """The table of errors has those that the spec lists."""
    listed = CONTRACT["components"]["schemas"]["ErrorCode"]["description"].partition("id, or ")[2]
    table = "\n".join(line for line in CONTRACT["info"]["description"].splitlines() if line.startswith("|"))
    missing = [code for code in re.findall(r"\w+", listed) if f"`{code}`" not in table]
    assert missing == []


def test_the_table_of_parameters_has_every_path_of_both_endpoints() -> None:
    """One row each; items of lists belong to their list."""
    text = (ROOT / "spec" / "parameters.md").read_text(encoding="utf-8")
    for model, section in SECTIONS.items():
        rows = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
        wanted = [path for path in FIELDS[model] if not path.endswith("[]")]
        assert re.findall(r"^\| `([^`]+)`", rows, re.MULTILINE) == wanted


@pytest.mark.parametrize(
    ("newer", "wanted"),
    [
        ({"type": ["integer", "null"], "minimum": 1}, {"type": "integer", "nullable": True, "minimum": 1}),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "minimum": 0, "exclusiveMinimum": True}),
        ({"type": "string", "const": "function"}, {"type": "string", "enum": ["function"]}),
        ({"type": "string", "examples": ["a", "b"]}, {"type": "string", "example": "a"}),
        ({"$ref": "#/x", "description": "d"}, {"description": "d", "allOf": [{"$ref": "#/x"}]}),
        (
            {"oneOf": [{"type": "string"}, {"$ref": "#/x"}, {"type": "null"}]},
            {"oneOf": [{"type": "string", "nullable": True}, {"$ref": "#/x"}]},
        ),
        (
            {"oneOf": [{"$ref": "#/x"}, {"type": "null"}]},
            {"oneOf": [{"$ref": "#/x"}, {"type": "string", "nullable": True, "enum": [None]}]},
        ),
        ({"type": "integer", "not": {"const": 0}}, {"type": "integer", "not": {"enum": [0]}}),
        ({"type": "object", "propertyNames": {"not": {"enum": ["x"]}}}, {"type": "object"}),
        ({"type": "array", "items": {"type": ["string", "null"]}},
         {"type": "array", "items": {"type": "string", "nullable": True}}),
    ],
)  # fmt: skip
def test_a_schema_in_the_words_of_openapi_3_0(newer: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Each keyword of 3.1 that the spec uses."""
    assert schema(newer) == wanted


def test_the_older_form_says_what_it_cannot_express() -> None:
    """At the top of its description, before anything else."""
    older = DOCUMENTS["openapi-3.0.json"]
    assert older["openapi"] == "3.0.3"
    assert older["info"]["description"].startswith(
        "> **This is the 3.0 form, derived from the 3.1 document beside it.**"
    )
    assert "propertyNames" in older["info"]["description"]
