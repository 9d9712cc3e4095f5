"""The keys of TLS and of API keys: each changes what a client meets, and wrong files are faults of the check."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from config_samples import GONE, MOCK, changed, written
from config_server import make, served
from pki import Authority

from generated.config_keys import KEYS
from handlers.exit_codes import CONFIG
from handlers.planes import Plane
from handlers.service import Service
from handlers.tls_context import reason_of
from tools.cli import main
from tools.config.access import ACCESS_KEYS
from tools.serving import CannotStart

SERVER = "ServerConfig"
HTTPS = {f"{SERVER}.httpsEnabled": True}
APART = {f"{SERVER}.managementIpAddress": "127.0.0.2", f"{SERVER}.metricsPort": 1027}
CA, OTHER = Authority("ca"), Authority("other")
CLIENTS = {"none": None, "right": CA.issue("right"), "foreign": OTHER.issue("foreign"), "revoked": CA.issue("revoked")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of MindIE's default paths, and others; each server's name is its place."""
    made = tmp_path_factory.mktemp("deployment")
    for name in ("", "management/", "metrics/", "own/"):
        pair = CA.issue(name.strip("/") or "business")
        for part, data in ((f"certs/{name}server.pem", pair.cert_pem), (f"keys/{name}server.key.pem", pair.key_pem())):
            saved(made / "security" / part, data)
        saved(made / "security" / "encrypted" / f"{name}server.key.pem", pair.key_pem(b"secret"))
    saved(made / "security/pass/key_pwd.txt", b"secret\n")
    for ca_folder in ("security/ca", "cas"):
        saved(made / ca_folder / "ca.pem", (CA if ca_folder == "security/ca" else OTHER).pem)
        saved(made / ca_folder / "other.pem", OTHER.pem)
    for crl_folder in ("security/certs", "security/management/certs", "security/metrics/certs", "lists"):
        saved(made / crl_folder / "crl.pem", CA.crl([CLIENTS["revoked"]] if crl_folder != "lists" else []))  # type: ignore[list-item]  # it is a pair
        saved(made / crl_folder / "empty.pem", CA.crl())
    saved(made / "keys.txt", b"alice:alice-0123456789\n")
    return made


def saved(path: Path, data: bytes) -> None:
    """A file of the owner's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)


def meets(service: Service, plane: Plane, client: str, folder: Path) -> str:
    """What a client meets on a plane: the server's name, or why it is refused."""
    if plane not in service.tls.planes:
        return "plain HTTP"
    asking = ssl.create_default_context(cadata=CA.pem.decode())
    pair = CLIENTS[client]
    if pair is not None:
        asking.load_cert_chain(*pair.write(folder / "clients", client))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = asking.wrap_bio(to_client, to_server, server_hostname="localhost")
    far = service.tls.planes[plane].context.current.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (near, far):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                return reason_of(error)
    shown: Any = near.getpeercert()
    return str(dict(part[0] for part in shown["subject"])["commonName"])


@dataclass(frozen=True)
class Row:
    """A change, and what a client meets before and after it."""

    key: str
    changes: dict[str, Any]
    before: str
    after: str
    plane: Plane = "business"
    client: str = "right"
    also: dict[str, Any] = field(default_factory=dict)
    """Changes that hold before, too."""

    def __str__(self) -> str:
        return f"{self.key}={next(iter(self.changes.values()))}"[:80]


NO_CERT = "peer did not return a certificate"
UNKNOWN = "the client's certificate: unable to get local issuer certificate"
FOREIGN_CHAIN = "the client's certificate: self-signed certificate in certificate chain"
REVOKED = "the client's certificate: certificate revoked"
OWN = {"Cert": "security/certs/own/server.pem", "Pk": "security/keys/own/server.key.pem"}


def tls(prefix: str, **values: Any) -> dict[str, Any]:
    """Keys of one plane."""
    return {f"{SERVER}.{prefix}{name}": value for name, value in values.items()}


def rows_of(plane: Plane, prefix: str, folder: str, also: dict[str, Any]) -> list[Row]:
    """The keys that every plane has."""
    lists = tls(prefix, CrlFiles=["crl.pem"])
    encrypted = tls(prefix, Pk=f"security/encrypted/{folder}server.key.pem")
    return [
        Row(f"{prefix}Cert", tls(prefix, **OWN), "business", "own", plane, also=also),
        Row(
            f"{prefix}Pk",
            encrypted,
            plane,
            "78",
            plane,
            also={**also, **tls(prefix, Cert=f"security/certs/{folder}server.pem")},
        ),
        Row(
            f"{prefix}PkPwd",
            tls(prefix, PkPwd="security/pass/key_pwd.txt"),
            "78",
            plane,
            plane,
            also={**also, **encrypted},
        ),
        Row(
            f"{prefix}CaFile",
            tls(prefix, CaFile=["ca.pem", "other.pem"]),
            UNKNOWN,
            "business",
            plane,
            "foreign",
            also=also,
        ),
        Row(f"{prefix}CrlFiles", lists, "business", REVOKED, plane, "revoked", also=also),
        Row(
            f"{prefix}CrlPath",
            tls(prefix, CrlPath="lists"),
            REVOKED,
            "business",
            plane,
            "revoked",
            also={**also, **lists},
        ),
    ]


