"""Hostile requests get a short, documented answer, soon, and leave the server as it was."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection

import httpx
import pytest
from hostile import ATTACKS, MIB4, Attack, members, text
from wire import (
    CHAT,
    COMPLETIONS,
    ERROR_BYTES,
    JSON_TYPE,
    MODEL,
    Client,
    ClientFor,
    Ok,
    ServerUrl,
    bad,
    check_error,
    check_ok,
    cut,
    ignored_parameters,
    refused,
    told,
)

# A second is the aim; this guard only catches answers that take for ever.
GUARD_S = 5.0
# The floods of a whole 40 MB limit are slow to send, too.
SLOW_GUARD_S = 20.0

NOT_FOUND = refused(404)


def check_alive(client: Client, where: str) -> None:
    """A good request right after the hostile one is served."""
    answer = client.post(CHAT, content=text(), headers=JSON_TYPE)
    assert answer.status_code == 200, f"after {where}: {told(answer)}"


def test_every_attack_has_a_name_of_its_own() -> None:
    """A repeated id would hide an attack from a failure report."""
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS) >= 140


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_attack(attack: Attack, client_for: ClientFor) -> None:
    """The documented status and code in less than 2 kB, and the server serves on."""
    client = client_for(**attack.settings)
    body = attack.body()
    where = f"{attack.id}\n  body:     {cut(body)}"
    start = time.monotonic()
    answer = client.post(attack.endpoint, content=body, headers=attack.headers)
    took_s = time.monotonic() - start
    assert len(answer.content) < ERROR_BYTES, where
    if attack.expect is None:
        assert answer.status_code in (200, 422), f"{where}\n  answer:   {told(answer)}"
        if answer.status_code != 200:
            check_error(answer, bad(None), where)
    elif isinstance(attack.expect, Ok):
        check_ok(answer, attack.expect, where)
    else:
        check_error(answer, attack.expect, where)
    check_alive(client, where)
    assert took_s < (SLOW_GUARD_S if len(body) > 20_000_000 else GUARD_S), f"{where}\n  took {took_s:.1f} s"


def names_header(client: Client, members: str) -> tuple[str, list[str]]:
    """The header of ignored parameters after a request with these further members, raw and decoded."""
    answer = client.post(CHAT, content=text(members), headers=JSON_TYPE)
    assert answer.status_code == 200, told(answer)
    return answer.headers["X-Ignored-Parameters"], ignored_parameters(answer)


def test_chinese_name_is_percent_encoded(client_for: ClientFor) -> None:
    """An unknown field in Chinese is named in percent-encoded UTF-8."""
    header, names = names_header(client_for(), '"温度": 1')
    assert header == "%E6%B8%A9%E5%BA%A6"
    assert names == ["温度"]


def test_line_breaks_in_a_name_make_no_header(client_for: ClientFor) -> None:
    """CR LF in an unknown field's name is percent-encoded and adds no header of its own."""
    client = client_for()
    answer = client.post(CHAT, content=text(r'"a\r\nX-Evil: 1": 1'), headers=JSON_TYPE)
    assert answer.status_code == 200, told(answer)
    assert "X-Evil" not in answer.headers
    assert answer.headers["X-Ignored-Parameters"] == "a%0D%0AX-Evil%3A%201"


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("a b", "a%20b"),
        ("a,b", "a%2Cb"),
        ("a%20b", "a%2520b"),
        ("A-z_0.9", "A-z_0.9"),
        ("\u007f", "%7F"),
        ("é", "%C3%A9"),
    ],
)
def test_characters_outside_the_plain_ones_are_encoded(name: str, encoded: str, client_for: ClientFor) -> None:
    """Letters, digits, _ . and - stay; everything else is percent-encoded."""
    header, _ = names_header(client_for(), f"{json.dumps(name)}: 1")
    assert header == encoded


def test_nested_name_is_a_path(client_for: ClientFor) -> None:
    """An unknown field in a message is named by its path."""
    client = client_for()
    body = text().replace(b'"role": "user"', b'"role": "user", "mood": 1')
    answer = client.post(CHAT, content=body, headers=JSON_TYPE)
    assert answer.headers["X-Ignored-Parameters"] == "messages%5B0%5D.mood"


def test_known_fields_are_not_named(client_for: ClientFor) -> None:
    """A request without unknown fields has no such header."""
    answer = client_for().post(CHAT, content=text('"temperature": 1'), headers=JSON_TYPE)
    assert "X-Ignored-Parameters" not in answer.headers


