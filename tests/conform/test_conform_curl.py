"""Curl commands send exactly the bytes of a request, whatever they are; a stand-in for curl shows what it was given."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.conform.curl import CurlWriter
from tools.conform.wire import JSON, Sent

FAKE = """#!{python}
import sys
words = sys.argv[1:]
data = words[words.index("--data-binary") + 1] if "--data-binary" in words else ""
body = sys.stdin.buffer.read() if data == "@-" else data.encode("utf-8", "surrogateescape")
headers = [words[place + 1] for place, word in enumerate(words) if word == "-H"]
sys.stdout.buffer.write("\\n".join(headers).encode() + b"\\0\\0" + body)
"""
WRITER = CurlWriter("http://127.0.0.1:1")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH whose curl writes the headers and the body that it was given."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "curl").write_text(FAKE.format(python=sys.executable))
    (folder / "curl").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def run(path: str, sent: Sent, writer: CurlWriter = WRITER, **more: str) -> tuple[list[str], bytes]:
    """Headers and body that the command gives to curl."""
    environment = {"PATH": path, **more}
    command = writer.command(sent).encode()
    done = subprocess.run(["/bin/sh"], input=command, capture_output=True, env=environment, check=True)
    headers, _, body = done.stdout.partition(b"\0\0")
    return headers.decode().split("\n"), body


BODIES = {
    "quotes": b'{"a": "it\'s \\"so\\" $HOME `x` \\\\ !"}', "unicode": '{"a": "你好 😀"}'.encode(),
        "bad utf-8": b'{"a": "\xff\xc0"}',
    "zero bytes": b"\0" * 16, "line end": b'{"a": 1}\n', "blank": b" \r\n\t ", "at sign": b"@file",
        "percent": b'{"%s": "%d\\n"}',
    "long run": b'{"a": "' + b"x" * 4_194_305 + b'"}',
        "long run of emoji": b'{"a": "' + "😀".encode() * 300_000 + b'"}',
    "long list": b"[" + b"[1]," * 50_000 + b"1]", "surrogate bytes": b'"\xed\xa0\x80"', "run of quotes": b"'" * 5000,
    "long text": b'{"a": "' + b" ".join(str(n).encode() for n in range(60_000)) + b'"}', "carriage return": b"a\rb\r",
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_the_body_arrives_as_it_is(name: str, path: str) -> None:
    """Quotes, bytes that are no text, megabytes of one character: the same bytes come out."""
    assert run(path, Sent("POST", "/v1/completions", BODIES[name]))[1] == BODIES[name]


@settings(max_examples=25, deadline=None)
@given(body=st.binary(min_size=1, max_size=200) | st.text(min_size=1).map(str.encode))
def test_any_body_arrives_as_it_is(body: bytes, path: str) -> None:
    """The same for whatever bytes Hypothesis thinks of."""
    assert run(path, Sent("POST", "/x", body))[1] == body


def test_the_key_is_never_written(path: str) -> None:
    """The command reads the key from a variable."""
    writer = CurlWriter("http://127.0.0.1:1", key_variable="MY_KEY")
    assert "Bearer secret" not in writer.command(Sent("GET", "/v1/models", headers=()))
    headers, _ = run(path, Sent("POST", "/x", b"{}"), writer, MY_KEY="secret")
    assert "Authorization: Bearer secret" in headers


def test_no_content_type_means_none(path: str) -> None:
    """Where a request has no Content-Type, curl is told to send none of its own."""
    assert run(path, Sent("POST", "/x", b"{}", ()))[0] == ["Content-Type:"]
    assert run(path, Sent("POST", "/x", b"{}"))[0] == [f"Content-Type: {JSON}"]


def test_a_command_names_method_path_and_authorities() -> None:
    """Everything that a reader needs stands in the command."""
    command = CurlWriter("https://host:1", ca="my ca.pem", timeout_s=7).command(
        Sent("DELETE", "/v1/completions", b"{}")
    )
    assert command == (
        "curl -sS -i -N --max-time 7 -X DELETE --cacert 'my ca.pem' https://host:1/v1/completions "
        "-H 'Content-Type: application/json' --data-binary '{}'"
    )


def test_a_command_is_one_line() -> None:
    """Commands hold no line end, so that a report has one a line."""
    for body in BODIES.values():
        assert "\n" not in WRITER.command(Sent("POST", "/x", body))
