"""The files of TLS: what is refused and in which words, what is warned of, and how an encrypted key is replaced."""

from __future__ import annotations

import shlex
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pki import DAY, NOW, Authority
from tls_server import files_for

from handlers.planes import Plane, Planes, addresses
from handlers.tls import Tls, TlsError, TlsFiles, served_with
from handlers.tls_files import load, time_notes
from handlers.tls_watch import PlaneTls

Change = Callable[[TlsFiles, Authority], TlsFiles]


@pytest.fixture
def ca() -> Authority:
    """Of server and clients."""
    return Authority()


@pytest.fixture
def files(tmp_path: Path, ca: Authority) -> TlsFiles:
    """Mutual TLS with a revocation list."""
    (tmp_path / "crl.pem").write_bytes(ca.crl())
    return files_for(tmp_path, ca, crl_files=(tmp_path / "crl.pem",))


def refusal(files: TlsFiles, plane: Plane = "business") -> str:
    """What is said of files that cannot be used."""
    with pytest.raises(TlsError) as caught:
        load(files, plane, NOW)
    return str(caught.value)


def without(which: str) -> Change:
    """One file less."""

    def change(files: TlsFiles, _: Authority) -> TlsFiles:
        found = getattr(files, which)
        (found if isinstance(found, Path) else found[0]).unlink()
        return files

    return change


def rewritten(which: str, data: Callable[[Authority], bytes]) -> Change:
    """One file with other content."""

    def change(files: TlsFiles, ca: Authority) -> TlsFiles:
        found = getattr(files, which)
        (found if isinstance(found, Path) else found[0]).write_bytes(data(ca))
        return files

    return change


def day(days: int) -> str:
    """A day from now, as messages show it."""
    return (NOW + days * DAY).strftime("%Y-%m-%d %H:%M:%S UTC")


CERT = "the certificate {folder}/server.pem of the business plane (--tls-cert, in config.json tlsCert): "
KEY = "the private key {folder}/server.key.pem of the business plane (--tls-key, in config.json tlsPk): "
CA = "the CA file {folder}/ca.pem of the business plane (--tls-ca, in config.json tlsCaFile): "
CRL = "the revocation list {folder}/crl.pem of the business plane (--tls-crl, in config.json tlsCrlFiles): "
REFUSALS: list[tuple[Change, str]] = [
    (without("cert"), CERT + "it cannot be read: No such file or directory"),
    (without("key"), KEY + "it cannot be read: No such file or directory"),
    (without("ca_files"), CA + "it cannot be read: No such file or directory"),
    (without("crl_files"), CRL + "it cannot be read: No such file or directory"),
    (rewritten("cert", lambda _: b"nothing"), CERT + "it holds no certificate in PEM"),
    (rewritten("cert", lambda ca: ca.issue("x").cert_pem[:-60]), CERT + "it holds no certificate in PEM"),
    (rewritten("key", lambda _: b""), KEY + "it holds no private key in PEM"),
    (rewritten("ca_files", lambda _: b"\x00\x01"), CA + "it holds no certificate in PEM"),
    (rewritten("crl_files", lambda _: b"-----BEGIN X509 CRL-----"), CRL + "it holds no revocation list in PEM"),
    (rewritten("key", lambda ca: ca.issue("x").key_pem()), KEY + "it does not belong to the certificate "
     "{folder}/server.pem"),
    (rewritten("cert", lambda ca: ca.issue("x", until=NOW - timedelta(hours=1)).cert_pem), CERT + "it ended on "
     f"{(NOW - timedelta(hours=1)).strftime('%Y-%m-%d %H:%M:%S UTC')}; renew it"),
    (rewritten("cert", lambda ca: ca.issue("x", since=NOW + DAY).cert_pem), CERT + f"it begins on {day(1)}; is the "
     "clock right?"),
    (rewritten("crl_files", lambda ca: ca.crl(until=NOW - DAY)), CRL + f"it ended on {day(-1)}, and with it no "
     "client's certificate would be taken"),
    (rewritten("crl_files", lambda _: Authority("other").crl()), CRL + "there is no list of the CA CN=ca; every CA "
     "needs one"),
    (rewritten("crl_files", lambda _: Authority("ca").crl()), CRL + "it is not signed by the CA CN=ca whose name it "
     "bears"),
    (lambda files, _: replace(files, ca_files=()), "client certificates are asked for, and there is no CA file to hold "
     "them to; give one (--tls-ca, in config.json tlsCaFile), or ask for none (--tls-client-auth none, in config.json "
     "tlsClientAuth)"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), REFUSALS)
def test_files_that_cannot_be_used_are_refused_in_one_sentence(
    tmp_path: Path, ca: Authority, files: TlsFiles, change: Change, expected: str
) -> None:
    """Which file, of which setting, and why."""
    assert refusal(change(files, ca)) == expected.format(folder=tmp_path)