ROWS = [
    Row("httpsEnabled", HTTPS, "plain HTTP", "business"),
    Row("httpsEnabled", {f"{SERVER}.httpsEnabled": GONE}, "plain HTTP", "business"),
    Row("tlsCaPath", {f"{SERVER}.tlsCaPath": "cas"}, "business", FOREIGN_CHAIN, also=HTTPS),
    *rows_of("business", "tls", "", HTTPS),
    *rows_of("management", "managementTls", "management/", {**HTTPS, **APART}),
    *rows_of("metrics", "metricsTls", "metrics/", {**HTTPS, **APART}),
    *(Row("tlsClientAuth", {f"{SERVER}.tlsClientAuth": value}, NO_CERT, "business", client="none", also=HTTPS)
      for value in ("optional", "none")),
    Row("managementTlsClientAuth", {f"{SERVER}.managementTlsClientAuth": "none"}, NO_CERT, "business", "management",
        "none", also={**HTTPS, **APART}),
    Row("metricsTlsClientAuth", {f"{SERVER}.metricsTlsClientAuth": "required"}, "business", NO_CERT, "metrics",
        "none", also={**HTTPS, **APART, f"{SERVER}.tlsClientAuth": "optional"}),
    Row("tlsClientAuth", {f"{SERVER}.tlsClientAuth": "none"}, UNKNOWN, "business", client="foreign",
        also={**HTTPS, f"{SERVER}.tlsClientAuth": "optional"}),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_key_changes_what_a_client_meets(row: Row, folder: Path) -> None:
    """The row's client on the row's plane, before and after its change; 78: the server does not start."""
    before = changed(MOCK, row.also)
    found = []
    for config in (before, changed(before, row.changes)):
        try:
            service = make(written(folder, config))
        except CannotStart as error:
            found.append(str(error.code))
        else:
            found.append(meets(service, row.plane, row.client, folder))
    assert found == [row.before, row.after]


def test_every_key_of_tls_has_a_row() -> None:
    """And is honoured."""
    keys = {key.removeprefix(f"{SERVER}.") for key in ACCESS_KEYS} | {"tlsClientAuth"}
    keys |= {"managementTlsClientAuth", "metricsTlsClientAuth"}
    assert {row.key for row in ROWS} == keys - {"apiKeysFile", "openPaths"}
    assert all(KEYS[key].honoured for key in ACCESS_KEYS)


async def test_api_keys_file_and_open_paths_change_who_is_answered(folder: Path) -> None:
    """Models need a key, and probes do not; with other open paths it is the other way round."""
    paths, headers = ("/v1/models", "/health"), {"Authorization": "Bearer alice-0123456789"}
    found = []
    keys = {f"{SERVER}.apiKeysFile": "keys.txt"}
    for changes in ({}, keys, {**keys, f"{SERVER}.openPaths": ["/v1/models"]}):
        async with served(written(folder, changed(MOCK, changes))) as server:
            found.append([(await server.client.get(path)).status_code for path in paths])
            assert (await server.client.get("/v1/models", headers=headers)).status_code == 200
    assert found == [[200, 200], [401, 200], [200, 401]]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {**HTTPS, f"{SERVER}.tlsCert": "none.pem"},
            "ServerConfig.httpsEnabled: TLS cannot be served: the certificate {folder}/none.pem of the business plane "
            "(--tls-cert, in config.json tlsCert): it cannot be read: No such file or directory",
        ),
        (
            {f"{SERVER}.apiKeysFile": "none.txt"},
            "ServerConfig.apiKeysFile: keys cannot be used: the keys file {folder}/none.txt cannot be read: No such "
            "file or directory",
        ),
    ],
)
def test_the_check_looks_at_the_files(
    folder: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], expected: str
) -> None:
    """What a start would refuse is a fault of the key, and the exit code is 78."""
    file = written(folder, changed(MOCK, changes))
    assert main(["config", "check", "--json", str(file)]) == CONFIG
    (fault,) = json.loads(capsys.readouterr().out)["faults"]
    assert f"{fault['key']}: {fault['message']}" == expected.format(folder=folder)


def test_a_start_says_that_https_is_served_where_the_key_is_absent(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in MindIE, whose default it is."""
    make(written(folder, changed(MOCK, {f"{SERVER}.httpsEnabled": GONE})))
    assert "ServerConfig.httpsEnabled: is absent, which means true: HTTPS is served" in capsys.readouterr().err
