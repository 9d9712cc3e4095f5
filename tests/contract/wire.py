"""What the contract tests share: rows and expectations, the fixtures' types, and how an error answer is checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote

MODEL = "mindspec-mock"
"""The name under which the fixtures deploy the mock when a test names no other."""

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
JSON_TYPE = {"Content-Type": "application/json"}

# One sentence, a path and a code: anything longer echoes the request.
ERROR_BYTES = 2000

ERROR_TYPES = {
    401: "AuthenticationError",
    403: "AuthenticationError",
    404: "NotFoundError",
    405: "NotFoundError",
    413: "Input Validation Error",
    415: "Input Validation Error",
    422: "Input Validation Error",
    424: "Generation Error",
    429: "Service Unavailable",
    500: "Incomplete Generation",
    503: "Service Unavailable",
}

# Traces of the program that no client should ever see.
INTERNALS = ("Traceback", "site-packages", "pydantic", 'File "', ".py:", "object at 0x")

Text = str | tuple[str, ...] | None


class Answer(Protocol):
    """The part of httpx.Response that these tests read."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> bytes: ...
    @property
    def text(self) -> str: ...


class Client(Protocol):
    """The part of httpx.Client that these tests call."""

    def get(self, url: str, /) -> Answer: ...
    def post(self, url: str, /, *, content: bytes, headers: Mapping[str, str] | None = None) -> Answer: ...
    def request(self, method: str, url: str, /, *, content: bytes = b"") -> Answer: ...


class ClientFor(Protocol):
    """Fixture: a client of an in-process server on the mock engine.

    profile: feature names of the deployment, and "deepseek" for the model type; settings: snake_case configuration.
    """

    def __call__(
        self, profile: frozenset[str] = frozenset(), *, model_name: str = MODEL, **settings: Any
    ) -> Client: ...


class ServerUrl(Protocol):
    """Fixture: the base address (without /v1) of a real server on the mock engine."""

    def __call__(self, *, model_name: str = MODEL, **settings: Any) -> str: ...


@dataclass(frozen=True)
class Ok:
    """The request is served with 200; these unknown fields are named in X-Ignored-Parameters."""

    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refused:
    """The request is refused; a tuple lists what is allowed, None allows any, a * at the end stands for any ending."""

    status: int | tuple[int, ...]
    code: Text = None
    param: Text = None


@dataclass(frozen=True)
class Row:
    """One request and what the contract says about it."""

    id: str
    endpoint: str
    body: bytes
    expect: Ok | Refused
    profile: frozenset[str] = frozenset()
    settings: Mapping[str, Any] = field(default_factory=dict)


class Drop:
    """The value of a change that removes the field from the base request."""


DROP = Drop()


@dataclass(frozen=True)
class Raw:
    """A value written into the request as this JSON text, digit by digit."""

    text: str


def ok(*ignored: str) -> Ok:
    """Served; `ignored` are unknown fields by path."""
    return Ok(ignored)


def refused(status: int | tuple[int, ...], code: Text = None, param: Text = None) -> Refused:
    """Refused with this status, code and param (None: any)."""
    return Refused(status, code, param)


def bad(param: Text, code: Text = None) -> Refused:
    """Refused with 422, naming `param`."""
    return Refused(422, code, param)


def wrong_type(param: Text) -> Refused:
    """422, code wrong_type."""
    return Refused(422, "wrong_type", param)


def out_of_range(param: Text) -> Refused:
    """422, code out_of_range."""
    return Refused(422, "out_of_range", param)


def too_long(param: Text) -> Refused:
    """422, code too_long."""
    return Refused(422, "too_long", param)


def missing(param: Text) -> Refused:
    """422, code missing."""
    return Refused(422, "missing", param)


def dumps(value: Any) -> bytes:
    """JSON in UTF-8, key order kept, `Raw` values as their own text."""
    raws: list[str] = []

    def stand_in(item: Any) -> Any:
        if isinstance(item, Raw):
            raws.append(item.text)
            return f"@raw-{len(raws) - 1}@"
        raise TypeError(f"cannot write {item!r}")

    text = json.dumps(value, ensure_ascii=False, default=stand_in)
    for index, raw in enumerate(raws):
        text = text.replace(f'"@raw-{index}@"', raw, 1)
    return text.encode()


