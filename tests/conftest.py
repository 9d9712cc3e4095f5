"""What holds for every test: no connection leaves this machine, no library goes looking for a network, one thread."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tiny_media import MediaModels
from tools.weights import default_model_folder, is_whole

# Before any test module imports torch or transformers, which read these once.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["DO_NOT_TRACK"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# transformers imports it with any of its models, where it is installed.
with contextlib.suppress(ImportError):
    from engine.multimodal.torchvision_import import import_torchvision

    import_torchvision()


class OutsideConnection(Exception):
    """A test tried to reach something other than this machine.

    Not an OSError: code that retries or swallows network failures must not hide it.
    """


def is_loopback(family: int, address: Any) -> bool:
    """Whether connecting a socket of ``family`` to ``address`` stays on this machine."""
    if family == socket.AF_UNIX:
        return True
    return family in (socket.AF_INET, socket.AF_INET6) and is_loopback_host(address[0])


def is_loopback_host(host: Any) -> bool:
    """Whether ``host`` (a name or an address, as text) is this machine."""
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked ``weights`` need the default model in the cache: `make test` puts it there and requires it."""
    if item.get_closest_marker("weights") is None or is_whole(default_model_folder()):
        return
    reason = f"no default model in {default_model_folder()}: run `make weights`"
    if os.environ.get("MINDSPEC_TEST_WEIGHTS") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def same_log_level() -> Iterator[None]:
    """A server of a configuration sets the level of its process; the next test finds it as it was."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def loopback_only() -> Iterator[None]:
    """Refuse every connection to another machine, and every question for its address, for the whole session."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
        patch.setattr(socket.socket, "sendto", _guarded_datagram(socket.socket.sendto))
        for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
            patch.setattr(socket, name, _guarded_look_up(getattr(socket, name)))
        yield


def _guarded_look_up(original: Any) -> Any:
    def look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        if host and not is_loopback_host(host):
            raise OutsideConnection(f"a test asked for the address of {host!r}; tests may use loopback only")
        return original(host, *arguments, **options)

    return look_up


def _guarded_datagram(original: Any) -> Any:
    def send(self: socket.socket, data: Any, *rest: Any) -> Any:
        if rest and not is_loopback(self.family, rest[-1]):
            raise OutsideConnection(f"a test tried to send to {rest[-1]!r}; tests may use loopback only")
        return original(self, data, *rest)

    return send


@pytest.fixture(scope="session")
def media_models(tmp_path_factory: pytest.TempPathFactory) -> MediaModels:
    """Folders of tiny models for images, video and audio, made when they are asked for."""
    return MediaModels(tmp_path_factory.mktemp("media-models"))


def _guarded(original: Any) -> Any:
    def connect(self: socket.socket, address: Any) -> Any:
        if not is_loopback(self.family, address):
            raise OutsideConnection(f"a test tried to connect to {address!r}; tests may use loopback only")
        return original(self, address)

    return connect
