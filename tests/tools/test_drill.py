"""The regeneration drill: a changed spec changes models, rules, texts and corpus with no other edit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.contract.corpus import load_corpus
from tools.contract.package import Judge, load_package
from tools.contract.values import expand
from tools.generate.__main__ import run

SPEC = Path(__file__).resolve().parents[2] / "spec" / "openapi.yaml"

NEW_FIELD = """        mirostat:
          type: [integer, 'null']
          minimum: 0
          maximum: 2
          description: A sampling method that the drill adds.
          x-source: extension
          default: 0
"""
NEW_RULE = """    mirostat-excludes-top-k:
      rule: '!has(self.mirostat) || self.mirostat == 0 || !has(self.top_k)'
      message: mirostat cannot be combined with top_k
      fields: [mirostat, top_k]
      example_ok: {mirostat: 0, top_k: 5}
      example_bad: {mirostat: 1, top_k: 5}
"""
BODY: dict[str, Any] = {"model": "m", "prompt": "hello"}


def replace_once(text: str, old: str, new: str) -> str:
    """The text with one place changed; the drill must not miss its mark."""
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


@pytest.fixture(scope="module")
def regenerated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed spec with a bound changed, a field added and a rule added, generated into a folder."""
    text = SPEC.read_text(encoding="utf-8")
    n = "    N:\n      type: [integer, 'null']\n      minimum: 1\n      maximum: 8192\n"
    text = replace_once(text, n, n.replace("8192", "7"))
    head, tail = text.split("    CompletionRequest:\n")
    tail = tail.replace("        use_beam_search: {$ref", NEW_FIELD + "        use_beam_search: {$ref", 1)
    tail = tail.replace(
        "      x-validations:\n",
        "      x-validations:\n        - {$ref: '#/components/x-rules/mirostat-excludes-top-k'}\n",
        1,
    )
    head = replace_once(head, "  x-rules:\n", "  x-rules:\n" + NEW_RULE)
    folder = tmp_path_factory.mktemp("drill")
    (folder / "openapi.yaml").write_text(head + "    CompletionRequest:\n" + tail, encoding="utf-8")
    assert run(folder / "openapi.yaml", folder / "generated") == 0
    return folder / "generated"


@pytest.fixture(scope="module")
def verdict(regenerated: Path) -> Callable[[dict[str, Any]], tuple[str, str | None, str]]:
    """What the regenerated package says about a completions body: code, param, message."""
    judge = Judge(load_package(regenerated), "CompletionRequest")

    def say(members: dict[str, Any]) -> tuple[str, str | None, str]:
        found = judge.verdict({**BODY, **members})
        return found.code, found.param, found.message

    return say


def test_a_changed_bound_reaches_models_and_texts(verdict: Callable[[dict[str, Any]], tuple[str, str, str]]) -> None:
    """n up to 7 is accepted and 8 refused with the new bound in the sentence; the committed package still allows 8."""
    assert verdict({"n": 7})[0] == ""
    assert verdict({"n": 8}) == ("out_of_range", "n", "n was given 8; it must be an integer from 1 to 7, or null")
    from generated.models import CompletionRequest

    assert CompletionRequest.model_validate({**BODY, "n": 8}).n == 8


def test_a_new_field_reaches_models_texts_and_defaults(
    verdict: Callable[[dict[str, Any]], tuple[str, str, str]], regenerated: Path
) -> None:
    """The field is checked, kept as a field and no longer an ignored parameter, and has its default."""
    assert verdict({"mirostat": 2})[0] == ""
    assert verdict({"mirostat": 3})[:2] == ("out_of_range", "mirostat")
    assert verdict({"mirostat": "2"})[:2] == ("wrong_type", "mirostat")
    package = load_package(regenerated)
    model = package.module("models").CompletionRequest.model_validate({**BODY, "mirostat": 1})
    assert model.mirostat == 1
    assert package.module("problems").ignored_parameters(model) == []
    assert package.module("fields").FIELDS["CompletionRequest"]["mirostat"] == "an integer from 0 to 2, or null"
    assert package.module("defaults").CompletionRequestDefaults.mirostat == 0


def test_a_new_rule_reaches_rules_and_corpus(
    verdict: Callable[[dict[str, Any]], tuple[str, str, str]], regenerated: Path
) -> None:
    """The rule refuses by its id, is in the table, and the corpus has a witness that breaks it alone."""
    assert verdict({"mirostat": 1, "top_k": 5})[:2] == ("mirostat-excludes-top-k", "mirostat")
    assert "mirostat-excludes-top-k" in load_package(regenerated).module("rules").RULES
    cases = load_corpus(regenerated / "corpus.json")
    witness = next(c for c in cases if c.group == "rule-bad" and c.subject == "mirostat-excludes-top-k")
    assert witness.param == "mirostat"
    assert set(expand(witness.body)) == {"model", "prompt", "mirostat", "top_k"}
    assert [c.body["n"] for c in cases if c.subject == "n" and c.code == "out_of_range" and "prompt" in c.body] == [
        0,
        8,
    ]
    assert {c.code for c in cases if c.subject == "mirostat"} == {"", "out_of_range", "wrong_type"}
