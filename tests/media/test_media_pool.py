"""Files become encoders' inputs in worker processes; what hangs, dies or is hostile costs its own request only."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
import torch

from engine.multimodal.features import content_hash, load_features
from engine.types import MediaKind
from handlers.errors import Problem
from handlers.media.limits import MediaLimits
from handlers.media.parts import MediaPart, PreparedMedia, SourceFile
from handlers.media.pool import MediaPool
from handlers.media.spool import Spool, Spools
from tests.media.file_attacks import ATTACKS, FileAttack
from tests.media.files import AUDIOS, IMAGES, VIDEOS, image_file, media_file
from tests.tiny_media import MediaModels, reference_inputs

PARAM = "messages[0].content[1].image_url.url"
LIMITS = MediaLimits(decode_memory_bytes=1 << 30, disk_reserve_bytes=0)

pytestmark = pytest.mark.asyncio(loop_scope="module")


PLACEHOLDERS = {"image": "image_token_id", "video": "video_token_id", "audio": "audio_token_index"}
"""Members of config.json."""
FEATURES = {
    "image": {"pixel_values", "image_grid_thw"},
    "video": {"pixel_values_videos", "video_grid_thw", "second_per_grid_ts"},
    "audio": {"input_features", "feature_attention_mask"},
}
"""What the encoders of these models are given."""


class Served:
    """The pools of the models, and the spool of one request."""

    def __init__(self, pools: dict[str, MediaPool], spool: Spool) -> None:
        self.pools = pools
        self.spool = spool

    def pool(self, kind: MediaKind) -> MediaPool:
        return self.pools["qwen2_audio" if kind == "audio" else "qwen2_5_vl"]

    def file(self, kind: MediaKind, data: bytes, said: str | None = None) -> SourceFile:
        path = self.spool.new_file()
        path.write_bytes(data)
        return SourceFile(MediaPart(kind, PARAM, "", said), path, len(data))

    async def prepare(self, kind: MediaKind, data: bytes, said: str | None = None) -> PreparedMedia:
        return await self.pool(kind).prepare(self.file(kind, data, said), self.spool)

    def limited(self, **limits: float) -> MediaPool:
        """A pool of other limits with the same processes."""
        pool = MediaPool(replace(LIMITS, **limits), Path())  # type: ignore[arg-type]
        pool.workers, pool._model = self.pools["qwen2_5_vl"].workers, self.pools["qwen2_5_vl"]._model
        return pool

    def endless(self) -> SourceFile:
        """A pipe that nobody writes to: opening it never ends."""
        path = self.spool.new_file()
        path.unlink()
        os.mkfifo(path)
        return SourceFile(MediaPart("image", PARAM, ""), path, 1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(media_models: MediaModels, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """One worker for both models, since it takes seconds to start."""
    limits = replace(LIMITS, spool_folder=tmp_path_factory.mktemp("spool"))
    spools = Spools(limits)
    pools = {name: MediaPool(limits, media_models.folder(name)) for name in ("qwen2_5_vl", "qwen2_audio")}
    pools["qwen2_audio"].workers = pools["qwen2_5_vl"].workers
    for pool in pools.values():
        await pool.start()
    yield Served(pools, spools.open())
    await pools["qwen2_5_vl"].close()
    spools.close()


def idle_pids(pool: MediaPool) -> list[int]:
    return [process.pid for process in pool.workers._idle]


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        *(("image", suffix) for suffix in IMAGES),
        *(("video", suffix) for suffix in ("mp4", "avi")),
        *(("audio", suffix) for suffix in AUDIOS),
    ],
)
async def test_a_file_becomes_what_transformers_makes_of_it(
    kind: MediaKind, suffix: str, served: Served, media_models: MediaModels, tmp_path: Path
) -> None:
    """All features bit for bit, as many tokens as its processor puts into the prompt, and their content's hash."""
    data = media_file(suffix)
    path = tmp_path / f"demo.{suffix}"
    path.write_bytes(data)
    model = "qwen2_audio" if kind == "audio" else "qwen2_5_vl"
    messages = [{"role": "user", "content": [{"type": kind}]}]
    expected = reference_inputs(media_models.folder(model), messages, [path])
    prepared = await served.prepare(kind, data)
    features = load_features(prepared.features)
    assert set(features) == FEATURES[kind]
    for name, tensor in features.items():
        assert torch.equal(tensor, torch.as_tensor(expected[name])), name
    placeholder = json.loads((media_models.folder(model) / "config.json").read_text())[PLACEHOLDERS[kind]]
    assert prepared.tokens == int((expected["input_ids"] == placeholder).sum())
    assert prepared.content_hash == content_hash(kind, features)


@pytest.mark.parametrize("suffix", VIDEOS)
async def test_every_container_of_video_is_taken(suffix: str, served: Served) -> None:
    """Eight frames of 64 x 48 at 8 a second: four are looked at, in two pairs of four embeddings."""
    assert (await served.prepare("video", media_file(suffix))).tokens == 8


