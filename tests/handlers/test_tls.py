"""TLS on real sockets: who may connect, what a refused client is told, and files that are renewed while it serves."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from pki import NOW, Authority
from tls_server import Running, client_context, client_of, files_for, server_name, tls_server

from handlers.api_keys import Access
from handlers.listeners import bind
from handlers.planes import Planes
from handlers.tls import Tls, TlsFiles

CHAT = "/v1/chat/completions"
HELLO = {"model": "mock", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "ignore_eos": True}


@pytest.fixture(autouse=True)
def warnings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever level other tests have left behind."""
    caplog.set_level(logging.WARNING)


@pytest.fixture
def ca() -> Authority:
    """The CA of the server and of its clients."""
    return Authority()


@pytest.fixture
def plain_tls(tmp_path: Path, ca: Authority) -> Iterator[Running]:
    """Without client certificates."""
    with tls_server(Tls(files_for(tmp_path, ca, client_auth="none"))) as running:
        yield running


@pytest.fixture
def files(tmp_path: Path, ca: Authority) -> TlsFiles:
    """Mutual TLS with a revocation list."""
    (tmp_path / "crl.pem").write_bytes(ca.crl())
    return files_for(tmp_path, ca, crl_files=(tmp_path / "crl.pem",))


def test_answers_streams_and_errors_come_through_tls(plain_tls: Running, tmp_path: Path, ca: Authority) -> None:
    """A whole answer, a stream to its end, a refusal, and no redirect for a slash too many."""
    with client_of(plain_tls, tmp_path, ca) as client:
        whole = client.post(CHAT, json=HELLO)
        stream = client.post(CHAT, json={**HELLO, "stream": True})
        refused = client.post(CHAT, json={**HELLO, "temperature": -1})
        slash = client.get("/v1/models/")

    assert whole.json()["usage"]["completion_tokens"] == 4
    assert stream.text.endswith("data: [DONE]\n\n")
    assert (refused.status_code, refused.json()["param"]) == (422, "temperature")
    assert (slash.status_code, slash.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/health", "/v2/health/live", "/v2/health/ready", "/metrics"])
def test_a_probe_through_tls_is_answered(plain_tls: Running, tmp_path: Path, ca: Authority, path: str) -> None:
    """As without TLS."""
    with client_of(plain_tls, tmp_path, ca) as client:
        assert client.get(path).status_code == 200


def test_plain_http_is_told_to_use_https(plain_tls: Running) -> None:
    """400 in the contract's form, instead of a connection that breaks."""
    answer = httpx.post(f"http://127.0.0.1:{plain_tls.port}{CHAT}", json=HELLO, trust_env=False)

    assert answer.status_code == 400
    assert answer.json() == {
        "error": "This port speaks HTTPS, and the request came as plain HTTP; use https://",
        "error_type": "Input Validation Error",
        "param": None,
        "code": "https_needed",
    }


@pytest.mark.parametrize(
    ("version", "ciphers", "accepted"),
    [
        (ssl.TLSVersion.TLSv1_3, "DEFAULT", True),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-GCM-SHA384", True),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA256", False),
        (ssl.TLSVersion.TLSv1_1, "DEFAULT:@SECLEVEL=0", False),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1")
def test_old_versions_and_weak_ciphers_are_refused(
    plain_tls: Running, tmp_path: Path, ca: Authority, version: ssl.TLSVersion, ciphers: str, accepted: bool
) -> None:
    """TLS 1.2 at least, authenticated encryption only."""
    context = client_context(tmp_path, ca)
    context.set_ciphers(ciphers)
    context.minimum_version = context.maximum_version = version
    if accepted:
        assert server_name(context, plain_tls.port) == "server"
    else:
        with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure|protocol.version"):
            server_name(context, plain_tls.port)


def test_mutual_tls_takes_a_certificate_of_its_ca_only(tmp_path: Path, ca: Authority, files: TlsFiles) -> None:
    """A client without one, with a foreign one and with a revoked one learns why it is refused."""
    right, revoked, foreign = ca.issue("right"), ca.issue("revoked"), Authority("other").issue("foreign")
    files.crl_files[0].write_bytes(ca.crl([revoked]))
    with tls_server(Tls(files)) as running:
        with client_of(running, tmp_path, ca, right) as client:
            assert client.get("/health").status_code == 200
        for pair, alert in ((None, "certificate required"), (foreign, "unknown ca"), (revoked, "certificate revoked")):
            with client_of(running, tmp_path, ca, pair) as client, pytest.raises(httpx.ReadError, match=alert):
                client.get("/health")


def test_an_optional_certificate_is_still_held_to_the_ca(tmp_path: Path, ca: Authority) -> None:
    """None is fine, as of a probe; a foreign one is not."""
    with tls_server(Tls(files_for(tmp_path, ca, client_auth="optional"))) as running:
        with client_of(running, tmp_path, ca) as client:
            assert client.get("/health").status_code == 200
        foreign = Authority("other").issue("foreign")
        with client_of(running, tmp_path, ca, foreign) as client, pytest.raises(httpx.ReadError, match="unknown ca"):
            client.get("/health")


def test_each_plane_has_its_own_certificate(tmp_path: Path) -> None:
    """Planes with addresses of their own; one may speak plain HTTP."""
    first, second = Authority("first"), Authority("second")
    business = files_for(tmp_path / "business", first, client_auth="none")
    management = files_for(tmp_path / "management", second, client_auth="none")
    with contextlib.closing(bind("127.0.0.5", 0)) as free:
        port = free.getsockname()[1]
    planes = Planes(management_host="127.0.0.5", management_port=0, metrics_port=port)
    with tls_server(Tls(business, management), planes=planes) as running:
        assert [url.partition(":")[0] for url in running.urls.values()] == ["https", "https", "http"]
        for plane, authority in (("business", first), ("management", second)):
            context = client_context(tmp_path, authority)
            url = running.urls["business" if plane == "business" else "management"]
            assert httpx.get(f"{url}/health", verify=context, trust_env=False).status_code == 200
        assert httpx.get(f"{running.urls['metrics']}/metrics", trust_env=False).status_code == 200


def test_a_renewed_certificate_is_used_by_the_next_connection(
    tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a restart; a connection that is open goes on."""
    files = files_for(tmp_path, ca, client_auth="none")
    context = client_context(tmp_path, ca)
    with tls_server(Tls(files)) as running, client_of(running, tmp_path, ca) as client:
        assert client.get("/health").status_code == 200
        assert server_name(context, running.port) == "server"

        ca.issue("renewed").write(tmp_path, "server")
        running.look()

        assert server_name(context, running.port) == "renewed"
        assert client.get("/health").status_code == 200
    assert f"new connections to the business plane use the renewed {files.cert}, {files.key}" in caplog.text


@pytest.mark.parametrize("broken", ["half", "mismatched", "gone", "expired"])
def test_a_broken_renewal_keeps_what_was_there(
    tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    """A line says why; once the files are whole they are used."""
    files = files_for(tmp_path, ca, client_auth="none")
    context = client_context(tmp_path, ca)
    renewed = ca.issue("renewed")
    with tls_server(Tls(files)) as running:
        if broken == "half":
            files.cert.write_bytes(renewed.cert_pem[:-100])
        elif broken == "mismatched":
            files.cert.write_bytes(renewed.cert_pem)
        elif broken == "gone":
            files.cert.unlink()
        else:
            ca.issue("expired", until=NOW).write(tmp_path, "server")
        running.look()

        assert server_name(context, running.port) == "server"
        lines = [each.message for each in caplog.records if each.name == "handlers.tls_watch"]
        (line,) = [line for line in lines if line.startswith("the TLS files")]
        what = "private key" if broken == "mismatched" else "certificate"
        assert line.startswith(f"the TLS files before it stay in use: the {what} ")

        renewed.write(tmp_path, "server")
        running.look()
        assert server_name(context, running.port) == "renewed"


def test_a_renewed_revocation_list_refuses_the_next_connection(tmp_path: Path, ca: Authority, files: TlsFiles) -> None:
    """Without a restart."""
    pair = ca.issue("client")
    with tls_server(Tls(files)) as running:
        with client_of(running, tmp_path, ca, pair) as client:
            assert client.get("/health").status_code == 200

        written = tmp_path / "crl.new"
        written.write_bytes(ca.crl([pair]))
        os.replace(written, files.crl_files[0])
        running.look()

        with (
            client_of(running, tmp_path, ca, pair) as client,
            pytest.raises(httpx.ReadError, match="certificate revoked"),
        ):
            client.get("/health")


def test_a_revoked_client_cannot_resume_its_session(tmp_path: Path, ca: Authority, files: TlsFiles) -> None:
    """Resumed sessions are not checked again, so those from before the new list are forgotten."""
    pair = ca.issue("client")
    context = client_context(tmp_path, ca, pair)
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def resumed(port: int, session: ssl.SSLSession | None) -> tuple[bool | None, ssl.SSLSession | None]:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secure,
        ):
            return secure.session_reused, secure.session

    with tls_server(Tls(files)) as running:
        session = resumed(running.port, None)[1]
        assert resumed(running.port, session)[0] is True

        files.crl_files[0].write_bytes(ca.crl([pair]))
        running.look()

        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.revoked"):
            resumed(running.port, session)


def test_a_renewed_ca_takes_new_clients_and_refuses_the_old(tmp_path: Path, ca: Authority) -> None:
    """The CA that is no longer in the file counts no longer."""
    files, other = files_for(tmp_path, ca), Authority("other")
    old, new = ca.issue("old"), other.issue("new")
    with tls_server(Tls(files)) as running:
        files.ca_files[0].write_bytes(other.pem)
        running.look()
        with client_of(running, tmp_path, ca, new) as client:
            assert client.get("/health").status_code == 200
        with client_of(running, tmp_path, ca, old) as client, pytest.raises(httpx.ReadError, match="unknown ca"):
            client.get("/health")


def test_a_refused_connection_leaves_a_line(
    tmp_path: Path, ca: Authority, files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """In OpenSSL's words."""
    caplog.set_level(logging.INFO, logger="handlers.tls_context")
    with (
        tls_server(Tls(files)) as running,
        client_of(running, tmp_path, ca) as client,
        pytest.raises(httpx.ReadError),
    ):
        client.get("/health")
    assert "a TLS connection was refused: peer did not return a certificate" in caplog.text


def test_the_metrics_say_when_a_certificate_ends(plain_tls: Running, tmp_path: Path, ca: Authority) -> None:
    """In seconds since 1970."""
    ends = plain_tls.service.tls.planes["business"].cert_until
    with client_of(plain_tls, tmp_path, ca) as client:
        lines = client.get("/metrics").text.splitlines()
    (line,) = [each for each in lines if each.startswith("mindspec_tls_certificate_end_seconds{")]
    assert line.startswith('mindspec_tls_certificate_end_seconds{plane="business"} ')
    assert float(line.partition(" ")[2]) == ends.timestamp()


def test_the_openai_client_works_with_a_key_and_a_certificate(tmp_path: Path, ca: Authority, files: TlsFiles) -> None:
    """Whole and streamed; a wrong key raises its own exception with our sentence."""
    keys = tmp_path / "keys"
    keys.write_text("alice:sk-0123456789abcdef\n")
    context = client_context(tmp_path, ca, ca.issue("client"))
    with (
        tls_server(Tls(files), access=Access(keys)) as running,
        httpx.Client(verify=context, trust_env=False) as http,
    ):
        url = f"{running.url}/v1"
        client = openai.OpenAI(base_url=url, api_key="sk-0123456789abcdef", http_client=http, max_retries=0)
        assert [model.id for model in client.models.list()] == ["mock"]
        events = client.chat.completions.create(
            model="mock", messages=[{"role": "user", "content": "Hi"}], max_tokens=3, stream=True
        )
        assert [event.choices[0].finish_reason for event in events][-1] is not None
        with pytest.raises(openai.AuthenticationError) as caught:
            client.with_options(api_key="sk-wrong").models.list()
    assert json.loads(caught.value.response.text)["code"] == "invalid_api_key"
