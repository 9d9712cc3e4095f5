"""Reads the files of a plane's TLS, checks them, and makes the context that serves with them."""

from __future__ import annotations

import re
import shlex
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from handlers.planes import Plane
from handlers.tls import TlsError, TlsFiles
from handlers.tls_context import TellingObject, reason_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate, CertificateRevocationList

MOST_BYTES: Final = 16 * 1024 * 1024
"""Size of a file at most."""
CERT_WARNING: Final = timedelta(days=30)
"""A certificate that ends sooner is warned of."""
CRL_WARNING: Final = timedelta(days=1)
"""So is a revocation list."""
CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2; those of 1.3 are good as they are. All are authenticated and forward secret."""
_OTHERS: Final = 0o007
_CRL: Final = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)
_WHAT: Final = {
    "cert": ("certificate", "tls-cert", "TlsCert"),
    "key": ("private key", "tls-key", "TlsPk"),
    "password": ("key's password file", "tls-key-password", "TlsPkPwd"),
    "ca": ("CA file", "tls-ca", "TlsCaFile"),
    "crl": ("revocation list", "tls-crl", "TlsCrlFiles"),
}
"""What a file is: in words, on the command line, and in config.json."""


@dataclass(frozen=True)
class Loaded:
    """A plane's TLS, ready to serve."""

    context: ssl.SSLContext
    cert_until: datetime
    """When the server's certificate ends."""
    crls_until: datetime | None
    """When the first of the revocation lists ends, if any does; from then on no client's certificate is taken."""
    notes: tuple[str, ...]
    """What the operator ought to know, one sentence each."""


def load(files: TlsFiles, plane: Plane, now: datetime) -> Loaded:
    """The context of a plane.

    Args:
        files: what to read.
        plane: for messages.
        now: the time, with its zone; what is not valid then is refused.

    Raises:
        TlsError: a file is missing, is not what it should be, does not belong to the others, or is out of date.
    """
    return _Reader(files, plane, now).load()


def time_notes(loaded: Loaded, plane: Plane, now: datetime) -> Iterator[str]:
    """What is about to end, or has ended since it was loaded."""
    if loaded.cert_until - now < CERT_WARNING:
        ends = "ended" if loaded.cert_until < now else "ends"
        yield f"the certificate of the {plane} plane {ends} on {_day(loaded.cert_until)}"
    if loaded.crls_until is not None and loaded.crls_until - now < CRL_WARNING:
        ends = "ended" if loaded.crls_until < now else "ends"
        day = _day(loaded.crls_until)
        yield f"a revocation list of the {plane} plane {ends} on {day}; from then on no client's certificate is taken"