def test_twenty_names_are_listed(client_for: ClientFor) -> None:
    """Twenty short names fit."""
    _, names = names_header(client_for(), ", ".join(f'"u{index}": 1' for index in range(20)))
    assert sorted(names) == sorted(f"u{index}" for index in range(20))


def test_more_than_twenty_names_end_in_an_ellipsis(client_for: ClientFor) -> None:
    """Of 21 names twenty are listed, then an ellipsis."""
    _, names = names_header(client_for(), ", ".join(f'"u{index}": 1' for index in range(21)))
    assert len(names) == 21
    assert names[-1] in ("...", "…")


@pytest.mark.parametrize("count", [1, 15])
def test_long_names_keep_within_a_kibibyte(count: int, client_for: ClientFor) -> None:
    """Names of 900 encoded characters each, or one of 9,000: at most 1 KiB (and the ellipsis)."""
    length = 3000 if count == 1 else 100
    members = ", ".join(f'"{"温" * length}{index}": 1' for index in range(count))
    header, names = names_header(client_for(), members)
    assert len(header) <= 1024 + len(", %E2%80%A6")
    assert names[-1] in ("...", "…") or names[-1].endswith(("...", "…"))


@pytest.mark.parametrize(
    "extra",
    [members(100_000), '"' + "u" * MIB4 + '": 1', '"' + "温" * (MIB4 // 3) + '": 1'],
    ids=["many", "long", "chinese"],
)
def test_a_flood_of_unknown_names_is_served(extra: str, client_for: ClientFor) -> None:
    """4 MB of unknown names are let through, and the header stays within 1 KiB and ends in an ellipsis."""
    client = client_for()
    header, names = names_header(client, extra)
    assert len(header) <= 1024 + len(", %E2%80%A6")
    assert names[-1].endswith(("...", "…"))
    check_alive(client, "a flood of unknown names")


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/chat", "/v1/chat/completion", "/v1/completions/x", "/v9/models", "/%00"]
)
def test_unknown_path(path: str, client_for: ClientFor) -> None:
    """An unknown path is 404 in the error form."""
    client = client_for()
    check_error(client.post(path, content=text(), headers=JSON_TYPE), NOT_FOUND, path)
    check_error(client.get(path), NOT_FOUND, path)
    check_alive(client, path)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_wrong_method(method: str, path: str, client_for: ClientFor) -> None:
    """Another method than POST is 405 in the error form."""
    client = client_for()
    check_error(client.request(method, path), refused(405), f"{method} {path}")
    check_alive(client, f"{method} {path}")


def test_unknown_model_by_get(client_for: ClientFor) -> None:
    """GET of an unknown model is 404, of the deployed one 200."""
    client = client_for()
    check_error(client.get("/v1/models/someone-else"), NOT_FOUND, "GET of an unknown model")
    assert client.get(f"/v1/models/{MODEL}").status_code == 200


def test_long_values_are_cut_in_the_message(client_for: ClientFor) -> None:
    """A message shows at most 100 characters of what was given."""
    answer = client_for().post(CHAT, content=text('"temperature": "' + "x" * 5000 + '"'), headers=JSON_TYPE)
    error = check_error(answer, bad("temperature", "wrong_type"), "long value")
    assert "x" * 20 in error["error"]
    assert "x" * 101 not in error["error"]


def test_chunked_body_over_the_limit(server_url: ServerUrl) -> None:
    """A body without Content-Length is measured as it comes: 413 on a real connection."""

    def chunks() -> Iterator[bytes]:
        for _ in range(64):
            yield b" " * 65536

    url = server_url(max_request_length=1)
    with httpx.Client(trust_env=False, timeout=30) as client:
        answer = client.post(url + CHAT, content=chunks(), headers=JSON_TYPE)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
        assert client.post(url + CHAT, content=text(), headers=JSON_TYPE).status_code == 200


def test_a_client_that_writes_its_large_body_to_the_end_reads_413(server_url: ServerUrl) -> None:
    """http.client sends all 16 MiB before it reads; a connection closed meanwhile would hide the answer."""
    connection = HTTPConnection(server_url(max_request_length=1).removeprefix("http://"), timeout=30)
    try:
        connection.request("POST", CHAT, b" " * 2**24, dict(JSON_TYPE))
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (413, "body_too_large")
    finally:
        connection.close()
