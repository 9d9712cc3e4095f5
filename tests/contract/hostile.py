"""Hostile requests, typed by hand: broken bytes, numbers, nesting, repeated keys, floods, media types, paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wire import CHAT, COMPLETIONS, JSON_TYPE, MODEL, Ok, Refused, bad, ok, refused


@dataclass(frozen=True)
class Attack:
    """One hostile request; `body` is made when it is sent, for the large ones."""

    id: str
    body: Callable[[], bytes]
    expect: Ok | Refused | None
    endpoint: str = CHAT
    headers: Mapping[str, str] = field(default_factory=lambda: JSON_TYPE)
    settings: Mapping[str, Any] = field(default_factory=dict)


def text(extra: str = "", content: str = '"Hi"') -> bytes:
    """A chat request as JSON text, with this content and these further members."""
    tail = f", {extra}" if extra else ""
    head = f'{{"model": "{MODEL}", "max_tokens": 2, "messages": [{{"role": "user", "content": {content}}}]{tail}}}'
    return head.encode("utf-8", "surrogatepass")


def prompt(extra: str = "", value: str = '"Hi"') -> bytes:
    """A completions request as JSON text, with this prompt and these further members."""
    tail = f", {extra}" if extra else ""
    return f'{{"model": "{MODEL}", "max_tokens": 2, "prompt": {value}{tail}}}'.encode()


def chat(name: str, extra: str, expect: Ok | Refused | None, **settings: Any) -> Attack:
    """A chat attack by further members."""
    return Attack(name, lambda: text(extra), expect, settings=settings)


def raw(name: str, body: bytes, expect: Ok | Refused | None) -> Attack:
    """A chat attack by these bytes."""
    return Attack(name, lambda: body, expect)


INVALID = bad(None, "json_invalid")
REFUSED = bad(None)
# Where the contract leaves open whether a valid but absurd number in a free field is served.
EITHER: None = None

BYTES: list[Attack] = [
    raw("utf8-bad-in-content", text(content='"A"').replace(b'"A"', b'"\xff"'), REFUSED),
    raw("utf8-bad-in-key", text('"KEY": 1').replace(b"KEY", b"\xc3\x28"), REFUSED),
    raw("utf8-overlong", text(content='"A"').replace(b'"A"', b'"\xc0\xaf"'), REFUSED),
    raw("utf8-cut-at-the-end", text()[:-1] + b"\xe4\xbd", REFUSED),
    raw("utf8-bad-in-unknown", text('"foo": "A"').replace(b'"A"', b'"\xfe"'), REFUSED),
    raw("utf8-above-unicode", text(content='"A"').replace(b'"A"', b'"\xf4\x90\x80\x80"'), REFUSED),
    raw("surrogate-raw", text(content='"\ud800"'), REFUSED),
    raw("surrogate-raw-pair", text(content='"\ud83d\ude00"'), REFUSED),
    raw("surrogate-escaped", text(content=r'"\ud800"'), REFUSED),
    raw("surrogate-escaped-low", text(content=r'"\udc00 x"'), REFUSED),
    raw("surrogates-escaped-swapped", text(content=r'"\ude00\ud83d"'), REFUSED),
    chat("surrogate-escaped-in-unknown", r'"foo": "\ud800"', REFUSED),
    chat("surrogate-escaped-in-key", r'"f\ud800": 1', REFUSED),
    chat("surrogate-escaped-in-kwargs", r'"chat_template_kwargs": {"a": "\udfff"}', REFUSED),
    chat("surrogate-escaped-in-stop", r'"stop": ["\ud800"]', REFUSED),
    raw("surrogate-pair-escaped-is-text", text(content=r'"\ud83d\ude00"'), ok()),
    raw("utf16-body", text().decode().encode("utf-16"), REFUSED),
    raw("bom", b"\xef\xbb\xbf" + text(), REFUSED),
    raw("body-empty", b"", INVALID),
    raw("body-blank", b" \r\n\t ", INVALID),
    raw("body-word", b"bar", INVALID),
    raw("body-zero-bytes", b"\x00" * 16, INVALID),
    raw("body-array", b"[]", REFUSED),
    raw("body-array-of-request", b"[" + text() + b"]", REFUSED),
    raw("body-string", b'"Hi"', REFUSED),
    raw("body-number", b"5", REFUSED),
    raw("body-null", b"null", REFUSED),
    raw("body-true", b"true", REFUSED),
    raw("body-empty-object", b"{}", bad("model", "missing")),
    raw("body-unfinished", text()[:-1], INVALID),
    raw("body-twice", text() + text(), INVALID),
    raw("body-trailing-word", text() + b" x", INVALID),
    raw("body-trailing-space", text() + b" \r\n", ok()),
    raw("body-trailing-comma", text()[:-1] + b",}", INVALID),
    raw("body-single-quotes", text().replace(b'"', b"'"), INVALID),
    raw("body-comment", b"/* hello */" + text(), INVALID),
    raw("body-raw-newline-in-string", text(content='"a\nb"'), INVALID),
    raw("body-raw-zero-in-string", text(content='"a\x00b"'), INVALID),
    raw("body-bad-escape", text(content=r'"\x41"'), INVALID),
    raw("body-python-words", text('"stream": True'), INVALID),
    raw("body-form", b"model=x&prompt=y", INVALID),
]

NUMBERS: list[Attack] = [
    chat("nan-temperature", '"temperature": NaN', REFUSED),
    chat("infinity-temperature", '"temperature": Infinity', REFUSED),
    chat("minus-infinity-temperature", '"temperature": -Infinity', REFUSED),
    chat("nan-in-unknown", '"foo": NaN', REFUSED),
    chat("infinity-in-unknown-list", '"foo": [1, {"a": Infinity}]', REFUSED),
    chat("nan-in-kwargs", '"chat_template_kwargs": {"a": NaN}', REFUSED),
    chat(
        "nan-in-parameters",
        '"tools": [{"type": "function", "function": {"name": "f", "parameters": {"minimum": NaN}}}]',
        REFUSED,
    ),
    chat(
        "minus-infinity-in-parameters",
        '"tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [-Infinity]}}}]',
        REFUSED,
    ),
    chat("number-lower-case-nan", '"foo": nan', INVALID),
    chat("number-hexadecimal", '"seed": 0x10', INVALID),
    chat("number-leading-zero", '"seed": 01', INVALID),
    chat("number-leading-plus", '"seed": +1', INVALID),
    chat("number-bare-point", '"temperature": .5', INVALID),
    chat("number-trailing-point", '"temperature": 1.', INVALID),
    chat("huge-exponent-temperature", '"temperature": 1e400', bad("temperature*")),
    chat("huge-exponent-top-p", '"top_p": 1e400', REFUSED),
    chat("huge-exponent-seed", '"seed": 1e400', REFUSED),
    chat("huge-exponent-n", '"n": 1e400', REFUSED),
    chat("tiny-exponent-temperature", '"temperature": 1e-400', ok()),
    chat("huge-exponent-in-unknown", '"foo": 1e400', EITHER),
    chat("huge-exponent-in-kwargs", '"chat_template_kwargs": {"a": -1e400}', EITHER),
    chat("digits-seed", '"seed": ' + "9" * 5000, REFUSED),
    chat("digits-n", '"n": ' + "9" * 5000, REFUSED),
    chat("digits-temperature", '"temperature": ' + "9" * 5000, REFUSED),
    chat("digits-fraction", '"temperature": 0.' + "3" * 5000, ok()),
    chat("digits-negative-top-k", '"top_k": -' + "9" * 5000, REFUSED),
    chat("digits-stop-token-id", '"stop_token_ids": [' + "9" * 5000 + "]", EITHER),
    chat("digits-in-unknown", '"foo": ' + "9" * 5000, EITHER),
    chat("digits-in-kwargs", '"chat_template_kwargs": {"a": ' + "9" * 5000 + "}", EITHER),
    chat("digits-exponent", '"seed": 1e' + "9" * 5000, REFUSED),
    Attack(
        "digits-prompt-id",
        lambda: prompt(value="[" + "9" * 5000 + "]"),
        refused((422, 424)),
        COMPLETIONS,
    ),
    Attack("digits-logprobs", lambda: prompt('"logprobs": ' + "9" * 5000), REFUSED, COMPLETIONS),
]


def nested(levels: int) -> str:
    """`levels` lists, one in the other."""
    return "[" * levels + "]" * levels


def boxed(levels: int) -> str:
    """`levels` objects, one in the other."""
    return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)


DEEP = bad(None, "too_deep")

# The request object is the first level.
DEPTH: list[Attack] = [
    chat("depth-100", '"foo": ' + nested(99), ok("foo")),
    chat("depth-101", '"foo": ' + nested(100), DEEP),
    chat("depth-100-objects", '"foo": ' + boxed(99), ok("foo")),
    chat("depth-101-objects", '"foo": ' + boxed(100), DEEP),
    chat("depth-100-in-kwargs", '"chat_template_kwargs": {"a": ' + nested(98) + "}", ok()),
    chat("depth-101-in-kwargs", '"chat_template_kwargs": {"a": ' + nested(99) + "}", DEEP),
    chat("depth-10-configured", '"foo": ' + nested(9), ok("foo"), max_json_depth=10),
    chat("depth-11-configured", '"foo": ' + nested(10), DEEP, max_json_depth=10),
    chat("depth-300", '"foo": ' + nested(299), DEEP),
    raw("brackets-balanced", nested(100_000).encode(), DEEP),
    raw("brackets-open", b"[" * 100_000, bad(None, ("too_deep", "json_invalid"))),
    raw("braces-open", b'{"a":' * 100_000, bad(None, ("too_deep", "json_invalid"))),
    chat("brackets-in-unknown", '"foo": ' + nested(100_000), DEEP),
    raw("brackets-in-content", text(content=nested(100_000)), DEEP),
    raw("brackets-in-a-string-are-text", text(content='"' + nested(200) + '"'), ok()),
]

DUPLICATES: list[Attack] = [
    chat("twice-model", f'"model": "{MODEL}"', REFUSED),
    chat("twice-other-model", '"model": "x"', REFUSED),
    chat("twice-max-tokens", '"max_tokens": 100', REFUSED),
    chat("twice-stream", '"stream": true, "stream": false', REFUSED),
    chat("twice-unknown", '"foo": 1, "foo": 2', REFUSED),
    chat("twice-in-unknown", '"foo": [{"a": 1, "a": 1}]', REFUSED),
    chat("twice-by-escape", f'"mod\\u0065l": "{MODEL}"', REFUSED),
    chat("twice-in-kwargs", '"chat_template_kwargs": {"a": 1, "a": 2}', REFUSED),
    chat(
        "twice-in-parameters",
        '"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "type": 1}}}]',
        REFUSED,
    ),
    raw("twice-role", text().replace(b'"role": "user"', b'"role": "system", "role": "user"'), REFUSED),
    raw("twice-in-part", text(content='[{"type": "text", "text": "a", "text": "b"}]'), REFUSED),
    chat("same-name-in-two-objects", '"foo": [{"a": 1}, {"a": 1}]', ok("foo")),
    chat("names-that-differ-in-case", '"foo": 1, "Foo": 2', ok("foo", "Foo")),
]

MIB4 = 4 * 1024 * 1024


def flood(name: str, make: Callable[[], bytes], expect: Ok | Refused | None, endpoint: str = CHAT) -> Attack:
    """About 4 MB of wrong values."""
    return Attack(f"flood-{name}", make, expect, endpoint)


def members(count: int) -> str:
    """So many unknown fields, about 40 bytes each."""
    return ", ".join(f'"unknown-field-number-{index:06}": {index}' for index in range(count))


def many(item: str) -> str:
    """A list of about 4 MB of this item."""
    return "[" + ",".join([item] * (MIB4 // (len(item) + 1))) + "]"


# More than maxJsonContainers arrays and objects are refused before they become objects.
CROWD = bad(None, "too_long")


def some(item: str) -> str:
    """A list of 150,000 of this item, below maxJsonContainers."""
    return "[" + ",".join([item] * 150_000) + "]"


FLOODS: list[Attack] = [
    flood("messages-numbers", lambda: _messages(many("1")), bad("messages[0]", "wrong_type")),
    flood("messages-empty-objects-crowd", lambda: _messages(many("{}")), CROWD),
    flood("messages-empty-objects", lambda: _messages(some("{}")), bad("messages[0].role", "missing")),
    flood("messages-nulls", lambda: _messages(many("null")), bad("messages[0]")),
    flood(
        "messages-empty-content",
        lambda: _messages(many('{"role": "user", "content": ""}')),
        bad("messages[0].content", "content-required"),
    ),
    flood("parts-numbers", lambda: text(content=many("1")), bad("messages[0].content[0]", "wrong_type")),
    flood("parts-empty-crowd", lambda: text(content=many("{}")), CROWD),
    flood("parts-empty", lambda: text(content=some("{}")), bad("messages[0].content[0]*", "part-has-its-own-payload")),
    flood("parts-many-types-crowd", lambda: text(content=many('{"type": 1}')), CROWD),
    flood("parts-many-types", lambda: text(content=some('{"type": 1}')), bad("messages[0].content[0].type")),
    flood("role-long", lambda: _messages(_role("r" * MIB4)), bad("messages[0].role", "too_long")),
    flood("model-long", lambda: _model("m" * MIB4), bad("model")),
    flood("temperature-string", lambda: text('"temperature": "' + "9" * MIB4 + '"'), bad("temperature", "wrong_type")),
    flood("temperature-list", lambda: text('"temperature": ' + many("1")), bad("temperature", "wrong_type")),
    flood("stop-numbers", lambda: text('"stop": ' + many("1")), bad("stop[0]", "wrong_type")),
    flood("stop-empty-strings", lambda: text('"stop": ' + many('""')), bad("stop[0]")),
    flood("stop-string", lambda: text('"stop": "' + "s" * MIB4 + '"'), bad("stop")),
    flood("stop-ids-nulls", lambda: text('"stop_token_ids": ' + many("null")), bad("stop_token_ids[0]")),
    flood("stop-ids-strings", lambda: text('"stop_token_ids": ' + many('"1"')), bad("stop_token_ids[0]", "wrong_type")),
    flood("stop-ids-outside-int32", lambda: text('"stop_token_ids": ' + many("2147483648")), ok()),
    flood("tools-numbers", lambda: text('"tools": ' + many("1")), bad("tools[0]", "wrong_type")),
    flood("tools-empty-crowd", lambda: text('"tools": ' + many("{}")), CROWD),
    flood("tools-empty", lambda: text('"tools": ' + some("{}")), bad("tools[0].type", "missing")),
    flood(
        "tools-one-name",
        lambda: text('"tools": ' + many('{"type": "function", "function": {"name": "f"}}')),
        bad("tools*", "tool-names-unique"),
    ),
    flood("tool-choice-string", lambda: text('"tool_choice": "' + "a" * MIB4 + '"'), bad("tool_choice*")),
    flood("kwargs-string", lambda: text('"chat_template_kwargs": "' + "a" * MIB4 + '"'), bad("chat_template_kwargs")),
    flood("prompt-strings", lambda: prompt(value=many('"a"')), bad("prompt*", "wrong_type"), COMPLETIONS),
    flood("prompt-nested-crowd", lambda: prompt(value=many("[1]")), CROWD, COMPLETIONS),
    flood("prompt-nested", lambda: prompt(value=some("[1]")), bad("prompt*", "wrong_type"), COMPLETIONS),
    flood("prompt-last-wrong", lambda: prompt(value=many("1")[:-1] + ',"x"]'), bad("prompt*"), COMPLETIONS),
    flood("prompt-missing", lambda: _no_prompt("p" * MIB4), bad("prompt", "missing"), COMPLETIONS),
]


def _messages(value: str) -> bytes:
    return f'{{"model": "{MODEL}", "messages": {value}}}'.encode()


def _role(role: str) -> str:
    return json.dumps([{"role": role, "content": "Hi"}])


def _model(name: str) -> bytes:
    return json.dumps({"model": name, "messages": [{"role": "user", "content": "Hi"}]}).encode()


def _no_prompt(filler: str) -> bytes:
    return json.dumps({"model": MODEL, "filler": filler}).encode()


MEDIA_TYPE = refused(415, "media_type")


def typed(name: str, expect: Ok | Refused, content_type: str | None, **more: str) -> Attack:
    """A good request under this Content-Type, None for none."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    headers.update({key.replace("_", "-"): value for key, value in more.items()})
    return Attack(f"type-{name}", text, expect, headers=headers)