def test_a_message_names_the_setting_of_its_plane(tmp_path: Path, files: TlsFiles) -> None:
    """MindIE's keys for the management plane have another beginning."""
    files.cert.unlink()
    expected = f"the certificate {tmp_path}/server.pem of the management plane (--management-tls-cert, in config.json "
    assert refusal(files, "management").startswith(expected + "managementTlsCert): ")


def test_without_client_certificates_their_files_are_not_read(files: TlsFiles) -> None:
    """Nothing is held to them."""
    files.ca_files[0].unlink()
    files.crl_files[0].unlink()
    context = load(replace(files, client_auth="none"), "business", NOW).context
    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize("password", [b"secret", b"secret\n", "geheim-\u00fc\n".encode()])
def test_a_password_in_plain_text_opens_the_key(tmp_path: Path, ca: Authority, password: bytes) -> None:
    """With or without the end of its line."""
    files = files_for(tmp_path, ca)
    cert, key = ca.issue("server").write(tmp_path, "server", password.strip())
    (tmp_path / "password").write_bytes(password)
    load(replace(files, cert=cert, key=key, key_password_file=tmp_path / "password"), "business", NOW)


@pytest.mark.parametrize(
    ("password", "why"),
    [
        (None, "it is encrypted, and no file with its password is given"),
        ("gone", "it is encrypted, and the file with its password, {folder}/password, cannot be read"),
        (
            "AAIAAAABAAAA4Kc0Vx8mR0",
            "it is encrypted, and {folder}/password does not hold its password in plain text (MindIE's tool "
            "encrypts it)",
        ),
    ],
)
def test_an_encrypted_key_without_its_password_is_refused_with_the_command(
    tmp_path: Path, ca: Authority, password: str | None, why: str
) -> None:
    """The command works: with it the key is served, and nobody else may read it."""
    folder = tmp_path / "it's here"
    files = files_for(folder, ca, client_auth="none")
    cert, key = ca.issue("server").write(folder, "server", b"secret")
    files = replace(files, cert=cert, key=key, key_password_file=None if password is None else folder / "password")
    if password not in (None, "gone"):
        (folder / "password").write_text(str(password))

    told, _, command = refusal(files).partition(". This takes the password away, which it asks for: ")
    assert told == (KEY + why).format(folder=folder)
    quoted = shlex.quote(str(key))
    assert command == f"(umask 077; openssl pkey -in {quoted} -out {quoted}.new && mv {quoted}.new {quoted})"

    answered = command.replace("openssl pkey", "openssl pkey -passin pass:secret")
    subprocess.run(["sh", "-c", answered], check=True)
    assert load(files, "business", NOW).notes == ()


def test_a_key_that_others_may_read_is_noted(files: TlsFiles) -> None:
    """With what to do."""
    files.key.chmod(0o604)
    (note,) = load(files, "business", NOW).notes
    assert note == f"the private key {files.key} is open to every user of this machine; `chmod 600 {files.key}`"


@pytest.mark.parametrize(
    ("after", "notes"),
    [
        (timedelta(), []),
        (6 * DAY + timedelta(hours=1), [f"a revocation list of the business plane ends on {day(7)}; from then on no "
         "client's certificate is taken"]),
        (61 * DAY, [f"the certificate of the business plane ends on {day(90)}", "a revocation list of the business "
         f"plane ended on {day(7)}; from then on no client's certificate is taken"]),
        (91 * DAY, [f"the certificate of the business plane ended on {day(90)}", "a revocation list of the business "
         f"plane ended on {day(7)}; from then on no client's certificate is taken"]),
    ],
)  # fmt: skip
def test_what_ends_soon_is_told(files: TlsFiles, after: timedelta, notes: list[str]) -> None:
    """30 days before for a certificate, a day before for a revocation list."""
    assert list(time_notes(load(files, "business", NOW), "business", NOW + after)) == notes


async def test_a_running_server_reminds_once_a_day(
    tmp_path: Path, ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it looks."""
    now = NOW
    plane = PlaneTls("business", files_for(tmp_path, ca), lambda: now)
    said = []
    for hours in (0, 61 * 24, 61 * 24 + 1, 62 * 24, 62 * 24 + 1):
        caplog.clear()
        now = NOW + timedelta(hours=hours)
        await plane.look(always=False)
        said.append(len(caplog.messages))
    assert said == [0, 1, 0, 1, 0]


def test_of_planes_on_one_address_the_first_one_s_files_count(files: TlsFiles) -> None:
    """As in MindIE; the others are not read."""
    gone = replace(files, cert=Path("gone"))
    tls = Tls(files, gone, gone)
    assert served_with(tls, addresses("127.0.0.1", 1025, Planes())) == {"business": files}
    apart = addresses("127.0.0.1", 1025, Planes(metrics_port=1027))
    assert served_with(tls, apart) == {"business": files, "metrics": gone}
