"""Certificates, keys and revocation lists made on the spot: a CA, and what it signs."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as bytes in PEM, and as files once written."""

    certificate: x509.Certificate
    private_key: ec.EllipticCurvePrivateKey

    @property
    def cert_pem(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self, password: bytes | None = None) -> bytes:
        """The key, encrypted where there is a password."""
        encryption: KeySerializationEncryption = (
            NoEncryption() if password is None else BestAvailableEncryption(password)
        )
        return self.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    def write(self, folder: Path, name: str, password: bytes | None = None) -> tuple[Path, Path]:
        """The files NAME.pem and NAME.key.pem."""
        folder.mkdir(parents=True, exist_ok=True)
        cert, key = folder / f"{name}.pem", folder / f"{name}.key.pem"
        cert.write_bytes(self.cert_pem)
        key.write_bytes(self.key_pem(password))
        key.chmod(0o600)
        return cert, key


class Authority:
    """A CA that signs itself."""

    def __init__(self, name: str = "ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = _builder(self._name, self._name, self._key.public_key(), NOW - DAY, NOW + 365 * DAY)
        self.certificate = builder.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(self, name: str, *, since: datetime = NOW - DAY, until: datetime = NOW + 90 * DAY) -> Pair:
        """A certificate for a server on this machine, or for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName("localhost")]
        names += [x509.IPAddress(ipaddress.ip_address(f"127.0.0.{last}")) for last in (1, 5)]
        builder = _builder(_name(name), self._name, key.public_key(), since, until)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Pair(builder.sign(self._key, hashes.SHA256()), key)

    def crl(self, revoked: Iterable[Pair] = (), *, until: datetime = NOW + 7 * DAY) -> bytes:
        """A revocation list in PEM."""
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._name)
        builder = builder.last_update(min(NOW, until) - DAY).next_update(until)
        for pair in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(pair.certificate.serial_number)
            builder = builder.add_revoked_certificate(entry.revocation_date(NOW - DAY).build())
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, since: datetime, until: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(since).not_valid_after(until)
