"""The three planes: which address offers what, and addresses that cannot be used."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
import yaml
from mock_process import ROOT

from handlers import listeners
from handlers.listeners import ListenError, bind, open_listeners
from handlers.planes import Address, Planes, PlaneTable, addresses
from handlers.settings import Settings

ROUTES = yaml.safe_load((ROOT / "generated" / "routes.yaml").read_text(encoding="utf-8"))["paths"]


def free_port() -> int:
    """A port that nobody has at the moment."""
    with contextlib.closing(bind("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """A mock whose planes have a port each, the last two on another address."""
    ports = [free_port() for _ in range(3)]
    hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.2"]
    options = ["--management-host", hosts[1], "--management-port", str(ports[1]), "--metrics-port", str(ports[2])]
    command = [sys.executable, "-m", "tools.cli", "mock", "--port", str(ports[0]), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"mindspec serves mock on http://127.0.0.1:{ports[0]}\n"
        names = ("business", "management", "metrics")
        yield {name: f"http://{host}:{port}" for name, host, port in zip(names, hosts, ports, strict=True)}
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("plane", "path"),
    [
        ("business", "/v1/models"),
        ("business", "/v1/models/mock"),
        ("business", "/v2"),
        ("business", "/v2/models/mock"),
        ("business", "/v2/models/mock/config"),
        ("management", "/v2/health/live"),
        ("management", "/v2/health/ready"),
        ("management", "/v2/models/mock/ready"),
        ("management", "/v2/models/mock/getSlotCount"),
        ("management", "/info"),
        ("management", "/v1/config"),
        ("management", "/v1/status"),
        ("management", "/health/timed"),
        ("management", "/health/timed-30"),
        ("metrics", "/metrics"),
    ],
)
def test_a_path_is_offered_by_its_own_plane_which_the_others_name(urls: dict[str, str], plane: str, path: str) -> None:
    """200 there; elsewhere 404, and where to ask."""
    for name, url in urls.items():
        answer = httpx.get(url + path, trust_env=False)
        if name == plane:
            assert answer.status_code == 200
        else:
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
            assert answer.json()["error"] == f"{path} is offered on the {plane} address of this server, {urls[plane]}"


@pytest.mark.parametrize("plane", ["business", "management", "metrics"])
def test_health_is_offered_by_every_plane_and_nothing_else_is(urls: dict[str, str], plane: str) -> None:
    """A path that is nowhere is an ordinary 404."""
    assert httpx.get(urls[plane] + "/health", trust_env=False).json() == {"status": "ready"}
    assert httpx.get(urls[plane] + "/nope", trust_env=False).json()["error"] == "There is nothing at this path"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/tokenizer", {"inputs": "a"}),
        ("/v2/models/mock/stopInfer", {"id": "nobody"}),
        ("/v1/load_lora_adapter", {"lora_name": "a", "lora_path": "a"}),
    ],
)
def test_what_is_sent_goes_to_its_own_plane_too(urls: dict[str, str], path: str, body: dict[str, str]) -> None:
    """The others say where; its own answers, if only that this cannot be."""
    own = "management" if "lora" in path else "business"
    for name, url in urls.items():
        text = httpx.post(url + path, json=body, trust_env=False).text
        assert (f"is offered on the {own} address" in text) == (name != own)


@pytest.mark.parametrize("plane", ["business", "management", "metrics"])
@pytest.mark.parametrize("path", ["/v2/models/mock/generate", "/v2/models/mock/versions/1/ready", "/v2/status"])
def test_what_no_plane_offers_is_said_to_be_on_none(urls: dict[str, str], plane: str, path: str) -> None:
    """Every plane names what to use instead."""
    answer = httpx.get(urls[plane] + path, trust_env=False)
    assert answer.status_code == 404
    assert answer.json()["error"].startswith("There is nothing at this path: ")


def test_requests_go_to_the_business_plane_alone(urls: dict[str, str]) -> None:
    """POST too."""
    body = {"model": "mock", "prompt": "hello", "max_tokens": 2}
    found = {name: httpx.post(f"{url}/v1/completions", json=body, trust_env=False) for name, url in urls.items()}

    assert {name: answer.status_code for name, answer in found.items()} == {
        "business": 200,
        "management": 404,
        "metrics": 404,
    }


def test_planes_without_an_address_are_with_the_business_plane() -> None:
    """One listener by default."""
    assert set(addresses("h", 1, Planes()).values()) == {Address("h", 1)}


@pytest.mark.parametrize(
    ("planes", "management", "metrics"),
    [
        (Planes(management_host="m"), ("m", 1), ("m", 1)),
        (Planes(management_port=2), ("h", 2), ("h", 2)),
        (Planes("m", 2, 3), ("m", 2), ("m", 3)),
        (Planes(metrics_port=3), ("h", 1), ("h", 3)),
        (Planes("h", 1, 1), ("h", 1), ("h", 1)),
    ],
)
def test_the_metrics_plane_is_on_the_management_planes_address(
    planes: Planes, management: tuple[str, int], metrics: tuple[str, int]
) -> None:
    """As with MindIE; each port that is absent is the one before it."""
    found = addresses("h", 1, planes)

    assert found["management"] == Address(*management)
    assert found["metrics"] == Address(*metrics)


def test_equal_addresses_are_one_listener() -> None:
    """The management plane has a port of its own, and the metrics plane the same."""
    port = free_port()
    opened = open_listeners(Settings("m", port=0, planes=Planes(management_port=port, metrics_port=port)))
    for listener in opened:
        listener.socket.close()

    assert [sorted(listener.planes) for listener in opened] == [["business"], ["management", "metrics"]]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0", "0.0", ""])
def test_an_address_that_means_every_network_is_refused_unless_allowed(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is written; the line names the switch."""
    with pytest.raises(ListenError, match="--allow-all-zero-ip") as refused:
        open_listeners(Settings("m", host=host, port=0))
    assert refused.value.exit_code == 78

    monkeypatch.setattr(listeners, "bind", lambda host, port: socket.create_server(("127.0.0.1", port)))
    (listener,) = open_listeners(Settings("m", host=host, port=0, planes=Planes(allow_all_zero=True)))
    listener.socket.close()


def test_no_socket_stays_open_when_a_later_one_cannot_be_had() -> None:
    """The management plane's port is taken: code 98, and the business plane's is free again."""
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        planes = Planes(management_port=taken.getsockname()[1])
        with pytest.raises(ListenError, match=r"\(management and metrics\): the port is in use") as refused:
            open_listeners(Settings("m", port=port, planes=planes))
    assert refused.value.exit_code == 98
    bind("127.0.0.1", port).close()


def test_every_path_of_the_contract_has_a_plane() -> None:
    """The table of the routes, with parameters filled in."""
    table = PlaneTable(ROUTES, {"/metrics": "metrics"})

    assert table.plane_of("/v1/completions") == "business"
    assert table.plane_of("/v1/models/a/b") == "business"
    assert table.plane_of("/v2/models/a/b/ready") == "management"
    assert table.plane_of("/health/timed-7") == "management"
    assert table.plane_of("/health") == "all"
    assert table.plane_of("/metrics") == "metrics"
    assert table.plane_of("/v3") is None
    assert all(table.plane_of(path.replace("{", "").replace("}", "")) for path in ROUTES)