TYPES: list[Attack] = [
    typed("none", ok(), None),
    typed("lower-case", ok(), "application/json"),
    typed("upper-case", ok(), "APPLICATION/JSON"),
    typed("mixed-case", ok(), "Application/Json"),
    typed("charset", ok(), "application/json; charset=utf-8"),
    typed("charset-upper-case", ok(), "Application/JSON;charset=UTF-8"),
    typed("plain-text", MEDIA_TYPE, "text/plain"),
    typed("form", MEDIA_TYPE, "application/x-www-form-urlencoded"),
    typed("multipart", MEDIA_TYPE, "multipart/form-data; boundary=x"),
    typed("xml", MEDIA_TYPE, "application/xml"),
    typed("longer-name", MEDIA_TYPE, "application/jsonx"),
    typed("shorter-name", MEDIA_TYPE, "application/js"),
    typed("any", MEDIA_TYPE, "*/*"),
    typed("gzip", MEDIA_TYPE, "application/json", Content_Encoding="gzip"),
    typed("deflate", MEDIA_TYPE, "application/json", Content_Encoding="deflate"),
    typed("brotli-no-type", MEDIA_TYPE, None, Content_Encoding="br"),
    Attack("type-before-json", lambda: b"bar", MEDIA_TYPE, headers={"Content-Type": "text/plain"}),
    Attack(
        "type-before-size",
        lambda: b"x" * (2 * 1024 * 1024),
        MEDIA_TYPE,
        headers={"Content-Type": "text/plain"},
        settings={"max_request_length": 1},
    ),
    Attack(
        "size-before-json",
        lambda: b"x" * (2 * 1024 * 1024),
        refused(413, "body_too_large"),
        settings={"max_request_length": 1},
    ),
    Attack(
        "size-of-a-good-request",
        lambda: text('"foo": "' + "x" * (2 * 1024 * 1024) + '"'),
        refused(413, "body_too_large"),
        settings={"max_request_length": 1},
    ),
    Attack(
        "size-below-the-limit",
        lambda: text('"foo": "' + "x" * 900_000 + '"'),
        ok("foo"),
        settings={"max_request_length": 1},
    ),
    Attack("size-above-the-default", lambda: text() + b" " * (45 * 1024 * 1024), refused(413, "body_too_large")),
]

ATTACKS: list[Attack] = [*BYTES, *NUMBERS, *DEPTH, *DUPLICATES, *FLOODS, *TYPES]
