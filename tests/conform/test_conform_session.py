"""A run from its options to a report: which laws, what is spent, what is written, and the exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from mock_transport import Fault, Faulty, MockTransport

from generated.rules import PLAIN
from tools.cli import main
from tools.conform import session
from tools.conform.asking import Ask, Target
from tools.conform.budget import Budget
from tools.conform.cases import Cases
from tools.conform.command import add_conform
from tools.conform.law import Finding, Law, Outcome, Skip, Tier
from tools.conform.registry import all_laws, chosen
from tools.conform.report import Report, as_json, junit, text
from tools.conform.runner import judged
from tools.conform.session import CannotTest, conform
from tools.conform.sides import SIDES, Side
from tools.conform.wire import Address, Exchange, Got, Sent, Transport

URL = "http://127.0.0.1:1"
FEW = ["--only", "length", "--only", "service.req-id", "--only", "accepts.chat.n", "--only", "refuses.chat.n"]
LONGER = Fault(
    request=lambda given: {**given, "max_tokens": given["max_tokens"] + 1} if given.get("max_tokens") else None
)


def options(*words: str) -> argparse.Namespace:
    """What the command line gives."""
    parser = argparse.ArgumentParser()
    add_conform(parser.add_subparsers())
    return parser.parse_args(["conform", URL, *words])


def reported(transport: Transport, *words: str) -> Report:
    """The report on a server without a socket."""
    return conform(options(*words), transport, URL)


def by_id(report: Report) -> dict[str, Outcome]:
    """Outcomes by law."""
    return {outcome.law.id: outcome for outcome in report.outcomes}


def test_a_clean_server_gets_a_full_score(mock: MockTransport) -> None:
    """Every chosen law passes, and the requests are counted."""
    report = reported(mock, *FEW)
    assert report.broken == []
    assert report.model == "mock"
    assert {"length", "service", "accepts", "refuses"} == set(report.groups)
    assert report.requests > 30
    assert report.tokens > 0
    assert "all      100.0 %" in text(report, 3)


def test_a_broken_law_is_reported_with_the_curl_that_shows_it(mock: MockTransport) -> None:
    """Text, JSON and JUnit name the law, what was found, and the exact request."""
    report = reported(Faulty(mock, LONGER), "--only", "length.exact.chat")
    shown = text(report, 1)
    assert "FAIL length.exact.chat: With ignore_eos an answer has max_tokens tokens and ends with length." in shown
    assert "max_tokens 1 with ignore_eos gave 2 tokens" in shown
    assert f"    curl -sS -i -N --max-time 120 {URL}/v1/chat/completions -H 'Content-Type: application/json'" in shown
    assert "and 9 more" in shown
    read = json.loads(as_json(report))
    assert read["counts"] == {"pass": 0, "fail": 1, "flaky": 0, "skip": 0}
    assert read["laws"][0]["findings"][0]["requests"][0]["curl"].startswith("curl -sS")
    suite = ElementTree.fromstring(junit(report).encode())[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "curl" in (suite.findtext("testcase/failure") or "")


def test_a_budget_of_requests_is_kept(mock: MockTransport) -> None:
    """What does not fit is skipped with the reason, and no request is sent beyond the budget."""
    report = reported(mock, "--requests", "20", "--only", "length")
    assert report.requests == 20
    reasons = {outcome.reason for outcome in report.outcomes if outcome.status == "skip"}
    assert "budget used up: 20 requests (--requests)" in reasons
    assert report.broken == []


def test_a_budget_of_tokens_is_kept(mock: MockTransport) -> None:
    """A request that could cost more than is left is not sent."""
    report = reported(mock, "--tokens", "300", "--only", "length")
    assert report.tokens <= 300
    assert any("(--tokens)" in outcome.reason for outcome in report.outcomes)


def test_a_server_that_has_gone_is_not_asked_for_ever(mock: MockTransport) -> None:
    """After five requests without an answer the other laws are skipped, and the reason is in the report."""
    seen: list[Sent] = []

    def dies(sent: Sent, got: Got) -> Got:
        seen.append(sent)
        return got if len(seen) <= 20 else Got(fault="connection")

    report = reported(Faulty(mock, Fault(raw=dies)), "--concurrency", "1", "--only", "length")
    assert report.requests <= 25
    reasons = {outcome.reason for outcome in report.outcomes if outcome.status == "skip"}
    assert "the server is gone: 5 requests in a row had no answer" in reasons


def test_cheap_laws_come_first() -> None:
    """A small budget is spent on what refusals decide before anything is generated."""
    laws = {law.id: law for law in chosen(_all(), [], [])}
    assert laws["service.unknown-path"].tier < laws["refuses.chat.n"].tier < laws["length.exact.chat"].tier
    assert laws["limits.prompt.completions"].tier is Tier.LONG


def _all() -> list[Law]:
    return all_laws(Cases(PLAIN))


def test_laws_are_chosen_by_id_group_or_pattern() -> None:
    """--only and --skip take what the report shows."""
    assert [law.id for law in chosen(_all(), ["seed.zero.chat"], [])] == ["seed.zero.chat"]
    assert {law.group for law in chosen(_all(), ["stop"], [])} == {"stop"}
    assert {law.side.name for law in chosen(_all(), ["seed.*.chat", "same"], ["*.completions"])} == {"chat"}
    with pytest.raises(ValueError, match="no law is called 'nonsense'"):
        chosen(_all(), [], ["nonsense"])


class Moody:
    """A law that fails in some of its tries."""

    def __init__(self, *fails: bool) -> None:
        self._fails = iter(fails)

    def law(self) -> Law:
        """It looks at no server."""
        return Law("x.y", "", "", lambda ask, side: [Finding("no")] if next(self._fails) else [], side=SIDES[0])


@pytest.mark.parametrize(
    ("fails", "status", "failed", "tries"),
    [((False,), "pass", 0, 1), ((True, True, True), "fail", 3, 3), ((True, False, True), "flaky", 2, 3),
     ((True, False, False), "flaky", 1, 3)],
)  # fmt: skip
def test_a_failure_is_tried_twice_more(fails: tuple[bool, ...], status: str, failed: int, tries: int,
    mock: MockTransport) -> None:  # fmt: skip
    """Three failures are a failure, fewer are flaky, and a pass is believed at once."""
    ask = Ask(mock, Target("mock"), Budget(10, 10))
    outcome = judged(Moody(*fails).law(), [ask, ask.again(), ask.again()])
    assert (outcome.status, outcome.failed, outcome.tries) == (status, failed, tries)


def test_a_feature_that_is_not_offered_is_no_failure(mock: MockTransport) -> None:
    """A server without the completions endpoint is not judged on it."""

    def only_chat(sent: Sent, got: Got) -> Got:
        return replace(got, status=404) if sent.path == "/v1/completions" else got

    report = reported(Faulty(mock, Fault(raw=only_chat)), "--only", "length", "--only", "refuses.completions")
    skipped = [outcome for outcome in report.outcomes if outcome.law.side.name == "completions"]
    assert {outcome.status for outcome in skipped} == {"skip"}
    assert {"there is no POST /completions"} == {o.reason for o in skipped if o.law.group == "refuses"}


def test_the_frozen_list_names_every_law_once(capsys: pytest.CaptureFixture[str]) -> None:
    """One line a law, and a digest of all; nothing is sent."""
    assert main(["conform", "--frozen-list"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len({line.split("\t")[0] for line in lines}) == len(lines) > 1000
    assert last.startswith(f"{len(lines)} laws, digest ")


@pytest.mark.parametrize("words", [[], ["ftp://x"], [URL, "--key", "a", "--key-env", "B"], [URL, "--key-env",
    "NOT_SET_1"],
                                   [URL], [URL, "--ca", "no-such-file", "--model", "m"]])  # fmt: skip
def test_what_cannot_be_tried_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one sentence."""
    if "--ca" in words:
        words = [words[0].replace("http:", "https:"), *words[1:]]
    assert main(["conform", *words]) == 2
    assert capsys.readouterr().err.startswith("mindspec: ")


