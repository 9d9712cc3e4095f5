"""What a config.json says about TLS and API keys, as options of the command line; and whether it can be used."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from handlers.api_keys import KeyBook, KeysError
from handlers.config_file import ConfigFile, Fault
from handlers.planes import PLANES, Plane, Planes, addresses
from handlers.tls import TlsError, served_with
from handlers.tls_watch import TlsInUse
from tools.access_options import access_of, add_access, option_of, tls_of
from tools.server_options import add_life

HTTPS: Final = "ServerConfig.httpsEnabled"
_NAMES: Final = ("CaFile", "Cert", "Pk", "PkPwd", "CrlPath", "CrlFiles")
_PREFIXES: Final[Mapping[Plane, str]] = {"business": "tls", "management": "managementTls", "metrics": "metricsTls"}
TLS_KEYS: Final = frozenset(
    {"ServerConfig.tlsCaPath", *(f"ServerConfig.{prefix}{name}" for prefix in _PREFIXES.values() for name in _NAMES)}
)
ACCESS_KEYS: Final = frozenset({HTTPS, *TLS_KEYS, "ServerConfig.apiKeysFile", "ServerConfig.openPaths"})
"""The keys that are acted on here."""
_FOLDERS: Final[Mapping[Plane, str]] = {"business": "", "management": "management/", "metrics": "metrics/"}
_CRL_PATHS: Final[Mapping[Plane, str]] = {
    "business": "security/certs/",
    "management": "security/management/certs/",
    "metrics": "security/metrics/certs/",
}


def access_options(file: ConfigFile, folder: Path) -> dict[str, Any]:
    """The options of a file.

    Args:
        file: a file that has been checked.
        folder: where relative paths start.
    """
    options: dict[str, Any] = {}
    keys, paths = file.value("ServerConfig.apiKeysFile"), file.value("ServerConfig.openPaths")
    if keys:
        options["api_keys"] = folder / keys
    if paths is not None:
        options["open_paths"] = tuple(paths)
    if file.value(HTTPS) is not False:
        for plane in PLANES:
            for name, value in _tls(file, folder, plane):
                options[option_of(plane, name).replace("-", "_")] = value
    return options


def _tls(file: ConfigFile, folder: Path, plane: Plane) -> Iterator[tuple[str, Any]]:
    def value(name: str) -> Any:
        return file.value(f"ServerConfig.{_PREFIXES[plane]}{name}")

    business = plane == "business"
    if business or value("Cert") or value("Pk"):
        yield "cert", folder / (value("Cert") or f"security/certs/{_FOLDERS[plane]}server.pem")
        yield "key", folder / (value("Pk") or f"security/keys/{_FOLDERS[plane]}server.key.pem")
        if value("PkPwd"):
            yield "key-password", folder / value("PkPwd")
    ca_files = value("CaFile") or (["ca.pem"] if business else None)
    if ca_files:
        ca_folder = folder / (file.value("ServerConfig.tlsCaPath") or "security/ca/")
        yield "ca", [ca_folder / name for name in ca_files]
    if value("CrlFiles"):
        crl_folder = folder / (value("CrlPath") or _CRL_PATHS[plane])
        yield "crl", [crl_folder / name for name in value("CrlFiles")]


def access_faults(options: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[Fault]:
    """What a start would refuse of the files that keys of TLS and API keys name.

    Args:
        options: of a file.
        environment: the process's variables.
    """
    parser = argparse.ArgumentParser()
    add_life(parser)
    add_access(parser)
    parser.set_defaults(**{"host": "127.0.0.1", "port": 1025, **options})
    given = parser.parse_args([])
    planes = Planes(given.management_host, given.management_port, given.metrics_port, given.allow_all_zero_ip)
    try:
        TlsInUse.load(served_with(tls_of(given), addresses(given.host, given.port, planes)))
    except TlsError as error:
        yield Fault(HTTPS, f"TLS cannot be served: {error}")
    try:
        KeyBook(access_of(given), environment)
    except KeysError as error:
        yield Fault("ServerConfig.apiKeysFile", f"keys cannot be used: {error}")
