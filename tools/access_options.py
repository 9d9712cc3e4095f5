"""The options of TLS and of API keys, and the settings that they become."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from handlers import exit_codes
from handlers.api_keys import OPEN_PATHS, Access
from handlers.planes import PLANES, Plane
from handlers.tls import CLIENT_AUTH, Tls, TlsFiles

KEYS_VARIABLE: Final = "MINDSPEC_API_KEYS"
"""Holds NAME:KEY, several parted by commas or line ends."""
_FILES: Final = {
    "cert": "certificate in PEM, and those that lead to its CA; with it the plane speaks TLS",
    "key": "its private key; the certificate's file if absent",
    "key-password": "file with the password of the key in plain text",
}
_LISTS: Final = {
    "ca": "CAs of client certificates; may be repeated",
    "crl": "revocation list, one for every CA; may be repeated",
}


def add_access(parser: argparse.ArgumentParser) -> None:
    """Who may ask, and TLS."""
    add = parser.add_argument
    add(
        "--api-keys",
        type=Path,
        metavar="FILE",
        help=f"lines of NAME:KEY; requests need one of them; also in the variable {KEYS_VARIABLE}",
    )
    add(
        "--open-paths",
        type=_paths,
        default=OPEN_PATHS,
        metavar="PATH,...",
        help="that need no key; * is one part between slashes; by default health and metrics",
    )
    for plane in PLANES:
        names = {name: option_of(plane, name) for name in (*_FILES, *_LISTS)}
        also = "" if plane == "business" else f" of the {plane} plane; the business plane's if absent"
        for name, text in _FILES.items():
            add(f"--{names[name]}", type=Path, metavar="FILE", help=text + also)
        for name, text in _LISTS.items():
            add(f"--{names[name]}", type=Path, metavar="FILE", action="append", help=text + also)
        add(
            f"--{option_of(plane, 'client-auth')}",
            choices=CLIENT_AUTH,
            default="required" if plane == "business" else None,
            help="whether clients need a certificate" + also,
        )


def option_of(plane: Plane, name: str) -> str:
    """The option of one of a plane's files, without its hyphens in front."""
    return f"tls-{name}" if plane == "business" else f"{plane}-tls-{name}"


def access_of(given: argparse.Namespace) -> Access:
    """Who may ask."""
    return Access(given.api_keys, KEYS_VARIABLE, tuple(given.open_paths))


def tls_of(given: argparse.Namespace) -> Tls:
    """TLS of each plane: what a plane has not got of its own is the business plane's.

    Raises:
        CannotStart: files without a certificate.
    """
    return Tls(**{plane: _files(given, plane) for plane in PLANES})


def _files(given: argparse.Namespace, plane: Plane) -> TlsFiles | None:
    def own(name: str, of: Plane = plane) -> Any:
        return getattr(given, option_of(of, name).replace("-", "_"))

    cert = own("cert") or own("cert", "business")
    if cert is None:
        for name in (*_FILES, *_LISTS):
            if own(name):
                from tools.serving import CannotStart

                needed = f"--{option_of(plane, name)} needs --{option_of(plane, 'cert')}, without which there is no TLS"
                raise CannotStart(exit_codes.USAGE, f"mindspec: {needed}")
        return None
    # A key belongs to its certificate, and a password to its key.
    pair: Plane = plane if own("cert") or own("key") else "business"
    return TlsFiles(
        cert,
        own("key", pair) or cert,
        own("key-password", pair),
        tuple(own("ca") or own("ca", "business") or ()),
        tuple(own("crl") or own("crl", "business") or ()),
        own("client-auth") or own("client-auth", "business"),
    )


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in text.split(",") if path.strip())
    wrong = [path for path in paths if not path.startswith("/")]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} does not begin with a slash")
    return paths
