"""API keys: who is let in, what a refusal costs and says, and keys that change while the server runs."""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_process import started

from handlers.access import AccessMiddleware
from handlers.api_keys import FORM, Access, KeyBook, KeysError, bearer
from handlers.service import Service

ALICE, BOB = "sk-alice-0123456789", "sk-bob-0123456789"
CHAT = "/v1/chat/completions"
HELLO = {"model": "mock", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2, "ignore_eos": True}
ServiceFor = Callable[..., Service]


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    """Two keys, with a comment and an empty line."""
    return written(tmp_path / "keys", f"# clients\nalice:{ALICE}\n\nbob:{BOB}\n")


def written(path: Path, text: str) -> Path:
    """A file that only its owner may read, in place of what was there."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    os.replace(new, path)
    return path


def with_key(key: str) -> dict[str, str]:
    """The header."""
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(("key", "name"), [(ALICE, "alice"), (BOB, "bob")])
async def test_a_key_lets_in_and_its_name_stands_in_the_log(
    service_for: ServiceFor, keys_file: Path, caplog: pytest.LogCaptureFixture, key: str, name: str
) -> None:
    """The name, and the key nowhere."""
    caplog.set_level(logging.DEBUG)
    async with started(service_for(access=Access(keys_file))) as client:
        answer = await client.post(CHAT, json=HELLO, headers=with_key(key))

    assert answer.status_code == 200
    (line,) = [each.__dict__["fields"] for each in caplog.records if each.name == "handlers.watch"]
    assert line["key"] == name
    assert key not in "".join(str(each.__dict__) for each in caplog.records)


@pytest.mark.parametrize(
    ("headers", "code", "challenge"),
    [
        ({}, "missing_api_key", 'Bearer realm="mindspec"'),
        ({"Authorization": "Basic abcdefgh"}, "missing_api_key", 'Bearer realm="mindspec"'),
        ({"Authorization": ALICE}, "missing_api_key", 'Bearer realm="mindspec"'),
        (with_key(ALICE[:-1]), "invalid_api_key", 'Bearer realm="mindspec", error="invalid_token"'),
        (with_key(f"alice:{ALICE}"), "invalid_api_key", 'Bearer realm="mindspec", error="invalid_token"'),
    ],
)
@pytest.mark.parametrize("form", ["vllm", "openai"])
async def test_a_missing_or_wrong_key_is_a_401(
    service_for: ServiceFor, keys_file: Path, headers: dict[str, str], code: str, challenge: str, form: str
) -> None:
    """With the contract's body in the form of the deployment, and a challenge."""
    async with started(service_for(access=Access(keys_file), open_ai_support=form)) as client:
        answer = await client.post(CHAT, json=HELLO, headers=headers)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == challenge
    body = answer.json()
    found = (body["error_type"], body["code"]) if form == "vllm" else (body["error"]["type"], body["error"]["code"])
    assert found == ("AuthenticationError", code)
    assert ALICE[:-1] not in answer.text


async def test_two_keys_in_one_request_are_none(service_for: ServiceFor, keys_file: Path) -> None:
    """Which of them counts would be a guess."""
    headers = [("Authorization", f"Bearer {key}") for key in (ALICE, "another-key")]
    async with started(service_for(access=Access(keys_file))) as client:
        assert (await client.get("/v1/models", headers=headers)).status_code == 401


async def test_without_keys_everybody_may_ask(service_for: ServiceFor) -> None:
    """As in MindIE."""
    async with started(service_for()) as client:
        assert (await client.get("/v1/models")).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/health", 200),
        ("/health/timed-5", 200),
        ("/v2/health/live", 200),
        ("/v2/health/ready", 200),
        ("/v2/models/mock/ready", 200),
        ("/metrics", 200),
        ("/v1/models", 401),
        ("/health/", 401),
        ("/healthy", 401),
        ("/metrics/../v1/models", 401),
        ("/v2/models/a/b/ready", 401),
        ("/there/is/nothing/here", 401),
    ],
)
async def test_probes_and_metrics_are_open(service_for: ServiceFor, keys_file: Path, path: str, status: int) -> None:
    """These paths and no others: not even which there are is told without a key."""
    async with started(service_for(access=Access(keys_file))) as client:
        url = httpx.URL("http://in-process").copy_with(raw_path=path.encode())
        assert (await client.get(url)).status_code == status


async def test_open_paths_are_the_operator_s_choice(service_for: ServiceFor, keys_file: Path) -> None:
    """Others open, the metrics closed."""
    async with started(service_for(access=Access(keys_file, None, ("/v1/models",)))) as client:
        found = {path: (await client.get(path)).status_code for path in ("/v1/models", "/metrics", "/health")}
        assert found == {"/v1/models": 200, "/metrics": 401, "/health": 401}
        assert (await client.get("/metrics", headers=with_key(BOB))).status_code == 200


async def test_a_refused_body_is_not_read(service_for: ServiceFor, keys_file: Path) -> None:
    """Whoever has no key makes no work."""

    async def application(*_: Any) -> None:
        raise AssertionError("the request was passed on")

    async def receive() -> Any:
        raise AssertionError("the body was read")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    middleware = AccessMiddleware(application, service=service_for(access=Access(keys_file)))
    await middleware({"type": "http", "method": "POST", "path": CHAT, "headers": []}, receive, send)
    assert sent[0]["status"] == 401


