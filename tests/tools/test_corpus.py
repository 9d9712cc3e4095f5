"""The corpus and the random requests against the models, and the laws of the search."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generated import models
from generated.rules import RULES, RULES_OF, Deployment
from tools.contract.corpus import Case, build, load_corpus
from tools.contract.package import Judge, Package, load_package
from tools.contract.search import Search
from tools.contract.strategy import valid_requests
from tools.contract.values import compress, expand
from tools.generate.__main__ import generate
from tools.generate.load import load
from tools.generate.shapes import Contract, read
from tools.generate.write import write

ROOT = Path(__file__).resolve().parents[2]
TINY = Path(__file__).resolve().parent / "tiny.yaml"

CASES = load_corpus(ROOT / "generated" / "corpus.json")
REQUESTS = {
    "create_chat_completion": "ChatCompletionRequest",
    "create_completion": "CompletionRequest",
    "load_lora_adapter": "LoadLoraAdapterRequest",
    "unload_lora_adapter": "UnloadLoraAdapterRequest",
    "count_tokens": "TokenizerRequest",
    "stop_inference": "StopInferenceRequest",
}
JUDGES = {operation: Judge(Package("generated"), request) for operation, request in REQUESTS.items()}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.text("x", max_size=200),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=20,
)


def deployment(case: Case) -> Deployment:
    """The deployment that a case is about."""
    made: Deployment = Package("generated").deployment(**case.deployment)
    return made


@pytest.mark.parametrize("operation", REQUESTS)
def test_every_case_gets_its_verdict_code_and_param(operation: str) -> None:
    """Inside is accepted; outside is refused with the case's code at the case's path."""
    wrong = []
    for case in (case for case in CASES if case.operation == operation):
        said = JUDGES[operation].verdict(expand(case.body), deployment(case))
        if (said.code, said.param) != (case.code, case.param):
            wrong.append((case.subject, said, case))
    assert wrong == []


def test_a_witness_breaks_its_rule_and_no_other(contract: Contract) -> None:
    """Each rule has one, and it is judged under the rule's own profile."""
    for operation, request in REQUESTS.items():
        witnesses = [case for case in CASES if case.operation == operation and case.group == "rule-bad"]
        for case in witnesses:
            broken = JUDGES[operation].broken(expand(case.body), deployment(case))
            assert [rule for rule, _ in broken or []] == [case.subject]
        listed = {rule for name in contract.reach((request,)) for rule in RULES_OF.get(name, ())}
        assert {case.subject for case in witnesses} == listed


def test_the_corpus_covers_every_field_on_both_sides(contract: Contract) -> None:
    """Every path below both requests has a value that is refused and, within a valid body, one that is accepted."""
    outside = {(case.operation, case.subject) for case in CASES if case.group == "outside"}
    for operation, request in REQUESTS.items():
        assert {pattern for pattern, _, _ in contract.walk(request)} == {p for o, p in outside if o == operation}
    groups = Counter(case.group for case in CASES)
    assert groups["inside"] >= 137
    assert groups["outside"] >= 430


def test_the_corpus_file_is_small_and_has_no_case_twice() -> None:
    """Long strings are written as repeat and times, equal bodies under equal deployments once."""
    assert (ROOT / "generated" / "corpus.json").stat().st_size < 1_500_000
    keys = [json.dumps([c.operation, c.body, dict(c.deployment)], sort_keys=True) for c in CASES]
    assert len(keys) == len(set(keys))


@given(JSON_VALUES)
def test_expand_undoes_compress(value: object) -> None:
    """Whatever compress shortens, expand writes out again."""
    assert expand(compress(value)) == value


@pytest.mark.parametrize("operation", REQUESTS)
@pytest.mark.parametrize(
    "server",
    [Deployment(), Deployment(features=frozenset(["pd", "mtp", "reasoning", "prefix_cache"]), model_type="deepseek")],
    ids=["plain", "every-profile"],
)
def test_random_valid_requests_are_valid(operation: str, server: Deployment, contract: Contract) -> None:
    """What the strategy draws passes the whole check under its deployment, and JSON can carry it."""
    model = getattr(models, REQUESTS[operation])

    @settings(max_examples=80, deadline=None)
    @given(valid_requests(operation, server, contract=contract))
    def holds(body: dict[str, object]) -> None:
        model.model_validate_json(json.dumps(body), context=server)

    holds()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([case for case in CASES if not case.code and len(json.dumps(case.body)) < 2000]), st.data())
def test_any_damage_gives_a_short_problem_with_a_path(case: Case, data: st.DataObject) -> None:
    """A member replaced by random JSON is accepted, or refused with a known code and a sentence of bounded length."""
    body = expand(case.body)
    name = data.draw(st.sampled_from(sorted(body)))
    damaged = {**body, name: data.draw(JSON_VALUES)}
    said = JUDGES[case.operation].verdict(damaged, deployment(case))
    known = {"", "missing", "wrong_type", "out_of_range", "too_long", *RULES}
    assert said.code in known
    assert len(said.message) < 800
    assert "Request" not in said.message
    assert "pydantic" not in said.message


def test_a_repair_changes_as_little_as_it_can(searches: list[Search]) -> None:
    """n 2 with temperature 0 needs one other member: the temperature goes."""
    body = {**searches[0].start(), "n": 2, "temperature": 0}
    repaired = searches[0].repair(body, ("n",))
    assert repaired is not None
    assert {key: value for key, value in repaired.items() if key not in ("model", "messages")} == {"n": 2}


@pytest.mark.parametrize(
    ("old", "new", "noticed"),
    [
        ("le=8", "le=9", "gives no error at None, not out_of_range at n"),
        ("ge=1, le=8", "ge=2, le=8", "gives out_of_range at n, not no error at None"),
        ("min_length=1, max_length=5", "min_length=1", "gives no error at None, not too_long at model"),
        ("StrictBool | None", "bool | None", "gives no error at None, not wrong_type at stream"),
        ("strict=True, min_length=1)", "strict=True)", "gives no error at None, not out_of_range at tag[0]"),
    ],
)
def test_the_search_notices_models_that_do_not_follow_the_spec(
    old: str, new: str, noticed: str, tmp_path: Path
) -> None:
    """A type that is a little too wide or too narrow is found by a boundary case, so it can never be written."""
    files = generate(TINY)
    assert old in files["models.py"]
    files["models.py"] = files["models.py"].replace(old, new)
    write(files, tmp_path)
    _, wrong = build(read(load(TINY)), load_package(tmp_path))
    assert [line for line in wrong if noticed in line]
