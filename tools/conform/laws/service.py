"""Paths, methods, models and ids: what is not there, and what comes back unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, unquote

from tools.conform.asking import Ask
from tools.conform.errors import faults_of_form, read_error
from tools.conform.law import Finding, Law, Skip, Tier, both
from tools.conform.replies import shown
from tools.conform.sides import CHAT, SIDES, Side
from tools.conform.wire import Exchange, Sent

_NO_HEADERS: Final[tuple[tuple[str, str], ...]] = ()


def _expect(ask: Ask, exchange: Exchange, status: int, code: str | None, what: str) -> Iterator[Finding]:
    if exchange.got.status != status:
        yield Finding(f"{what}: answered {exchange.got.status or exchange.got.fault}, not {status}", (exchange,))
    elif (wrong := faults_of_form(exchange, status, code, ask.nested_errors)) is not None:
        yield Finding(f"{what}: {wrong}", (exchange,))


def _basic(ask: Ask, side: Side) -> Iterator[Finding]:
    exchange = ask.post(side, {**side.body(ask.target.model, "hello"), "max_tokens": 1})
    if exchange.got.status != 200:
        said = exchange.got.status or exchange.got.fault
        yield Finding(f"the smallest request is answered {said}: {shown(exchange.got.body)}", (exchange,))


def _unknown_paths(ask: Ask, side: Side) -> Iterator[Finding]:
    base = ask.target.base_path
    for path in (f"{base}/nothing-here", f"{base}/chat", f"{base}/chat/completions/", f"{base}/completions/x"):
        yield from _expect(ask, ask.get(path), 404, None, f"GET {path}")
    sent = Sent("POST", f"{base}/nothing-here", b"{}")
    yield from _expect(ask, ask.send(sent, 0), 404, None, f"POST {sent.path}")


def _methods(ask: Ask, side: Side) -> Iterator[Finding]:
    base = ask.target.base_path
    tries = [(method, base + one.path, "POST") for one in SIDES for method in ("GET", "PUT", "DELETE")]
    for method, path, allowed in [*tries, ("POST", f"{base}/models", "GET")]:
        exchange = ask.send(Sent(method, path, b"{}" if method != "GET" else b""), 0)
        yield from _expect(ask, exchange, 405, None, f"{method} {path}")
        if exchange.got.status == 405 and allowed not in exchange.got.headers.get("allow", "").upper():
            yield Finding(f"{method} {path}: Allow is {exchange.got.headers.get('allow')!r}", (exchange,))


def _models(ask: Ask, side: Side) -> Iterator[Finding]:
    exchange = ask.get(f"{ask.target.base_path}/models")
    try:
        found = json.loads(exchange.got.body)
        names = [entry["id"] for entry in found["data"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        yield Finding("GET /models lists nothing that can be read", (exchange,))
        return
    if ask.target.model not in names or found.get("object") != "list":
        yield Finding(f"GET /models lists {names}", (exchange,))
    one = ask.get(f"{ask.target.base_path}/models/{quote(ask.target.model)}")
    if one.got.status != 200:
        yield Finding(f"GET of the deployed model: {one.got.status}", (one,))
    yield from _expect(ask, ask.get(f"{ask.target.base_path}/models/nobody"), 404, None, "GET of an unknown model")


def _unknown_model(ask: Ask, side: Side) -> Iterator[Finding]:
    name = ask.target.model
    for model in (f"{name}-2", f"{name} ", name.swapcase(), " "):
        exchange = ask.post(side, {**side.body(model, "hello"), "max_tokens": 1})
        if exchange.got.status != 422:
            yield Finding(f"model {model!r}: answered {exchange.got.status}, not 422", (exchange,))


def _unknown_model_named(ask: Ask, side: Side) -> Iterator[Finding]:
    exchange = ask.post(side, {**side.body("nobody", "hello"), "max_tokens": 1})
    if exchange.got.status != 422:
        raise Skip("an unknown model is no 422 (law service.unknown-model)")
    yield from _expect(ask, exchange, 422, "unknown_model", "an unknown model")
    error = read_error(exchange)
    if error is not None and error.param != "model":
        yield Finding(f"param is {error.param!r}, not 'model'", (exchange,))


def _ids(ask: Ask, side: Side) -> Iterator[Finding]:
    for req_id in ("a", "my request/7 ~", "x" * 256):
        for fields in ({}, {"stream": True}):
            reply = ask.reply(side, req_id=req_id, max_tokens=2, **fields)
            if reply.id != req_id:
                yield Finding(f"req-id {req_id[:30]!r} became the id {str(reply.id)[:60]!r}", (reply.exchange,))


def _unfit_ids(ask: Ask, side: Side) -> Iterator[Finding]:
    for req_id in ("x" * 257, ""):
        reply = ask.reply(side, req_id=req_id, max_tokens=1)
        if reply.id == req_id or not reply.id:
            yield Finding(f"the unfit req-id {req_id[:10]!r} became the id", (reply.exchange,))


def _own_ids(ask: Ask, side: Side) -> Iterator[Finding]:
    replies = [ask.reply(side, max_tokens=1, again=again) for again in range(3)]
    if len({reply.id for reply in replies}) < 3 or not all(isinstance(reply.id, str) for reply in replies):
        yield Finding("three answers share ids", tuple(reply.exchange for reply in replies))


def _echo(ask: Ask, side: Side) -> Iterator[Finding]:
    for fields in ({}, {"stream": True}):
        reply = ask.reply(side, max_tokens=2, **fields)
        if reply.model != ask.target.model:
            yield Finding(f"the answer's model is {reply.model!r}", (reply.exchange,))


def _created(ask: Ask, side: Side) -> Iterator[Finding]:
    reply = ask.reply(side, max_tokens=2)
    made = json.loads(reply.exchange.got.body).get("created")
    if type(made) is not int or not 10**9 < made < 10**11:
        yield Finding(f"created is {made!r}, no number of seconds since 1970", (reply.exchange,))


def _parts(ask: Ask, side: Side) -> Iterator[Finding]:
    """Text parts are joined for a text model."""
    parts = [{"type": "text", "text": "Hello, "}, {"text": "wor"}, {"type": "text", "text": "ld"}]
    one, other = (
        ask.reply(side, messages=[{"role": "user", "content": content}], temperature=0, max_tokens=8)
        for content in ("Hello, world", parts)
    )
    if (one.texts, one.prompt_tokens) != (other.texts, other.prompt_tokens):
        yield Finding("text in parts is not read as the joined text", (one.exchange, other.exchange))


_UNKNOWN: Final[dict[str, Any]] = {"foo": 1, "user": "u", "logit_bias": {"5": -1}, "min_p": 0.1, "Stream": "x"}


def _unknown(ask: Ask, side: Side) -> Iterator[Finding]:
    plain = ask.reply(side, temperature=0, max_tokens=8)
    for fields in (_UNKNOWN, {"deep": {"a": [1, {"b": None}]}}, {f"unknown-{place}": place for place in range(30)}):
        exchange = ask.post(side, ask.body(side, {"temperature": 0, "max_tokens": 8, **fields}))
        if exchange.got.status != 200:
            yield Finding(f"unknown members: answered {exchange.got.status}, not 200", (exchange,))
        elif json.loads(exchange.got.body).get("choices") != json.loads(plain.exchange.got.body).get("choices"):
            yield Finding("unknown members change the answer", (plain.exchange, exchange))


def _named_unknown(ask: Ask, side: Side) -> Iterator[Finding]:
    tries: list[tuple[dict[str, Any], list[str]]] = [({}, []), ({"foo": 1}, ["foo"]), (dict(_UNKNOWN), [*_UNKNOWN])]
    tries += [({"a b,é": 1}, ["a b,é"]), ({"stream": True, "foo": None}, ["foo"])]
    if side is CHAT:
        messages = [{"role": "user", "content": [{"text": "hello", "more": 1}], "mood": "good"}]
        tries.append(({"messages": messages}, ["messages[0].content[0].more", "messages[0].mood"]))
    for fields, names in tries:
        exchange = ask.post(side, {**ask.body(side, {}), "max_tokens": 1, **fields})
        header = exchange.got.headers.get("x-ignored-parameters")
        found = sorted(unquote(name.strip()) for name in (header or "").split(",") if name.strip())
        if found != sorted(names):
            yield Finding(f"X-Ignored-Parameters names {found}, not {sorted(names)}", (exchange,))
    crowd = ask.post(side, ask.body(side, {"max_tokens": 1, **{f"unknown-{place}": 1 for place in range(30)}}))
    parts = [part.strip() for part in crowd.got.headers.get("x-ignored-parameters", "").split(",")]
    if len(parts) != 21 or parts[-1] not in ("...", "\u2026", "%E2%80%A6"):
        yield Finding(f"of 30 unknown members 20 and an ellipsis are named, not {len(parts)} parts", (crowd,))


def _nulls(ask: Ask, side: Side) -> Iterator[Finding]:
    from generated.fields import FIELDS  # what a request may have is the contract's to say

    kept = {"model", "messages", "prompt", "max_tokens", "temperature"}
    names = [name for name in _members(FIELDS, side) if name not in kept]
    for fields in ({"temperature": 0}, {"temperature": 1.0, "seed": 8}):
        plain = ask.reply(side, max_tokens=12, **fields)
        nulls = ask.reply(side, max_tokens=12, **{**dict.fromkeys(names), **fields})
        if plain.texts != nulls.texts:
            yield Finding("null for every optional member changes the answer", (plain.exchange, nulls.exchange))


def _members(fields: Any, side: Side) -> list[str]:
    return [name for name in fields[side.model] if "." not in name and "[" not in name]


def _stream_errors(ask: Ask, side: Side) -> Iterator[Finding]:
    base = side.body(ask.target.model, "hello")
    tries: list[tuple[str, dict[str, Any]]] = [
        ("temperature -1", {**base, "temperature": -1}), ("n 0", {**base, "n": 0}),
        ("an unknown model", side.body("nobody", "hello")), ("stop of a number", {**base, "stop": 5}),
        ("n 2 at temperature 0", {**base, "n": 2, "temperature": 0}),
    ]  # fmt: skip
    for what, body in tries:
        exchange = ask.post(side, {**body, "stream": True, "max_tokens": 1})
        if exchange.got.status == 200 or exchange.got.kind != "application/json":
            got = f"{exchange.got.status} {exchange.got.kind}"
            yield Finding(f"{what} with stream: {got}, not an error in JSON", (exchange,))


LAWS: Final[list[Law]] = [
    *both("service.basic", "The smallest request is answered.", "model, messages, prompt", _basic, ("basic",),
        Tier.WIRE),
    Law("service.unknown-path", "A path that is not there is a 404 in the documented form.", "errors, 404",
        _unknown_paths, (), Tier.WIRE),
    Law("service.method", "A wrong method is a 405 in the documented form, with Allow.", "errors, 405", _methods, (),
        Tier.WIRE),
    Law("service.models", "GET /models lists the model; an unknown one is a 404.", "GET /v1/models", _models, (),
        Tier.WIRE),
    *both("service.unknown-model", "A model that is not deployed is a 422.", "model", _unknown_model, (), Tier.WIRE),
    *both("service.unknown-model-named", "An unknown model is told with its code and member.", "model, unknown_model",
          _unknown_model_named, (), Tier.WIRE),
    *both("service.stream-errors", "An error before the first token is JSON, also for a stream.", "errors",
          _stream_errors, ("stream",), Tier.WIRE),
    *both("service.req-id", "A usable req-id becomes the answer's id, whole and in every event.", "req-id", _ids,
          ("stream",), Tier.FORM),
    *both("service.unfit-req-id", "A req-id that cannot be used is replaced.", "req-id", _unfit_ids, ("basic",),
        Tier.FORM),
    *both("service.own-ids", "Every answer has an id of its own.", "id", _own_ids, ("basic",), Tier.FORM),
    *both("service.model-echo", "The answer names the model as the request did.", "model", _echo, ("stream",),
        Tier.FORM),
    *both("service.created", "created counts seconds since 1970.", "created", _created, ("basic",), Tier.FORM),
    Law("service.parts.chat", "Text parts are joined.", "content", _parts, ("greedy",), Tier.FORM),
    *both("service.unknown-members", "Unknown members are let through and change nothing.", "unknown fields", _unknown,
          ("greedy",), Tier.FORM),
    *both("service.unknown-named", "X-Ignored-Parameters names unknown members by path, 20 at most.",
          "X-Ignored-Parameters", _named_unknown, ("stream",), Tier.FORM),
    *both("service.nulls", "null counts as absent for every optional member.", "null means absent", _nulls,
        ("greedy",)),
]  # fmt: skip