async def test_every_request_costs_the_same_comparisons(
    service_for: ServiceFor, keys_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first key, the last, a wrong one, none, and an open path: each compares all keys by their SHA-256."""
    compare, calls = hmac.compare_digest, []

    def spy(kept: bytes, given: bytes) -> bool:
        calls.append((len(kept), len(given)))
        return compare(kept, given)

    monkeypatch.setattr(hmac, "compare_digest", spy)
    async with started(service_for(access=Access(keys_file))) as client:
        for path, headers in [
            ("/v1/models", with_key(ALICE)),
            ("/v1/models", with_key(BOB)),
            ("/v1/models", with_key("wrong-and-much-longer-than-any-key-that-there-is")),
            ("/v1/models", {}),
            ("/health", {}),
        ]:
            calls.clear()
            await client.get(path, headers=headers)
            assert calls == [(32, 32), (32, 32)], headers


def test_a_key_is_kept_as_its_hash_only(keys_file: Path) -> None:
    """Nothing of the book holds the text."""
    book = KeyBook(Access(keys_file))
    assert book.names == ["alice", "bob"]
    assert all(key not in repr([vars(book), *book._keys]) for key in (ALICE, BOB))


def test_a_variable_may_hold_keys_too(keys_file: Path) -> None:
    """Beside those of the file, parted by commas or line ends; one owner may have several."""
    environment = {"KEYS": "carol:carol-0123456789,dave:dave-0123456789\nalice:alice-s-second-key"}
    book = KeyBook(Access(keys_file, "KEYS"), environment)
    assert book.names == ["alice", "bob", "carol", "dave"]
    assert book.owner_of(b"dave-0123456789") == "dave"
    assert book.owner_of(b"alice-s-second-key") == "alice"
    assert not KeyBook(Access(None, "KEYS"), {}).needed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no key; " + FORM),
        ("# nothing\n\n", "holds no key; " + FORM),
        ("alice\n", "is wrong in entry 1: " + FORM),
        (f"alice:{ALICE}\nb b:{BOB}\n", "is wrong in entry 2: " + FORM),
        ("alice:short\n", "is wrong in entry 1: " + FORM),
        ("alice:has a space in it\n", "is wrong in entry 1: " + FORM),
        ("alice:" + "x" * 513, "is wrong in entry 1: " + FORM),
        ("alice:\u043a\u043b\u044e\u0447-0123456789\n", "is wrong in entry 1: " + FORM),
    ],
)
def test_a_file_that_is_no_list_of_keys_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """Where and why, without what stands there."""
    path = written(tmp_path / "keys", text)
    with pytest.raises(KeysError) as caught:
        KeyBook(Access(path))
    assert str(caught.value) == f"the keys file {path} {reason}"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """In the system's words."""
    with pytest.raises(KeysError, match=r"the keys file .*none cannot be read: No such file or directory"):
        KeyBook(Access(tmp_path / "none"))


def test_an_empty_variable_is_refused() -> None:
    """It would open the server to everybody."""
    with pytest.raises(KeysError, match="KEYS holds no key; "):
        KeyBook(Access(None, "KEYS"), {"KEYS": ""})


def test_one_key_has_one_owner(tmp_path: Path) -> None:
    """Else the log would name the wrong one."""
    path = written(tmp_path / "keys", f"alice:{ALICE}\nbob:{ALICE}\n")
    with pytest.raises(KeysError, match="gives alice and bob the same key"):
        KeyBook(Access(path))


def test_a_file_that_everybody_may_read_is_warned_of(keys_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is used all the same."""
    KeyBook(Access(keys_file))
    assert caplog.messages == []
    keys_file.chmod(0o644)
    KeyBook(Access(keys_file))
    assert caplog.messages == [f"the keys file {keys_file} is open to every user of this machine; `chmod 600` it"]


async def test_keys_change_without_a_restart(
    service_for: ServiceFor, keys_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The new one is taken and the old one is not; a broken or missing file changes nothing and leaves a line."""
    service = service_for(access=Access(keys_file))

    async def status(key: str) -> int:
        return (await client.get("/v1/models", headers=with_key(key))).status_code

    async with started(service) as client:
        written(keys_file, "carol:carol-0123456789\n")
        await service.keys.look()
        assert [await status(ALICE), await status("carol-0123456789")] == [401, 200]
        assert caplog.messages[-1] == f"{keys_file}: the keys of carol are in force"

        for text in ("", "carol\n", None):
            caplog.clear()
            if text is None:
                os.unlink(keys_file)
            else:
                written(keys_file, text)
            await service.keys.look()
            assert [await status(ALICE), await status("carol-0123456789")] == [401, 200]
            (line,) = [each.message for each in caplog.records if each.levelno == logging.ERROR]
            assert line.startswith(f"the keys before it stay: the keys file {keys_file} ")


@given(st.binary(max_size=80))
def test_no_header_is_taken_for_a_key_by_chance(value: bytes) -> None:
    """What does not begin with the word and a space carries none; what does carries the rest."""
    found = bearer([(b"authorization", value)])
    stripped = value.strip()
    if stripped[:7].lower() == b"bearer ":
        assert found == stripped[7:].strip()
    else:
        assert found == b""