def changed(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The base request with the change's fields set or dropped."""
    return {key: value for key, value in {**base, **change}.items() if value is not DROP}


def said(content: Any, role: str = "user") -> list[dict[str, Any]]:
    """A conversation of one message."""
    return [{"role": role, "content": content}]


CHAT_BASE: dict[str, Any] = {"model": MODEL, "messages": said("Hi"), "max_tokens": 2}
COMPLETIONS_BASE: dict[str, Any] = {"model": MODEL, "prompt": "Hi", "max_tokens": 2}


def chat(
    name: str, change: Mapping[str, Any], expect: Ok | Refused, profile: Sequence[str] = (), **settings: Any
) -> Row:
    """A row of the chat endpoint."""
    body = dumps(changed(CHAT_BASE, change))
    return Row(f"chat/{name}", CHAT, body, expect, frozenset(profile), settings)


def completions(
    name: str, change: Mapping[str, Any], expect: Ok | Refused, profile: Sequence[str] = (), **settings: Any
) -> Row:
    """A row of the completions endpoint."""
    body = dumps(changed(COMPLETIONS_BASE, change))
    return Row(f"completions/{name}", COMPLETIONS, body, expect, frozenset(profile), settings)


def both(
    name: str, change: Mapping[str, Any], expect: Ok | Refused, profile: Sequence[str] = (), **settings: Any
) -> list[Row]:
    """The same change on both endpoints: for fields whose rules the documents state alike."""
    return [
        chat(name, change, expect, profile, **settings),
        completions(name, change, expect, profile, **settings),
    ]


def cut(body: bytes, length: int = 300) -> str:
    """A request or an answer, short enough for a failure message."""
    text = body.decode("utf-8", "replace")
    return text if len(text) <= length else f"{text[:length]}… ({len(body)} bytes)"


def told(answer: Answer) -> str:
    """An answer for a failure message."""
    return f"{answer.status_code} {cut(answer.content, 600)}"


def allowed(value: Any, expected: Text) -> bool:
    """Whether a code or a param is one of the expected."""
    if expected is None:
        return True
    options = (expected,) if isinstance(expected, str) else expected
    return any(value == option or (option.endswith("*") and str(value).startswith(option[:-1])) for option in options)


def field_name(param: str) -> str:
    """The last field of a path: `text` of `messages[0].content[1].text`, `stop` of `stop[0]`."""
    return param.rsplit(".", 1)[-1].split("[", 1)[0]


def check_error(answer: Answer, expect: Refused, where: str, *, openai_form: bool = False) -> dict[str, Any]:
    """Assert that an answer is this refusal, in the flat form or in OpenAI's; returns the inner object."""
    note = f"{where}\n  answer:   {told(answer)}\n  expected: {expect}"
    statuses = (expect.status,) if isinstance(expect.status, int) else expect.status
    assert answer.status_code in statuses, note
    assert answer.headers["content-type"].startswith("application/json"), note
    assert len(answer.content) < ERROR_BYTES, note
    body = json.loads(answer.content)
    kind = ERROR_TYPES[answer.status_code]
    if openai_form:
        assert list(body) == ["error"], note
        inner = body["error"]
        assert list(inner) == ["message", "type", "param", "code"], note
        assert inner["type"] == kind, note
        sentence = inner["message"]
    else:
        inner = body
        assert list(inner) == ["error", "error_type", "param", "code"], note
        assert inner["error_type"] == kind, note
        sentence = inner["error"]
    assert isinstance(sentence, str), note
    assert len(sentence.split()) >= 3, note
    assert not [trace for trace in INTERNALS if trace in sentence], note
    assert isinstance(inner["code"], str), note
    assert allowed(inner["code"], expect.code), note
    assert allowed(inner["param"], expect.param), note
    if inner["param"] is not None:
        assert field_name(inner["param"]) in sentence, note
    return dict(inner)


def ignored_parameters(answer: Answer) -> list[str]:
    """The unknown fields that an answer's header names, percent-decoded."""
    header = answer.headers.get("X-Ignored-Parameters", "")
    return [unquote(name.strip()) for name in header.split(",") if name.strip()]


def check_ok(answer: Answer, expect: Ok, where: str) -> None:
    """Assert that an answer is a 200 that names exactly the expected unknown fields."""
    note = f"{where}\n  answer:   {told(answer)}\n  expected: {expect}"
    assert answer.status_code == 200, note
    assert sorted(ignored_parameters(answer)) == sorted(expect.ignored), note
