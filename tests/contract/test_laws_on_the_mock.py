"""The laws of answers and streams on the mock: whatever it answers, it breaks none of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_valid_requests import SPEC, plain, realistic
from wire import JSON_TYPE, ClientFor

from generated.operations import WIRE
from generated.rules import Deployment
from tools.contract.corpus import load_corpus
from tools.contract.strategy import contract_of, valid_requests
from tools.contract.values import expand
from tools.laws.answers import Answers
from tools.laws.requests import Requests

CORPUS = load_corpus(Path(__file__).parents[2] / "generated" / "corpus.json")
MOST_BYTES = 100_000
"""Longer bodies of the corpus are sent elsewhere; here they would only cost time."""


def sent(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.parametrize("form", ["vllm", "openai"])
@pytest.mark.parametrize("operation", ["create_chat_completion", "create_completion"])
def test_drawn_requests_and_their_answers_break_no_law(operation: str, form: str, client_for: ClientFor) -> None:
    """Whole or streamed, with every option that can be drawn: neither the request nor its answer is reported."""
    wire = WIRE[operation]
    client = client_for(model_name="mock", max_n=8192, max_iter_times=8, open_ai_support=form)
    judge, answers = Requests(Deployment(openai_form=form == "openai")), Answers()
    drawn = valid_requests(operation, contract=contract_of(SPEC)).filter(plain).map(realistic)

    @settings(max_examples=400, deadline=None, database=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(body=drawn, stream=st.booleans(), apart=st.booleans())
    def send(body: dict[str, Any], stream: bool, apart: bool) -> None:
        body["model"] = "mock"
        if form == "openai" and body.get("top_k") == -1:
            body["top_k"] = 0
        if stream and body.get("best_of") is None:
            body |= {"stream": True, "stream_options": {"include_usage": apart}}
        raw = sent(body)
        read = judge.judge(wire, raw, JSON_TYPE)
        assert read.breaches == []
        assert read.asked is not None
        answer = client.post(wire.path, content=raw, headers=JSON_TYPE)
        assert answer.status_code == 200
        found = answers.breaches(read.asked, answer.status_code, answer.headers, answer.content)
        assert found == [], (body, answer.text[:3000])

    send()


def test_the_judge_of_requests_agrees_with_the_corpus() -> None:
    """Accepted requests have no breach, refused ones exactly theirs."""
    for case in CORPUS:
        server = Deployment(**{key: frozenset(v) if isinstance(v, list) else v for key, v in case.deployment.items()})
        found = Requests(server).judge(WIRE[case.operation], sent(expand(case.body))).breaches
        due = [] if case.accepted else [(case.code, case.param)]
        assert [(one.law, one.field) for one in found] == due, case


def test_refusals_of_the_corpus_are_errors_as_the_contract_says(client_for: ClientFor) -> None:
    """In both forms: the answers to refused requests break no law."""
    for form in ("vllm", "openai"):
        client, answers = client_for(model_name="mock", open_ai_support=form), Answers()
        for case in CORPUS:
            raw = sent(expand(case.body))
            if case.accepted or len(raw) > MOST_BYTES:
                continue
            wire = WIRE[case.operation]
            read = Requests().judge(wire, raw, JSON_TYPE)
            assert read.asked is not None
            answer = client.request(wire.method, wire.path.replace("{model}", "mock"), content=raw)
            assert answers.breaches(read.asked, answer.status_code, answer.headers, answer.content) == [], case
