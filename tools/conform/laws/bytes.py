"""Bodies as bytes: strict JSON in UTF-8, no key twice, no NaN, nothing too deep; and the media type beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from tools.conform.asking import Ask
from tools.conform.errors import faults_of_form
from tools.conform.law import Finding, Law, Tier, both
from tools.conform.sides import Side
from tools.conform.wire import Exchange, Sent

Made = Callable[[bytes], bytes]
"""From a good body to another one."""
DEPTH: Final = 100
"""Arrays and objects inside each other, unless the deployment says otherwise (maxJsonDepth)."""


def _more(member: str) -> Made:
    return lambda good: good[:-1] + b", " + member.encode("utf-8", "surrogatepass") + b"}"


def _text(new: bytes) -> Made:
    return lambda good: good.replace(b'"hello"', new)


def _lists(levels: int) -> str:
    return '"foo": ' + "[" * levels + "]" * levels


_REFUSED: Final[dict[str, tuple[str, tuple[tuple[str, Made], ...]]]] = {
    "syntax": ("A body is one JSON value and nothing else.", (
        ("empty", lambda good: b""), ("blank", lambda good: b" \r\n"), ("cut", lambda good: good[:-1]),
        ("twice", lambda good: good + good), ("a word behind it", lambda good: good + b" x"),
        ("a comma at the end", lambda good: good[:-1] + b",}"), ("a comment", lambda good: b"/* x */" + good),
        ("single quotes", lambda good: good.replace(b'"', b"'")), ("a form", lambda good: b"model=x&prompt=y"),
        ("a line end in a string", _text(b'"a\nb"')), ("a zero byte in a string", _text(b'"a\x00b"')),
        ("a bad escape", _text(rb'"\x41"')), ("Python's True", _more('"stream": True')),
        ("a leading zero", _more('"top_k": 01')), ("a bare point", _more('"temperature": .5')),
        ("a plus", _more('"top_k": +5')), ("a final point", _more('"temperature": 1.')),
    )),
    "object": ("A body is an object.", (
        ("an array", lambda good: b"[]"), ("the request in an array", lambda good: b"[" + good + b"]"),
        ("a string", lambda good: b'"hello"'), ("a number", lambda good: b"5"), ("null", lambda good: b"null"),
        ("true", lambda good: b"true"),
    )),
    "duplicates": ("No object has a key twice.", (
        ("a known key", _more('"top_p": 0.5, "top_p": 0.5')), ("max_tokens", _more('"max_tokens": 1')),
        ("an unknown key", _more('"foo": 1, "foo": 2')), ("inside an unknown member",
            _more('"foo": [{"a": 1, "a": 1}]')),
        ("by an escape", _more('"top_p": 0.5, "top\\u005fp": 0.5')),
        ("inside a known member", _more('"stream_options": {"a": 1, "a": 1}')),
    )),
    "nan": ("NaN and Infinity are no numbers, anywhere.", (
        ("temperature NaN", _more('"temperature": NaN')), ("temperature Infinity", _more('"temperature": Infinity')),
        ("temperature -Infinity", _more('"temperature": -Infinity')), ("in an unknown member", _more('"foo": NaN')),
        ("deep in an unknown member", _more('"foo": [1, {"a": -Infinity}]')), ("nan", _more('"foo": nan')),
    )),
    "utf8": ("A body is UTF-8.", (
        ("a stray byte", _text(b'"\xff"')), ("an overlong form", _text(b'"\xc0\xaf"')),
        ("a cut character", _text(b'"\xe4\xbd"')), ("beyond Unicode", _text(b'"\xf4\x90\x80\x80"')),
        ("in a key", lambda good: good[:-1] + b', "\xc3\x28": 1}'), ("in an unknown member",
         lambda good: good[:-1] + b', "foo": "\xfe"}'), ("UTF-16", lambda good: good.decode().encode("utf-16")),
        ("a byte order mark", lambda good: b"\xef\xbb\xbf" + good),
    )),
    "surrogates": ("Half a surrogate pair is no character.", (
        ("a high one", _text(rb'"\ud800"')), ("a low one", _text(rb'"\udc00 x"')), ("swapped",
            _text(rb'"\ude00\ud83d"')),
        ("as bytes", _text(b'"\xed\xa0\x80"')), ("in an unknown member", _more('"foo": "\\ud800"')),
        ("in a key", _more('"f\\ud800": 1')), ("in stop", _more('"stop": ["\\ud800"]')),
    )),
    "depth": ("Arrays and objects are nested no deeper than 100, unless the deployment says otherwise.", (
        ("101 levels", _more(_lists(DEPTH))), ("300 levels", _more(_lists(300))),
        ("101 levels of objects", _more('"foo": ' + '{"a":' * (DEPTH - 1) + "{}" + "}" * (DEPTH - 1))),
        ("100,000 brackets", lambda good: b"[" * 100_000), ("100,000 braces", lambda good: b'{"a":' * 100_000),
        ("100,000 levels in an unknown member", _more(_lists(100_000))),
    )),
    "huge-numbers": ("Numbers beyond all bounds are refused, not rounded.", (
        ("seed 1e400", _more('"seed": 1e400')), ("seed of 5,000 digits", _more('"seed": ' + "9" * 5000)),
        ("top_k of 5,000 digits", _more('"top_k": -' + "9" * 5000)), ("temperature 1e400",
            _more('"temperature": 1e400')),
        ("top_p 1e400", _more('"top_p": 1e400')), ("seed 2^64", _more('"seed": 18446744073709551616')),
        ("seed 1.5", _more('"seed": 1.5')),
    )),
}  # fmt: skip
_TAKEN: Final[tuple[tuple[str, Made], ...]] = (
    ("white space around it", lambda good: b" \r\n\t" + good + b"\n "), ("a surrogate pair", _text(rb'"\ud83d\ude00"')),
    ("a line end as an escape", _text(rb'"a\nb"')), ("100 levels", _more(_lists(DEPTH - 1))),
    ("brackets in a string", _text(b'"' + b"[" * 200 + b'"')), ("a tiny number", _more('"temperature": 1e-400')),
    ("one name in two objects", _more('"foo": [{"a": 1}, {"a": 1}]')), ("names that differ in case",
        _more('"Top_P": "x"')),
)  # fmt: skip
_CODES: Final = {"syntax": "json_invalid", "depth": None, "nan": None, "utf8": None, "surrogates": None}


def _good(ask: Ask, side: Side) -> bytes:
    return json.dumps({**side.body(ask.target.model, "hello"), "max_tokens": 1}).encode()


def post(ask: Ask, side: Side, body: bytes, headers: tuple[tuple[str, str], ...] | None = None) -> Exchange:
    """These bytes to an endpoint."""
    sent = Sent("POST", ask.target.base_path + side.path, body)
    return ask.send(Sent(sent.method, sent.path, body, headers) if headers is not None else sent, 8)


def _judge(name: str) -> Callable[[Ask, Side], Iterator[Finding]]:
    def check(ask: Ask, side: Side) -> Iterator[Finding]:
        good = _good(ask, side)
        for what, made in _REFUSED[name][1]:
            exchange = post(ask, side, made(good))
            if exchange.got.status != 422:
                got = exchange.got.status or exchange.got.fault
                yield Finding(f"{what}: answered {got}, not 422", (exchange,))

    return check


def _bodies(ask: Ask, side: Side) -> Iterator[Finding]:
    good = _good(ask, side)
    for name, (_, tries) in _REFUSED.items():
        for what, made in tries:
            exchange = post(ask, side, made(good))
            code = _CODES.get(name)
            wrong = faults_of_form(exchange, 422, code, ask.nested_errors) if exchange.got.status == 422 else None
            if wrong is not None:
                yield Finding(f"{what}: {wrong}", (exchange,))


def _taken(ask: Ask, side: Side) -> Iterator[Finding]:
    good = _good(ask, side)
    for what, made in _TAKEN:
        exchange = post(ask, side, made(good))
        if exchange.got.status != 200:
            got = exchange.got.status or exchange.got.fault
            yield Finding(f"{what}: answered {got}, not 200", (exchange,))


_MEDIA_OK: Final = (None, "application/json", "APPLICATION/JSON", "Application/Json; charset=utf-8",
                    "application/json;charset=UTF-8")  # fmt: skip
_MEDIA_BAD: Final = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
                     "application/xml", "application/jsonx", "application/js", "*/*")  # fmt: skip


def _media(ask: Ask, side: Side) -> Iterator[Finding]:
    good = _good(ask, side)
    for media in _MEDIA_OK:
        exchange = post(ask, side, good, () if media is None else (("Content-Type", media),))
        if exchange.got.status != 200:
            yield Finding(f"Content-Type {media}: answered {exchange.got.status}, not 200", (exchange,))
    for media in _MEDIA_BAD:
        exchange = post(ask, side, good, (("Content-Type", media),))
        if exchange.got.status != 415:
            yield Finding(f"Content-Type {media}: answered {exchange.got.status}, not 415", (exchange,))
    for coding in ("gzip", "deflate", "br"):
        exchange = post(ask, side, good, (("Content-Type", "application/json"), ("Content-Encoding", coding)))
        if exchange.got.status != 415:
            yield Finding(f"Content-Encoding {coding}: answered {exchange.got.status}, not 415", (exchange,))
    first = post(ask, side, b"bar", (("Content-Type", "text/plain"),))
    if first.got.status != 415:
        yield Finding(f"a wrong media type comes before wrong JSON: {first.got.status}, not 415", (first,))


def _media_body(ask: Ask, side: Side) -> Iterator[Finding]:
    exchange = post(ask, side, _good(ask, side), (("Content-Type", "text/plain"),))
    if exchange.got.status == 415 and (wrong := faults_of_form(exchange, 415, "media_type", ask.nested_errors)):
        yield Finding(wrong, (exchange,))


LAWS: Final[list[Law]] = [
    *(law for name, (sentence, _) in _REFUSED.items()
      for law in both(f"bytes.{name}", sentence, "errors, 422", _judge(name), (), Tier.WIRE)),
    *both("bytes.error-body", "What is refused as bytes is told in the documented form.", "errors", _bodies, (),
        Tier.WIRE),
    *both("bytes.taken", "Unusual but valid JSON is accepted.", "errors, 422", _taken, ("basic",), Tier.WIRE),
    *both("bytes.media-type",
        "Another Content-Type, or a Content-Encoding, is a 415; none, and any letter case, is fine.",
          "errors, 415", _media, ("basic",), Tier.WIRE),
    *both("bytes.media-type-body", "A 415 is told in the documented form.", "errors, 415", _media_body, (), Tier.WIRE),
]  # fmt: skip
