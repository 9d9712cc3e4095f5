"""What slow, endless and failing sources cost: their own request, within its limits, and nothing that stays."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from attacks import KB, SERVERS
from hostile_server import PUBLIC, Script, answer, endless, redirect, silent, whole
from source_world import World, part, until, world

from handlers.errors import Problem
from handlers.media.resolver import SystemResolver

GOOD = "http://media.test/good.png"
SLOW = "http://slow.test/slow.png"
NAMES = {"media.test": ((PUBLIC,),), "slow.test": ((PUBLIC,),), "silent.test": ((),)}
SCRIPTS: dict[str, Script] = {
    "/good.png": whole(b"good"),
    "/slow.png": silent(),
    "/half.png": silent(answer(b"half", "Content-Length: 9")),
    "/none.png": answer(status="404 Not Found"),
}
MB = KB * KB
PATIENCE_S = 60.0
"""For what comes at once, or never."""


def hosts(base: Path, **limits: Any) -> Any:
    """A world of good and slow hosts."""
    domains = ("media.test", "slow.test", "silent.test")
    return world(base, SCRIPTS, names=NAMES, domains=domains, **limits)


async def test_what_a_text_shows_is_told_before_anything_is_fetched(tmp_path: Path) -> None:
    """Of several such parts the first is blamed."""
    async with hosts(tmp_path) as here:
        with pytest.raises(Problem, match="not on this deployment's list") as caught:
            await here.bytes_of(GOOD, "http://evil.test/a.png", "../a.png")
        assert caught.value.param == "messages[0].content[1].image_url"
        assert here.network.looked_up == []


async def test_a_failure_ends_the_other_fetches(tmp_path: Path) -> None:
    """At once: those would have gone on for ever."""
    async with hosts(tmp_path, read_s=600.0, fetch_s=600.0) as here:
        with pytest.raises(Problem, match="HTTP status 404") as caught:
            await here.bytes_of(SLOW, "http://media.test/half.png", "http://media.test/none.png")
        assert caught.value.param == "messages[0].content[2].image_url"
        await asyncio.wait_for(here.network.all_closed.wait(), PATIENCE_S)


@pytest.mark.parametrize(("value", "connected"), [
    ("http://silent.test/a.png", False), ("http://slow.test/slow.png", True), ("https://slow.test/slow.png", True),
    ("http://media.test/half.png", True),
])  # fmt: skip
async def test_a_cancelled_request_leaves_nothing_open(value: str, connected: bool, tmp_path: Path) -> None:
    """While a name is looked up, while TLS is agreed on, before and within an answer."""
    async with hosts(tmp_path, connect_s=600.0, read_s=600.0, fetch_s=600.0) as here:
        before = open_sockets()
        running = asyncio.ensure_future(here.sources.files([part(value)] * 3, here.spool))
        await until(lambda: (here.network.open_connections if connected else len(here.network.looked_up)) == 3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        here.spool.close()
        assert here.spool.folder.name not in os.listdir(here.spool.folder.parent)
        if connected:
            await asyncio.wait_for(here.network.all_closed.wait(), PATIENCE_S)
        await until(lambda: open_sockets() == before)


def open_sockets() -> int:
    """Of this process."""
    return sum(1 for name in os.listdir("/proc/self/fd") if is_socket(f"/proc/self/fd/{name}"))


def is_socket(path: str) -> bool:
    """Whether a descriptor is one; those that closed meanwhile are none."""
    try:
        return os.readlink(path).startswith("socket:")
    except OSError:
        return False


async def test_a_slow_host_holds_up_no_other(tmp_path: Path) -> None:
    """Its own media wait for their turn, and not for ever."""
    async with hosts(tmp_path, max_fetches=1, fetch_wait_s=0.05, read_s=600.0, fetch_s=600.0) as here:
        slow = asyncio.ensure_future(here.bytes_of(SLOW))
        await here.network.began.wait()
        assert await here.bytes_of(GOOD) == [b"good"]
        with pytest.raises(Problem, match=r"Too many media are being fetched from slow\.test") as caught:
            await here.bytes_of(SLOW)
        assert (caught.value.status, caught.value.code) == (429, "queue_full")
        assert caught.value.headers == {"Retry-After": "1"}
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        here.network.scripts = {"/slow.png": whole(b"now")}
        assert await here.bytes_of(SLOW) == [b"now"]


async def test_redirects_share_the_time_of_one_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has what those before it have left, so that a chain of slow ones takes no longer than one answer may."""
    given, timeout = [], asyncio.timeout

    def noted(delay_s: float | None) -> asyncio.Timeout:
        given.append(delay_s)
        return timeout(delay_s)

    monkeypatch.setattr(asyncio, "timeout", noted)
    scripts = {"/a.png": redirect("/b.png"), "/b.png": redirect("/c.png"), "/c.png": whole(b"last")}
    async with world(tmp_path, scripts, fetch_s=500.0) as here:
        assert await here.bytes_of("http://media.test/a.png") == [b"last"]
    first, second, third = (delay_s for delay_s in given if delay_s is not None and delay_s > 100.0)
    assert 500.0 == first > second > third


