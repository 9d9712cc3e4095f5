"""Bounds and rules: what is inside is accepted, what is outside is refused, by status, in form, and by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from generated.fields import FIELDS
from tools.conform.asking import Ask
from tools.conform.cases import Cases, Try, limit_of_deployment
from tools.conform.errors import faults_of_form, read_error
from tools.conform.law import Finding, Law, Skip, Tier
from tools.conform.replies import event_data, shown
from tools.conform.sides import SIDES, Side
from tools.conform.wire import Exchange
from tools.contract.corpus import Case
from tools.contract.values import expand

Judge = Callable[[Ask, Try, Exchange], str | None]
"""What is wrong with an answer to a case; None where nothing is."""
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def accepted(ask: Ask, tried: Try, exchange: Exchange) -> str | None:
    """It must be answered, or refused for a limit of the deployment."""
    if exchange.got.status == 200 and not exchange.got.fault:
        return _failed_stream(exchange) if tried.long else None
    if limit_of_deployment(tried, exchange) is not None:
        return None
    return f"answered {exchange.got.status or exchange.got.fault}, not 200: {shown(exchange.got.body)}"


def _failed_stream(exchange: Exchange) -> str | None:
    data = event_data(exchange.got.body)
    return None if not data or not data[0].startswith(b'{"error"') else f"the stream begins with {shown(data[0])}"


def refused(ask: Ask, tried: Try, exchange: Exchange) -> str | None:
    """It must be a 422."""
    got = exchange.got
    return None if got.status == 422 else f"answered {got.status or got.fault}, not 422"


def told(ask: Ask, tried: Try, exchange: Exchange) -> str | None:
    """The error must have the documented form, type and code."""
    return faults_of_form(exchange, 422, tried.verdict.code, ask.nested_errors)


def named(ask: Ask, tried: Try, exchange: Exchange) -> str | None:
    """The error must name the member at fault."""
    error = read_error(exchange)
    if error is None:
        return f"nothing names {tried.verdict.param}"
    if error.param != tried.verdict.param:
        return f"param is {error.param!r}, not {tried.verdict.param!r}"
    name = (tried.verdict.param or "").rsplit(".", 1)[-1].split("[", 1)[0]
    return None if name in error.message else f"the message does not say {name!r}: {error.message[:150]!r}"


def bounded(ask: Ask, tried: Try, exchange: Exchange) -> str | None:
    """The message must say the bounds that are allowed."""
    if tried.verdict.code not in ("out_of_range", "too_long"):
        return None
    allowed = FIELDS[tried.side.model].get(re.sub(r"\[\d+\]", "[]", tried.verdict.param or ""), "")
    if "matches" in allowed or "one of" in allowed or "key" in allowed:
        return None
    error = read_error(exchange)
    said = set(_NUMBER.findall(error.message if error is not None else ""))
    lacking = [number for number in _NUMBER.findall(allowed) if number not in said]
    return f"the message does not say {', '.join(lacking)}" if lacking else None


def _is(group: str, subject: str, case: Case) -> bool:
    return case.group == group and case.subject == subject


class Corpus:
    """Makes the laws about one deployment's cases."""

    def __init__(self, cases: Cases) -> None:
        self._cases = cases

    def laws(self) -> list[Law]:
        """All of them."""
        return [law for side in SIDES for law in (*self._fields(side), *self._rules(side))]

    def _fields(self, side: Side) -> Iterator[Law]:
        for subject in self._cases.subjects(side, "inside"):
            yield self._law(
                side, "accepts", "inside", subject, accepted, f"{subject}: what is within its bounds is accepted."
            )
        for subject in self._cases.subjects(side, "outside"):
            outside = partial(self._law, side, group="outside", subject=subject)
            yield outside("refuses", judge=refused, sentence=f"{subject}: what is outside its bounds is a 422.")
            yield outside(
                "tells", judge=told, sentence=f"{subject}: the refusal has the documented form, type and code."
            )
            yield outside("names", judge=named, sentence=f"{subject}: the refusal names the member at fault.")
            yield outside("bounds", judge=bounded, sentence=f"{subject}: the refusal says what is allowed.")
            if subject == "stream":
                continue
            yield outside("stream-refuses", judge=refused,
                sentence=f"{subject}: a stream is refused like a whole answer.",
                          stream=True)  # fmt: skip

    def _rules(self, side: Side) -> Iterator[Law]:
        for rule in self._cases.subjects(side, "rule-bad"):
            bad = partial(self._law, side, group="rule-bad", subject=rule)
            yield bad("rule-refuses", judge=refused, sentence=f"A request that breaks {rule} is a 422.")
            yield bad(
                "rule-tells", judge=told, sentence=f"A request that breaks {rule} is told so, in the documented form."
            )
            yield bad("rule-names", judge=named, sentence=f"A request that breaks {rule} is told the member to blame.")
            yield bad(
                "rule-stream-refuses", judge=refused, sentence=f"A stream that breaks {rule} is a 422.", stream=True
            )
            yield Law(
                f"rule-mended.{side.name}.{rule}",
                f"The request that breaks {rule} is accepted once the breach is taken out.",
                f"rule {rule}",
                partial(self._mended, rule),
                ("basic",),
                Tier.BOUNDS,
                side,
            )

        for rule in self._cases.subjects(side, "rule-ok"):
            yield self._law(side, "rule-accepts", "rule-ok", rule, accepted, f"What just keeps {rule} is accepted.")

    def _law(
        self, side: Side, kind: str, group: str, subject: str, judge: Judge, sentence: str, stream: bool = False
    ) -> Law:
        what = "rule" if group.startswith("rule") else "member"
        needs = ("basic", "stream") if stream else ("basic",)
        check = partial(self._check, group, subject, judge, stream)
        return Law(f"{kind}.{side.name}.{subject}", sentence, f"{what} {subject}", check, needs, Tier.BOUNDS, side)

    def _check(self, group: str, subject: str, judge: Judge, stream: bool, ask: Ask, side: Side) -> Iterator[Finding]:
        due = group in ("inside", "rule-ok")
        tries = self._cases.of(side, partial(_is, group, subject), stream=stream)
        fit = [tried for tried in tries if tried.accepted == due]
        sent = 0
        for tried in fit:
            if tried.huge and ask.lacks(side, "refuses") is not None:
                continue
            exchange = tried.send(ask)
            sent += 1
            # Another judge says that it was not refused; what its body lacks is another matter.
            if judge in (told, named, bounded) and exchange.got.status != 422:
                continue
            if (wrong := judge(ask, tried, exchange)) is not None:
                yield Finding(f"{_said(tried)}: {wrong}", (exchange,))
        if not sent:
            raise Skip(
                "all its requests are huge, and this server would work on them" if fit else "not of this profile"
            )

    def _mended(self, rule: str, ask: Ask, side: Side) -> Iterator[Finding]:
        for tried in self._cases.of(side, partial(_is, "rule-bad", rule)):
            body = self._repaired(side, tried)
            if body is None:
                raise Skip("no single change takes the breach out")
            mended = Try(tried.case, side, self._cases.verdict(side, body))
            mended.__dict__["body"] = {"max_tokens": 1, **body} if "max_completion_tokens" not in body else body
            if mended.huge and ask.lacks(side, "refuses") is not None:
                raise Skip("its request is huge, and this server would work on it")
            exchange = mended.send(ask)
            if (wrong := accepted(ask, mended, exchange)) is not None:
                yield Finding(f"without the breach of {rule}: {wrong}", (exchange,))

    def _repaired(self, side: Side, tried: Try) -> dict[str, Any] | None:
        """The body, accepted after one change: a member removed, else put as in the smallest request."""
        body = expand(tried.case.body)
        plain = side.body("mock", "hello")
        removed = [made for made in _without_one(body) if not self._cases.verdict(side, made).code]
        replaced = ({**body, name: value} for name, value in plain.items())
        found = removed or [made for made in replaced if not self._cases.verdict(side, made).code]
        return max(found, key=lambda made: len(json.dumps(made)), default=None)


def _without_one(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name in value:
            yield {key: inner for key, inner in value.items() if key != name}
            yield from ({**value, name: inner} for inner in _without_one(value[name]))
    elif isinstance(value, list):
        for place in range(len(value)):
            yield [*value[:place], *value[place + 1 :]]
            yield from ([*value[:place], inner, *value[place + 1 :]] for inner in _without_one(value[place]))
    elif isinstance(value, str) and not value:
        yield "hello"


def _said(tried: Try) -> str:
    """The case in a few words: the value at its path, or the rule."""
    text = json.dumps(tried.case.body, ensure_ascii=False)
    for part in ('"model": "mock", ', '"messages": [{"role": "user", "content": "hello"}], ', '"prompt": "hello", '):
        text = text.replace(part, "")
    return f"{text[:120]}{'...' if len(text) > 120 else ''}{' streamed' if tried.stream else ''}"
