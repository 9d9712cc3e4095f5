"""What an operator says about TLS: the files of each plane, and whether clients need certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal, get_args

from handlers.planes import PLANES, Address, Plane

ClientAuth = Literal["required", "optional", "none"]
CLIENT_AUTH: Final[tuple[ClientAuth, ...]] = get_args(ClientAuth)


class TlsError(Exception):
    """TLS cannot be served as it was asked for; the message is a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of one plane, all in PEM."""

    cert: Path
    """The server's certificate, and behind it those that lead to its CA."""
    key: Path
    """Its private key."""
    key_password_file: Path | None = None
    """A file whose text is the password of the key; None: the key has none."""
    ca_files: tuple[Path, ...] = ()
    """The CAs that client certificates are held to."""
    crl_files: tuple[Path, ...] = ()
    """Revocation lists; with any, every CA of a client's chain needs one that is in force."""
    client_auth: ClientAuth = "required"
    """Whether clients need a certificate; an "optional" one is held to the CAs where it is sent."""

    def all(self) -> tuple[Path, ...]:
        """Every file that is read."""
        mutual = () if self.client_auth == "none" else (*self.ca_files, *self.crl_files)
        password = () if self.key_password_file is None else (self.key_password_file,)
        return (self.cert, self.key, *password, *mutual)


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS of each plane; None: plain HTTP. Of planes on one address the first one's counts, as in MindIE."""

    business: TlsFiles | None = None
    management: TlsFiles | None = None
    metrics: TlsFiles | None = None

    def of(self, plane: Plane) -> TlsFiles | None:
        """Of one plane."""
        found: TlsFiles | None = getattr(self, plane)
        return found

    @property
    def any(self) -> bool:
        """Whether a plane is served with TLS."""
        return any(getattr(self, each.name) is not None for each in fields(self))


def served_with(tls: Tls, where: Mapping[Plane, Address]) -> dict[Plane, TlsFiles]:
    """The files that are in use: of the first plane of each address."""
    found: dict[Plane, TlsFiles] = {}
    seen: set[Address] = set()
    for plane in PLANES:
        files = tls.of(plane)
        if where[plane] not in seen and files is not None:
            found[plane] = files
        seen.add(where[plane])
    return found