async def test_what_is_prepared_lies_in_the_spool_for_this_user_only(served: Served) -> None:
    """Others may not read what clients send."""
    prepared = await served.prepare("image", image_file())
    assert Path(prepared.features).is_relative_to(served.spool.folder)
    assert os.stat(prepared.features).st_mode & 0o777 == 0o600


async def test_equal_pictures_have_one_hash_and_others_another(served: Served) -> None:
    """Whatever their files are called."""
    first, same, other = [await served.prepare("image", image_file(seed=seed)) for seed in (0, 0, 1)]
    assert first.content_hash == same.content_hash != other.content_hash


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
async def test_a_hostile_file_is_refused_by_name(attack: FileAttack, served: Served) -> None:
    """By its code, in words of ours, blaming the part; no content and no path is shown; the worker stays."""
    pids = idle_pids(served.pool(attack.kind))
    with pytest.raises(Problem) as caught:
        await served.prepare(attack.kind, attack.data(), attack.said)
    problem = caught.value
    assert (problem.status, problem.code, problem.param) == (422, attack.code, PARAM)
    assert problem.message.startswith(f"{PARAM} ")
    assert attack.words in problem.message
    assert "secret" not in problem.message
    assert str(served.spool.folder) not in problem.message
    assert idle_pids(served.pool(attack.kind)) == pids


async def test_a_file_that_takes_too_long_is_refused(served: Served) -> None:
    """The worker ends it by itself and takes the next."""
    pids = idle_pids(served.pool("image"))
    with pytest.raises(Problem, match=r"takes longer than the 0\.2 s allowed to be decoded") as caught:
        await served.limited(decode_s=0.2).prepare(served.endless(), served.spool)
    assert (caught.value.status, caught.value.code, caught.value.param) == (422, "media_too_large", PARAM)
    assert idle_pids(served.pool("image")) == pids


async def test_a_request_that_is_cancelled_frees_the_worker(served: Served) -> None:
    """It is interrupted, not killed: the next file need not wait until another is up."""
    pids = idle_pids(served.pool("image"))
    task = asyncio.create_task(served.pool("image").prepare(served.endless(), served.spool))
    while idle_pids(served.pool("image")):  # noqa: ASYNC110 - until it has the file
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert idle_pids(served.pool("image")) == pids
    assert (await served.prepare("image", image_file())).tokens == 4


async def test_a_file_that_finds_no_worker_in_time_is_sent_away(served: Served) -> None:
    """With the time to come back."""
    pool = MediaPool(replace(LIMITS, decode_wait_s=0.0), Path())
    await pool.workers._slots.acquire()
    with pytest.raises(Problem, match="Too many media wait to be decoded") as caught:
        await pool.prepare(served.file("image", image_file()), served.spool)
    assert (caught.value.status, caught.value.code) == (429, "queue_full")
    assert caught.value.headers == {"Retry-After": "1"}


async def test_a_disk_without_room_is_told_as_such(served: Served) -> None:
    """Before a byte is written: it is left with what is reserved."""
    with pytest.raises(Problem, match="no room") as caught:
        await served.limited(disk_reserve_bytes=1 << 60).prepare(served.file("image", image_file()), served.spool)
    assert (caught.value.status, caught.value.code) == (503, "queue_full")


async def test_a_worker_that_is_killed_costs_its_own_file(served: Served) -> None:
    """As by a machine that runs out of memory; the next file gets a new one."""
    pool = served.pool("image")
    (process,) = pool.workers._idle
    task = asyncio.create_task(pool.prepare(served.endless(), served.spool))
    while idle_pids(pool):  # noqa: ASYNC110 - until it has the file
        await asyncio.sleep(0)
    process.kill()
    with pytest.raises(Problem, match="the process that did ended without an answer") as caught:
        await task
    assert (caught.value.status, caught.value.code, caught.value.param) == (422, "media_invalid", PARAM)
    assert (await served.prepare("image", image_file())).tokens == 4


@pytest.mark.parametrize("tokens", [0, -4, (1 << 20) + 1, "4", None])
async def test_a_number_of_tokens_that_cannot_be_is_a_fault_of_the_server(
    tokens: Any, served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that a file has taken over may say anything; no prompt is made of it."""

    async def ask(_: object) -> dict[str, Any]:
        return {"tokens": tokens, "hash": "00"}

    pool = served.limited()
    monkeypatch.setattr(pool, "workers", SimpleNamespace(ask=ask))
    with pytest.raises(Problem) as caught:
        await pool.prepare(served.file("image", image_file()), served.spool)
    assert (caught.value.status, caught.value.code) == (500, "internal")
    assert f"{tokens!r} tokens of one item" in caplog.text


async def test_a_model_folder_without_processors_is_a_fault_of_the_server(
    served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The client is told no more than that; the log has what is missing."""
    (tmp_path / "config.json").write_text('{"model_type": "qwen2_vl"}')
    pool = MediaPool(LIMITS, tmp_path)
    pool.workers = served.pool("image").workers
    with pytest.raises(Problem) as caught:
        await pool.start()
    assert (caught.value.status, caught.value.code) == (500, "internal")
    assert "preprocessor_config.json" in caplog.text