async def test_a_folder_that_hangs_holds_up_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are given up, also those that could not even be opened yet; what needs no such file goes on."""
    answered = threading.Event()
    monkeypatch.setattr("handlers.media.sources.copy_local", lambda *_: answered.wait())
    async with hosts(tmp_path, fetch_s=0.2) as here:
        hung = [asyncio.ensure_future(here.bytes_of("a.png", "b.png")) for _ in range(10)]
        assert await here.bytes_of("aGVsbG8=") == [b"hello"]
        for each in hung:
            with pytest.raises(Problem, match=r"a local file that was not read within 0\.2 s") as caught:
                await asyncio.wait_for(each, PATIENCE_S)
            assert caught.value.code == "media_unreachable"
        answered.set()


async def test_a_request_fetches_a_few_items_at_a_time(tmp_path: Path) -> None:
    """Two here: each waits until another one is there, and never are there three."""
    pair, most = asyncio.Barrier(2), 0

    async def together(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most
        await pair.wait()
        most = max(most, here.network.open_connections)
        writer.write(whole(b"x"))

    async with world(tmp_path, {"/a.png": together}, max_request_fetches=2) as here:
        assert await here.bytes_of(*["http://media.test/a.png"] * 6) == [b"x"] * 6
        assert most == 2


async def test_an_endless_body_takes_no_memory(tmp_path: Path) -> None:
    """32 MB of it reach the disk by a few blocks."""
    async with world(tmp_path, {"/a.png": endless(answer())}, max_image_bytes=32 * MB) as here:
        assert await peak_of(here, "http://media.test/a.png") < 8 * MB
        [file] = os.scandir(here.spool.folder)
        assert 30 * MB < file.stat().st_size <= 32 * MB


async def test_a_large_inline_recording_takes_no_memory(tmp_path: Path) -> None:
    """Beside the request that carries it."""
    text = base64.b64encode(bytes(15 * MB)).decode()
    async with world(tmp_path) as here:
        assert await peak_of(here, text, audio_format="wav") < 8 * MB
        [file] = os.scandir(here.spool.folder)
        assert file.stat().st_size == 15 * MB


async def peak_of(here: World, value: str, audio_format: str | None = None) -> int:
    """The most memory that bringing a part took, whether it was refused or not."""
    tracemalloc.start()
    with contextlib.suppress(Problem):
        await here.sources.files([part(value, audio_format=audio_format)], here.spool)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


async def test_media_of_a_request_are_counted_together(tmp_path: Path) -> None:
    """Each is small enough, all are not."""
    async with world(tmp_path, {"/a.png": whole(bytes(MB))}, max_total_bytes=2 * MB) as here:
        with pytest.raises(Problem, match="have more than 2 MB together") as caught:
            await here.bytes_of(*["http://media.test/a.png"] * 3)
        assert caught.value.code == "media_too_large"


async def test_good_requests_are_unharmed_while_all_attacks_run(tmp_path: Path) -> None:
    """From the same host, at the same time."""
    scripts: dict[str, Any] = {f"/{index}": attack.script for index, attack in enumerate(SERVERS)}
    async with world(tmp_path, {**scripts, **SCRIPTS}, max_fetches=100, max_image_bytes=MB) as here:
        urls = [f"http://media.test{target}" for target in scripts]
        attacks = [asyncio.ensure_future(here.sources.files([part(url)], here.spool)) for url in urls]
        await until(lambda: len(here.network.heads) == len(attacks))
        for _ in range(10):
            assert await here.bytes_of(GOOD, GOOD, GOOD) == [b"good"] * 3
        for attack in attacks:
            attack.cancel()
        found = await asyncio.gather(*attacks, return_exceptions=True)
        assert any(isinstance(each, Problem) for each in found)
        assert any(isinstance(each, asyncio.CancelledError) for each in found)
        await here.network.all_closed.wait()


async def test_a_refused_address_is_logged_and_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The operator sees where the host is; the client does not; nobody sees a secret, whatever level is logged."""
    caplog.set_level(logging.DEBUG)
    names = {"media.test": ((PUBLIC,), ("10.1.2.3",))}
    async with world(tmp_path, {"/a.png?secret": redirect("/b.png?secret")}, names=names) as here:
        with pytest.raises(Problem) as caught:
            await here.bytes_of("http://media.test/a.png?secret")
    assert "10.1.2.3" not in caught.value.message
    assert "no media from media.test at 10.1.2.3: it is a private address" in caplog.text
    assert "secret" not in caplog.text + caught.value.message


async def test_the_system_s_resolver_knows_this_machine() -> None:
    """Every address once."""
    found = await SystemResolver()("localhost", 80)
    assert set(found) <= {"127.0.0.1", "::1"}
    assert len(found) == len(set(found)) > 0


async def test_a_name_that_nobody_can_look_up_is_an_oserror(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Python refuses to ask."""

    def no_such_name(*_: Any, **__: Any) -> Any:
        raise UnicodeError("label too long")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    with pytest.raises(OSError, match="label too long"):
        await SystemResolver()("a" * 70, 80)


async def test_stuck_look_ups_are_bounded_and_end_with_their_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen threads at most wait for name servers, although the requests have gone; then others have their turn."""
    answered, begun = threading.Event(), []

    def slow(host: str, *_: Any, **__: Any) -> Any:
        begun.append(host)
        answered.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC, 80))]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    resolve = SystemResolver()
    asked = [asyncio.ensure_future(resolve(f"{number}.test", 80)) for number in range(20)]
    await until(lambda: len(begun) == 16)
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    late = asyncio.ensure_future(resolve("late.test", 80))
    await asyncio.sleep(0)
    assert (len(begun), late.done()) == (16, False)
    answered.set()
    assert await late == [PUBLIC]
    assert begun[16:] == ["late.test"]


def test_reading_inline_media_imports_no_network_library() -> None:
    """Nor does making sources: a deployment of text has none of the packages for media."""
    script = (
        "import sys, tools.cli; from handlers.media.limits import MediaLimits; from handlers.media.sources import *;"
        "MediaSources(MediaLimits());"
        "print(sorted({'httpcore', 'PIL', 'av', 'soundfile', 'torchvision'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
