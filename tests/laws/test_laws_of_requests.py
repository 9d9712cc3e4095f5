"""Requests with several faults: all are told, the server's first among them, and none that a repair would take away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from generated import models
from generated.operations import WIRE
from generated.problems import explain
from generated.rules import RULES, Deployment
from tools.contract.corpus import Case, load_corpus
from tools.contract.values import expand
from tools.laws.requests import Limits, Requests

MOST_BYTES = 3000
CASES = [
    case
    for case in load_corpus(Path(__file__).parents[2] / "generated" / "corpus.json")
    if not case.deployment and isinstance(case.body, dict) and len(json.dumps(expand(case.body))) < MOST_BYTES
]
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def of(operation: str, *, accepted: bool | None = None) -> list[Case]:
    return [case for case in CASES if case.operation == operation and (accepted is None or case.accepted == accepted)]


def told(body: Any, operation: str = "create_chat_completion") -> list[tuple[str, str | None]]:
    found = Requests().judge(WIRE[operation], json.dumps(body).encode()).breaches
    return [(one.law, one.field) for one in found]


@pytest.mark.parametrize("operation", ["create_chat_completion", "create_completion"])
def test_faults_are_all_told_and_soundly(operation: str) -> None:
    """Several requests of the corpus in one: nothing is told of an accepted body; of a refused one the first fault is
    the server's; and a rule that is told is broken whatever value the members at fault are given."""
    good: dict[str, list[Any]] = {}
    for case in of(operation, accepted=True):
        for name, value in expand(case.body).items():
            good.setdefault(name, []).append(value)
    model = getattr(models, "ChatCompletionRequest" if operation == "create_chat_completion" else "CompletionRequest")
    bad = {case.subject: case.body[case.subject] for case in of(operation, accepted=False) if case.subject in case.body}
    broken = [case for case in of(operation, accepted=False) if case.code in RULES]

    @settings(max_examples=400, deadline=None, derandomize=True, database=None, suppress_health_check=[*HealthCheck])
    @given(parts=st.lists(st.sampled_from(of(operation)), max_size=3), rule=st.sampled_from(broken), data=st.data())
    def judge(parts: list[Case], rule: Case, data: st.DataObject) -> None:
        body: dict[str, Any] = {}
        for part in [*parts, rule]:
            body |= expand(part.body)
        read = [name for name in RULES[rule.code].reads if name in bad]  # at fault beside the rule that looks at it
        body |= {name: bad[name] for name in (data.draw(st.lists(st.sampled_from(read), max_size=1)) if read else ())}
        found = told(body, operation)
        try:
            model.model_validate(body, context=Deployment())
        except ValidationError as error:
            problem = explain(error, body, model.__name__)
            assert found[0] == (problem.code, problem.param)
        else:
            assert found == []
        rules = {one for one in found if one[0] in RULES}
        faulty = [name for law, name in found if law not in RULES and name in good]
        repaired = {**body, **{name: data.draw(st.sampled_from(good[name]), name) for name in faulty if name}}
        assert rules <= set(told(repaired, operation))

    judge()


def test_every_element_and_every_member_at_fault_is_told() -> None:
    """Lists are judged to their end, required members stand in for each other."""
    messages = [{"content": "x"}, 5, {"role": "user", "content": "x"}, {"role": "tool", "content": ""}]
    assert told({"messages": messages, "stop": ["", 1, "x"], "seed": -1}) == [
        ("missing", "model"),
        ("missing", "messages[0].role"),
        ("wrong_type", "messages[1]"),
        ("out_of_range", "seed"),
        ("out_of_range", "stop[0]"),
        ("wrong_type", "stop[1]"),
        ("tool-message-needs-call-id", "messages[3].tool_call_id"),
    ]


def test_a_rule_that_looks_at_a_member_at_fault_is_not_told() -> None:
    """Nobody knows which stream was meant; n and best_of are compared only outside of streams."""
    assert told({**CHAT, "n": 2, "best_of": 1, "stream": "yes"}) == [("wrong_type", "stream")]


def test_headers_and_size_are_judged_before_the_body() -> None:
    """A Content-Encoding, a media type, and more bytes than the deployment takes."""
    wire, raw = WIRE["create_chat_completion"], json.dumps({**CHAT, "n": 0}).encode()
    headers = {"Content-Type": "text/json", "Content-Encoding": "gzip"}
    found = Requests().judge(wire, raw, headers).breaches
    assert [(one.law, one.field) for one in found] == [
        ("media_type", "Content-Type"),
        ("media_type", "Content-Encoding"),
        ("out_of_range", "n"),
    ]
    small = Requests(limits=Limits(body_bytes=10)).judge(wire, raw).breaches
    assert [one.law for one in small] == ["body_too_large"]


def test_a_body_of_countless_faults_is_told_a_hundred() -> None:
    """The rest is not looked for."""
    assert len(told({**CHAT, "messages": [5] * 1000})) == 100
    assert len(told({**CHAT, "messages": [{"role": "user", "content": ""}] * 1000})) == 100


def test_relaxed_rules_are_not_told() -> None:
    """As on a deployment that relaxes them."""
    body = {**CHAT, "tools": [{"type": "function", "function": {"name": "f"}}], "n": 2}
    assert told(body) == [("tools-exclude-n", "n")]
    relaxed = Requests(Deployment(relaxed_rules=frozenset({"tools-exclude-n"})))
    assert relaxed.judge(WIRE["create_chat_completion"], json.dumps(body).encode()).breaches == []


@pytest.mark.parametrize(
    ("method", "target", "operation"),
    [
        ("POST", "/v1/chat/completions", "create_chat_completion"),
        ("post", "https://host:1/openai/v1/completions?api-version=1", "create_completion"),
        ("GET", "/v1/models/a%2Fb", "get_model"),
        ("POST", "/v2/models/a/b/stopInfer", "stop_inference"),
        ("OPTIONS", "/v1/chat/completions", None),
        ("GET", "/page/v1/models", None),
        ("POST", "/v1/embeddings", None),
        ("POST", "http://[half", None),
    ],
)
def test_the_operation_of_a_request(method: str, target: str, operation: str | None) -> None:
    """By method and path; a base address may stand before a path that takes a body."""
    wire = Requests().read(method, target, json.dumps(CHAT).encode()).wire
    assert (wire.operation_id if wire else None) == operation


def test_a_path_with_another_method_is_told() -> None:
    """The message names the method that it takes."""
    (breach,) = Requests().read("GET", "/v1/chat/completions", b"").breaches
    assert (breach.law, breach.message) == (
        "method_not_allowed",
        "/v1/chat/completions was asked with GET; it takes POST",
    )
