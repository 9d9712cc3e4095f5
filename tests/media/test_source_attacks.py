"""Every attack on what brings media is refused by name, reaches nobody that it should not, and leaves nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from attacks import ATTACKS, Attack
from hostile_server import OTHER_PUBLIC, Network, running
from source_world import NO_TRUST

from handlers.errors import Problem
from handlers.media.limits import MediaLimits
from handlers.media.parts import MediaPart
from handlers.media.sources import MediaSources
from handlers.media.spool import Spools

PARAM = "messages[0].content[1].image_url.url"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of local files, with traps in it, and files beside it."""
    base = tmp_path_factory.mktemp("local")
    inside, outside = base / "inputs", base / "outside"
    for made in (inside, outside, inside / "inner", inside / "folder.png", base / "inputs_too"):
        made.mkdir()
    for file in (inside / "a.png", outside / "a.png", base / "inputs_too" / "a.png"):
        file.write_bytes(b"abc")
    (inside / "empty.png").write_bytes(b"")
    (inside / "large.png").write_bytes(bytes(1025))
    links = {"out.png": outside / "a.png", "out": outside, "zero.png": "/dev/zero", "circle.png": "circle.png"}
    for name, target in {**links, "descriptor.png": "/proc/self/fd/0"}.items():
        (inside / name).symlink_to(target)
    os.mkfifo(inside / "pipe.png")
    with socket.socket(socket.AF_UNIX) as bound:
        before = Path.cwd()
        os.chdir(inside)  # an address of a socket is short
        bound.bind("socket.png")
        os.chdir(before)
        yield inside


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
async def test_an_attack_is_refused(attack: Attack, folder: Path, tmp_path: Path) -> None:
    """By its code, with words that say why, blaming the part; nothing else is connected to; no secret is shown."""
    limits = replace(MediaLimits(folder=folder, domains=("media.test",), spool_folder=tmp_path), **attack.limits)
    scripts = attack.script if not isinstance(attack.script, bytes) and not callable(attack.script) else None
    dead = frozenset({"192.0.0.9", OTHER_PUBLIC})
    network = Network(attack.names, scripts or {"/a.png": attack.script}, dead)  # type: ignore[dict-item]
    part = MediaPart(attack.kind, PARAM, attack.value.replace("{folder}", str(folder)), attack.audio_format)
    spools = Spools(limits)
    spool = spools.open()
    async with running(network):
        sources = MediaSources(limits, resolver=network.resolve, connector=network.connect, tls=NO_TRUST)
        with pytest.raises(Problem) as caught:
            await sources.files([part], spool)
        if network.connected and not network.dead & set(network.connected):
            await network.all_closed.wait()
        sources.close()
    problem = caught.value
    assert (problem.status, problem.code, problem.param) == (422, attack.code, PARAM)
    assert attack.words.replace("{folder}", str(folder)) in problem.message
    assert problem.message.startswith(f"{PARAM} ")
    assert "secret" not in problem.message
    assert len(problem.message) < 1500
    assert tuple(network.connected) == attack.connected
    most = max(limits.max_image_bytes, limits.max_input_audio_bytes)
    assert sum(os.stat(file).st_size for file in os.scandir(spool.folder)) <= most
    spools.close()
    assert os.listdir(tmp_path) == []


def test_no_attack_stands_twice() -> None:
    """And there are enough of them."""
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) > 100
