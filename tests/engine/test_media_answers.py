"""Answers on images and video: what the engine gives equals what transformers' generate gives on the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packed_play import Arrival, ids, play

from engine.packed_loader import load_executor
from tests.engine.media_play import Asked, run
from tests.media.files import video_file
from tests.tiny_media import MediaModels

Ask = Callable[..., Asked]
Q = "What is it?"


@pytest.fixture(params=["qwen2_vl", "qwen2_5_vl"])
def ask(request: pytest.FixtureRequest, media_models: MediaModels, tmp_path: Path) -> Ask:
    """Makes messages for each family."""
    folder = media_models.folder(request.param)
    return lambda *parts: Asked(folder, tmp_path, *parts)


def loaded(asked: Asked, **options: Any) -> Any:
    """The executor of the messages' model, in float32."""
    options = {"dtype": "float32", "device": "cpu", "page_size": 16, "memory_bytes": 1 << 24, **options}
    return load_executor(str(asked.folder), **options)


@pytest.mark.parametrize(
    "options", [{}, {"prefill_chunk_size": 3}, {"deterministic": True}, {"encoder_slice_ms": 0.001}]
)
def test_every_form_of_prompt_is_answered_as_by_generate(ask: Ask, options: dict[str, Any]) -> None:
    """Text alone, an image, a video, and both among texts; also in chunks that cut images, one sequence at a time, and
    with an encoder that stops before every module."""
    asked = [ask("hello"), ask(("image", 1), Q), ask(("video", 2), Q)]
    asked += [ask("Here:", ("image", 1), "and", ("video", 2), "then", ("image", 3), ("image", 1), Q)]
    found = run(loaded(asked[0], **options), *(each.request(str(index)) for index, each in enumerate(asked)))
    assert [found[str(index)] for index in range(4)] == [each.generate() for each in asked]


def test_an_answer_behind_a_long_video_has_the_places_of_generate(ask: Ask) -> None:
    """The video reaches further in time than the text behind it, which begins behind it in space; the answer follows
    that text, so a prompt that repeats the answer has the same places there, and gets the answer's pages."""
    video = video_file(frames=80, rate=1)  # 40 pairs of frames, of 2 x 2 embeddings each
    first = ask(("video", video), Q)
    (item,) = first.media()
    assert item.tokens == 40 * 2 * 2
    assert 2 + len(first.prompt) - item.start - item.tokens < 40
    executor = loaded(first)
    answer = run(executor, first.request("first", max_tokens=40))["first"]
    assert answer == first.generate(40)
    second = ask(("video", video), Q)
    second.prompt += answer[:35]
    alone = run(loaded(second), second.request("alone"))["alone"]
    again = play(executor, [Arrival(second.request("again"))])
    assert ids(again.answers["again"][0]) == alone
    assert again.cached_tokens["again"] == len(second.prompt) - 1