def test_a_server_that_lists_no_model_needs_one_named(mock: MockTransport) -> None:
    """The message says which option to give."""
    broken = Faulty(mock, Fault(raw=lambda sent, got: replace(got, body=b"[]") if sent.method == "GET" else got))
    with pytest.raises(CannotTest, match="name one with --model"):
        reported(broken)


class Carried:
    """Makes a transport that has an address, as a Wire has."""

    def __init__(self, transport: Transport) -> None:
        self._transport, self.address = transport, Address.of(URL)

    def __call__(self, given: argparse.Namespace, environment: object) -> Carried:
        """In place of what makes a Wire."""
        return self

    def exchange(self, sent: Sent) -> Exchange:
        """See ``Transport``."""
        return self._transport.exchange(sent)


def test_the_exit_code_and_the_file(mock: MockTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 where all laws are kept, 1 where one is broken; the report goes to --output."""
    words = ["conform", URL, "--only", "length.exact.chat", "--format", "json", "--output", str(tmp_path / "r.json")]
    for transport, code in ((mock, 0), (Faulty(mock, LONGER), 1)):
        monkeypatch.setattr(session, "_wire", Carried(transport))
        assert main(words) == code
        assert json.loads((tmp_path / "r.json").read_text())["counts"]["fail"] == code


def test_a_profile_is_held_to_its_own_rules(mock: MockTransport) -> None:
    """With --profile the rules of that deployment are tried, and the plain mock breaks them."""
    report = reported(mock, "--profile", "mtp", "--only", "rule-refuses.chat.mtp-excludes-n")
    assert [outcome.status for outcome in report.outcomes] == ["fail"]


def test_skip_and_findings_together_keep_the_findings(mock: MockTransport) -> None:
    """A law that has found something and then cannot go on is still broken."""

    def check(ask: Ask, side: Side) -> Iterator[Finding]:
        yield Finding("found")
        raise Skip("no more")

    outcome = judged(Law("x.y", "", "", check), [Ask(mock, Target("mock"), Budget(1, 1))])
    assert (outcome.status, [finding.message for finding in outcome.findings]) == ("fail", ["found"])
