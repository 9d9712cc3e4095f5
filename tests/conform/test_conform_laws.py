"""Every law is kept by the mock, and broken by a server with a fault planted for it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from mock_transport import Fault, Faulty, MockTransport, parsed
from planted_faults import ON_TOY, PLANTED

from generated.rules import PLAIN
from tools.conform.asking import Ask, Target
from tools.conform.budget import Budget
from tools.conform.cases import Cases
from tools.conform.law import Law
from tools.conform.registry import all_laws
from tools.conform.runner import judged, tried
from tools.conform.wire import Got, Sent, Transport
from tools.laws import answers
from tools.laws.breach import Breach

LAWS = all_laws(Cases(PLAIN))
FAMILIES = (
    "accepts", "refuses", "tells", "names", "bounds", "stream-refuses", "rule-refuses", "rule-tells", "rule-names",
    "rule-stream-refuses", "rule-accepts", "rule-mended", "grid", "grid-told",
)  # fmt: skip
"""Groups of laws that are made from the corpus: one fault breaks all laws of a group."""
BY_HAND = [law for law in LAWS if law.group not in (*FAMILIES, "form")]


def asking(transport: Transport) -> Ask:
    """What a law asks, without a bound that matters here."""
    return Ask(transport, Target("mock"), Budget(100_000, 10**9))


def base_of(law: Law) -> str:
    """The id without the endpoint."""
    return law.id.removesuffix(f".{law.side.name}")


@pytest.fixture(scope="module")
def clean(mock: MockTransport) -> Ask:
    """One attempt at the clean mock; its answers are shared."""
    return asking(mock)


def test_the_mock_keeps_every_law(clean: Ask) -> None:
    """No law fails on the mock, and few are skipped."""
    outcomes = [judged(law, [clean]) for law in LAWS]
    failed = [(outcome.law.id, outcome.findings[0].message) for outcome in outcomes if outcome.status == "fail"]
    assert failed == []
    skipped = {base_of(outcome.law) for outcome in outcomes if outcome.status == "skip"}
    assert skipped <= {"seed.absent", "sampling.penalties", "sampling.prompt", "stop.last-token"}
    assert Counter(outcome.status for outcome in outcomes)["pass"] > 1000


@pytest.mark.parametrize("law", [law for law in BY_HAND if base_of(law) not in ON_TOY], ids=lambda law: law.id)
def test_a_planted_fault_breaks_the_law(law: Law, mock: MockTransport) -> None:
    """Each law written by hand finds the fault that is planted for it."""
    planted = PLANTED[base_of(law)]
    fault = planted if isinstance(planted, Fault) else planted[law.side.name]
    assert tried(law, asking(Faulty(mock, fault)))


def test_no_planted_fault_is_left_over() -> None:
    """Every planted fault belongs to a law, and every law has one."""
    assert set(PLANTED) | ON_TOY == {base_of(law) for law in BY_HAND}


def _lets_all_through(sent: Sent, got: Got) -> Got:
    """All but what shows whether huge bodies are safe to send."""
    probes = ({"temperature": -1}, {"max_tokens": 0}, {"top_p": 2})
    given = parsed(sent.body) or {}
    if got.status != 422 or any(probe.items() <= given.items() for probe in probes):
        return got
    return replace(got, status=200, body=b'{"choices": []}')


def _refuses_all(sent: Sent, got: Got) -> Got:
    body = {"error": "this is not for you", "error_type": "Input Validation Error", "param": None, "code": "no"}
    return replace(got, status=422, body=json.dumps(body).encode())


def _errors(**members: object) -> Fault:
    def raw(sent: Sent, got: Got) -> Got:
        return got if got.status < 400 else replace(got, body=json.dumps({**json.loads(got.body), **members}).encode())

    return Fault(raw=raw)


FAMILY_FAULTS = {
    **dict.fromkeys(("refuses", "stream-refuses", "rule-refuses", "rule-stream-refuses"), Fault(raw=_lets_all_through)),
    **dict.fromkeys(("accepts", "rule-accepts", "rule-mended", "grid"), Fault(raw=_refuses_all)),
    **dict.fromkeys(("tells", "rule-tells"), _errors(error_type="Error")),
    **dict.fromkeys(("names", "rule-names", "grid-told"), _errors(param="elsewhere")),
    "bounds": _errors(error="this value cannot be used here"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_planted_fault_breaks_a_whole_family(family: str, mock: MockTransport) -> None:
    """Every law that is made from the corpus finds the fault of its family; those without numbers say none."""
    ask = asking(Faulty(mock, FAMILY_FAULTS[family]))
    kept = [law.id for law in LAWS if law.group == family and not tried(law, ask)]
    assert all(family == "bounds" for _ in kept), kept
    assert len(kept) < sum(law.group == family for law in LAWS) * 0.9


def test_each_law_of_form_is_broken_by_its_breach(mock: MockTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the shared laws say of any answer becomes the failure of the law with that id, and of no other."""
    form = [law for law in LAWS if law.group == "form"]
    ids = list(dict.fromkeys(law.id.split(".", 2)[2] for law in form))
    breaches = [Breach(law, None, "planted", "none") for law in ids[::2]]
    monkeypatch.setattr(answers.Answers, "breaches", lambda *arguments: breaches)
    ask = asking(mock)
    assert {law.id.split(".", 2)[2] for law in form if tried(law, ask)} == set(ids[::2])
