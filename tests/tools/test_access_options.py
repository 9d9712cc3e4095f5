"""TLS and API keys as an operator starts them: the command line, the variable, exit codes, SIGHUP."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from mock_process import ROOT
from pki import Authority
from tls_server import client_context, server_name

from handlers.exit_codes import CONFIG, USAGE
from handlers.tls import TlsFiles
from tools import serving
from tools.access_options import KEYS_VARIABLE, add_access, tls_of
from tools.cli import _parser, _settings

KEY = "sk-0123456789"


@pytest.fixture
def ca() -> Authority:
    """Of server and clients."""
    return Authority()


def given(*options: str) -> argparse.Namespace:
    """The options of a command line."""
    parser = argparse.ArgumentParser()
    add_access(parser)
    return parser.parse_args(options)


def refusal(*options: str) -> tuple[int, str]:
    """The exit code and the sentence of `mindspec mock` with these options."""
    with pytest.raises(serving.CannotStart) as caught:
        serving.mocked(_parser().parse_args(["mock", "--port", "0", *options]), _settings)
    return caught.value.code, str(caught.value)


def test_a_server_with_tls_and_keys_follows_its_files(tmp_path: Path, ca: Authority) -> None:
    """Started from the command line: the ready line has https, a key of the variable lets in, SIGHUP renews."""
    cert, key = ca.issue("server").write(tmp_path, "server")
    (tmp_path / "ca.pem").write_bytes(ca.pem)
    options = ["--tls-cert", str(cert), "--tls-key", str(key), "--tls-ca", str(tmp_path / "ca.pem")]
    command = [sys.executable, "-m", "tools.cli", "mock", "--port", "0", *options]
    environment = {"PATH": "/usr/bin:/bin", KEYS_VARIABLE: f"alice:{KEY}"}
    context = client_context(tmp_path, ca, ca.issue("client"))
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"mindspec serves mock on https://127\.0\.0\.1:(\d+)\n", line)
        assert found, line
        port = int(found[1])
        assert process.stdout.readline() == "\n"
        pasted = process.stdout.readline()
        options = '--cacert CA.pem --cert CLIENT.pem --key CLIENT.key.pem -H "Authorization: Bearer $KEY"'
        assert pasted.startswith(f"  curl {options} https://127.0.0.1:{port}/v1/chat/completions ")
        url = f"https://127.0.0.1:{port}/v1/models"
        with httpx.Client(verify=context, trust_env=False) as client:
            assert client.get(url).status_code == 401
            assert client.get(url, headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
        assert server_name(context, port) == "server"

        ca.issue("renewed").write(tmp_path, "server")
        process.send_signal(signal.SIGHUP)
        until_s = time.monotonic() + 30
        while server_name(context, port) != "renewed":
            assert time.monotonic() < until_s
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("text", ["", "alice\n"])
def test_a_file_of_no_keys_ends_the_start_with_78(tmp_path: Path, text: str) -> None:
    """An open server would not be what was meant."""
    (tmp_path / "keys").write_text(text)
    code, sentence = refusal("--api-keys", str(tmp_path / "keys"))
    assert code == CONFIG
    assert sentence.startswith(f"mindspec: the keys file {tmp_path / 'keys'} ")


def test_an_empty_variable_ends_the_start_with_78(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is set, and lets nobody in."""
    monkeypatch.setenv(KEYS_VARIABLE, "")
    code, sentence = refusal()
    assert (code, sentence.partition(";")[0]) == (CONFIG, "mindspec: MINDSPEC_API_KEYS holds no key")


def test_an_encrypted_key_ends_the_start_with_78(tmp_path: Path, ca: Authority) -> None:
    """With the command that replaces it."""
    cert, key = ca.issue("server").write(tmp_path, "server", b"secret")
    code, sentence = refusal("--tls-cert", str(cert), "--tls-key", str(key), "--tls-client-auth", "none")
    assert code == CONFIG
    assert sentence.endswith(f"(umask 077; openssl pkey -in {key} -out {key}.new && mv {key}.new {key})")


@pytest.mark.parametrize("option", ["--tls-key", "--tls-ca", "--management-tls-crl"])
def test_files_without_a_certificate_are_a_wrong_command_line(option: str) -> None:
    """They would be taken and do nothing."""
    code, sentence = refusal(option, "file.pem")
    needed = "--management-tls-cert" if "management" in option else "--tls-cert"
    assert (code, sentence) == (USAGE, f"mindspec: {option} needs {needed}, without which there is no TLS")


@pytest.mark.parametrize(
    ("options", "files"),
    [
        (["--tls-cert=a"], lambda p: TlsFiles(p("a"), p("a"))),
        (
            ["--tls-cert=a", "--tls-key=b", "--tls-key-password=c", "--tls-ca=d", "--tls-ca=e", "--tls-crl=f"],
            lambda p: TlsFiles(p("a"), p("b"), p("c"), (p("d"), p("e")), (p("f"),)),
        ),
        (["--tls-cert=a", "--tls-client-auth=none"], lambda p: TlsFiles(p("a"), p("a"), client_auth="none")),
    ],
)
def test_the_options_of_the_business_plane(options: list[str], files: Callable[[type[Path]], TlsFiles]) -> None:
    """One option a file; the other planes have the same where they have none of their own."""
    tls = tls_of(given(*options))
    assert tls.business == tls.management == tls.metrics == files(Path)


def test_a_plane_s_own_certificate_brings_its_own_key() -> None:
    """And no password of another key; the CAs stay the business plane's."""
    tls = tls_of(given("--tls-cert=a", "--tls-key-password=b", "--tls-ca=c", "--metrics-tls-cert=m"))
    assert tls.metrics == TlsFiles(Path("m"), Path("m"), None, (Path("c"),))


def test_one_plane_alone_may_have_tls() -> None:
    """The others speak plain HTTP."""
    tls = tls_of(given("--management-tls-cert=m"))
    assert (tls.business, tls.metrics) == (None, None)
    assert tls.management == TlsFiles(Path("m"), Path("m"))


def test_an_open_path_begins_with_a_slash(capsys: pytest.CaptureFixture[str]) -> None:
    """As every path does."""
    assert given("--open-paths=/health, /metrics").open_paths == ("/health", "/metrics")
    with pytest.raises(SystemExit):
        given("--open-paths=health")
    assert "'health' does not begin with a slash" in capsys.readouterr().err