class _Reader:
    def __init__(self, files: TlsFiles, plane: Plane, now: datetime) -> None:
        self._files = files
        self._plane = plane
        self._now = now
        self._notes: list[str] = []

    def load(self) -> Loaded:
        files = self._files
        certificates = self._certificates("cert", files.cert)
        server = certificates[0]
        self._check_valid(server)
        password = self._password()
        key = self._key(password)
        if key.public_key() != server.public_key():
            raise self._wrong("key", files.key, f"it does not belong to the certificate {files.cert}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslobject_class = TellingObject
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(CIPHERS)
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            # A password in any case: without one OpenSSL would ask the terminal.
            context.load_cert_chain(files.cert, files.key, password or b"-")
        except (OSError, ValueError) as error:
            raise self._wrong("cert", files.cert, _why(error)) from None
        ends: datetime | None = None
        if files.client_auth != "none":
            ends = self._hold_clients(context)
        return Loaded(context, server.not_valid_after_utc, ends, tuple(self._notes))

    def _hold_clients(self, context: ssl.SSLContext) -> datetime | None:
        """Ask clients for certificates; returns when the first revocation list ends."""
        files = self._files
        if not files.ca_files:
            must = "client certificates are asked for, and there is no CA file to hold them to"
            hint = "or ask for none (--tls-client-auth none, in config.json tlsClientAuth)"
            raise TlsError(f"{must}; give one (--tls-ca, in config.json tlsCaFile), {hint}")
        context.verify_mode = ssl.CERT_REQUIRED if files.client_auth == "required" else ssl.CERT_OPTIONAL
        authorities: list[Certificate] = []
        for path in files.ca_files:
            authorities += self._certificates("ca", path)
            self._take(context, "ca", path)
        for authority in authorities:
            if authority.not_valid_after_utc < self._now:
                name, day = authority.subject.rfc4514_string(), _day(authority.not_valid_after_utc)
                self._notes.append(f"the CA {name} ended on {day}; its clients are refused")
        if not files.crl_files:
            return None
        # As MindIE does: the CAs of a chain may be revoked, too.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN
        lists: list[CertificateRevocationList] = []
        for path in files.crl_files:
            lists += self._lists(path, authorities)
            self._take(context, "crl", path)
        issuers = {each.issuer for each in lists}
        for authority in authorities:
            if authority.subject not in issuers:
                reason = f"there is no list of the CA {authority.subject.rfc4514_string()}; every CA needs one"
                raise self._wrong("crl", files.crl_files[0], reason)
        return min((each.next_update_utc for each in lists if each.next_update_utc is not None), default=None)

    def _take(self, context: ssl.SSLContext, role: str, path: Path) -> None:
        try:
            context.load_verify_locations(path)
        except (OSError, ValueError) as error:
            raise self._wrong(role, path, _why(error)) from None

    def _certificates(self, role: str, path: Path) -> list[Certificate]:
        from cryptography.x509 import load_pem_x509_certificates

        try:
            return load_pem_x509_certificates(self._read(role, path))
        except ValueError:
            raise self._wrong(role, path, "it holds no certificate in PEM") from None

    def _lists(self, path: Path, authorities: list[Certificate]) -> list[CertificateRevocationList]:
        from cryptography.x509 import load_pem_x509_crl

        try:
            lists = [load_pem_x509_crl(block) for block in _CRL.findall(self._read("crl", path))]
        except ValueError:
            lists = []
        if not lists:
            raise self._wrong("crl", path, "it holds no revocation list in PEM")
        for each in lists:
            if each.next_update_utc is not None and each.next_update_utc < self._now:
                reason = f"it ended on {_day(each.next_update_utc)}, and with it no client's certificate would be taken"
                raise self._wrong("crl", path, reason)
            owners = [authority for authority in authorities if authority.subject == each.issuer]
            if owners and not any(each.is_signature_valid(owner.public_key()) for owner in owners):  # type: ignore[arg-type]  # a CA's key signs
                reason = f"it is not signed by the CA {each.issuer.rfc4514_string()} whose name it bears"
                raise self._wrong("crl", path, reason)
        return lists

    def _password(self) -> bytes | None:
        """The text of the password file; None without one, or where it cannot be read."""
        path = self._files.key_password_file
        if path is None:
            return None
        try:
            return self._read("password", path).strip(b"\r\n")
        except TlsError:
            return None

    def _key(self, password: bytes | None) -> PrivateKeyTypes:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        path = self._files.key
        data = self._read("key", path)
        self._check_mode(path)
        try:
            return load_pem_private_key(data, None)
        except TypeError:  # it is encrypted
            pass
        except ValueError as error:
            raise self._wrong("key", path, "it holds no private key in PEM") from error
        try:
            if password:
                return load_pem_private_key(data, password)
        except (ValueError, TypeError):
            pass
        raise self._wrong("key", path, self._no_password())

    def _no_password(self) -> str:
        """Why an encrypted key cannot be used, and the command that takes the password away."""
        path, key = self._files.key_password_file, shlex.quote(str(self._files.key))
        if path is None:
            why = "it is encrypted, and no file with its password is given"
        elif not path.is_file():
            why = f"it is encrypted, and the file with its password, {path}, cannot be read"
        else:
            why = f"it is encrypted, and {path} does not hold its password in plain text (MindIE's tool encrypts it)"
        command = f"(umask 077; openssl pkey -in {key} -out {key}.new && mv {key}.new {key})"
        return f"{why}. This takes the password away, which it asks for: {command}"

    def _check_mode(self, path: Path) -> None:
        if path.stat().st_mode & _OTHERS:
            quoted = shlex.quote(str(path))
            self._notes.append(f"the private key {path} is open to every user of this machine; `chmod 600 {quoted}`")

    def _check_valid(self, server: Certificate) -> None:
        path = self._files.cert
        if server.not_valid_after_utc < self._now:
            raise self._wrong("cert", path, f"it ended on {_day(server.not_valid_after_utc)}; renew it")
        if server.not_valid_before_utc > self._now:
            reason = f"it begins on {_day(server.not_valid_before_utc)}; is the clock right?"
            raise self._wrong("cert", path, reason)

    def _read(self, role: str, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise self._wrong(role, path, f"it cannot be read: {error.strerror or error}") from None
        if len(data) > MOST_BYTES:
            raise self._wrong(role, path, f"it is larger than {MOST_BYTES} bytes, the most that is read")
        return data

    def _wrong(self, role: str, path: Path, reason: str) -> TlsError:
        what, option, key = _WHAT[role]
        if self._plane == "business":
            key = key[0].lower() + key[1:]
        else:
            option, key = f"{self._plane}-{option}", self._plane + key
        return TlsError(f"the {what} {path} of the {self._plane} plane (--{option}, in config.json {key}): {reason}")


def _day(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")


def _why(error: Exception) -> str:
    return reason_of(error) if isinstance(error, ssl.SSLError) else str(error)
