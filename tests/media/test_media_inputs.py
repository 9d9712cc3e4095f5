"""What the models look at and hear of long, short and odd media."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from engine.multimodal.family import MediaInputs, inputs_of
from engine.multimodal.inputs.qwen2_vl import Qwen2VLInputs
from tests.media.files import pixels, samples
from tests.tiny_media import MediaModels


@pytest.fixture
def load(media_models: MediaModels) -> Callable[[str], MediaInputs]:
    """The inputs of a tiny model."""

    def load(name: str) -> MediaInputs:
        inputs = inputs_of(media_models.folder(name))
        assert inputs is not None
        return inputs

    return load


@pytest.mark.parametrize(
    ("frames", "rate", "chosen"),
    [
        (1, 8.0, [0]),
        (2, 8.0, [0, 1]),
        (3, 8.0, [0, 1]),
        (8, 8.0, [0, 2, 4, 6]),
        (24, 8.0, [0, 4, 8, 12, 16, 20]),
        (8, 1.0, [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_two_frames_a_second_are_looked_at_and_four_at_least(
    frames: int, rate: float, chosen: list[int], load: Callable[[str], MediaInputs]
) -> None:
    """As the models' authors do, in even numbers; all of a video that has only one."""
    assert list(load("qwen2_vl").frame_indices(frames, rate)) == chosen


@pytest.mark.parametrize(("frames", "chosen"), [(3, [0, 1]), (24, [0, 4, 8, 12, 16, 20])])
def test_a_number_of_frames_that_a_folder_names_is_at_most_the_videos(
    frames: int, chosen: list[int], load: Callable[[str], MediaInputs]
) -> None:
    """Six; in pairs, since an odd one would have no other."""
    inputs = load("qwen2_vl")
    assert isinstance(inputs, Qwen2VLInputs)
    inputs._videos.num_frames = 6
    assert list(inputs.frame_indices(frames, 8.0)) == chosen


def test_at_most_768_frames_of_an_hour_are_looked_at(load: Callable[[str], MediaInputs]) -> None:
    """Evenly over all of it."""
    chosen = load("qwen2_vl").frame_indices(108_000, 30.0)
    assert (len(chosen), chosen[0], chosen[1], chosen[-1]) == (768, 0, 140, 107_859)


@pytest.mark.parametrize("frame", [(48, 64), (480, 640), (30, 3_000), (1, 1)])
def test_frames_made_smaller_one_by_one_are_what_the_processor_makes_of_all(
    frame: tuple[int, int], load: Callable[[str], MediaInputs]
) -> None:
    """Bit for bit, in every size."""
    inputs = load("qwen2_vl")
    assert isinstance(inputs, Qwen2VLInputs)
    video = np.stack([pixels(seed, height=frame[0], width=frame[1]) for seed in range(4)])
    expected = inputs._videos(
        videos=[video], do_sample_frames=False, return_tensors="pt", input_data_format="channels_last"
    )
    prepared = inputs.video(iter(video), range(4), 4, 2.0)
    assert torch.equal(prepared.features["video_grid_thw"], expected["video_grid_thw"])
    assert torch.equal(prepared.features["pixel_values_videos"], expected["pixel_values_videos"])


def test_a_long_video_has_a_bound_of_pixels_for_all_its_frames(load: Callable[[str], MediaInputs]) -> None:
    """As in the models' own code: otherwise an hour would be a million embeddings."""
    inputs = load("qwen2_vl")
    assert isinstance(inputs, Qwen2VLInputs)
    inputs._videos.max_video_tokens = 64
    few = inputs.video((pixels(seed, height=480, width=640) for seed in range(4)), range(4), 4, 2.0)
    many = inputs.video((pixels(seed, height=480, width=640) for seed in range(16)), range(16), 16, 2.0)
    assert (few.tokens, many.tokens) == (2 * 24, 8 * 6)


@pytest.mark.parametrize("size", [(1, 1), (1, 3), (3, 1), (3, 3), (200, 1)])
def test_a_picture_of_few_pixels_is_looked_at(size: tuple[int, int], load: Callable[[str], MediaInputs]) -> None:
    """Three pixels are not taken for three colours."""
    picture = Image.fromarray(pixels(width=size[0], height=size[1]))
    prepared = load("qwen2_vl").image(picture)
    grid = prepared.features["image_grid_thw"]
    assert prepared.tokens == int(grid.prod()) // 4 >= 2


def test_a_picture_201_times_as_wide_as_high_is_refused(load: Callable[[str], MediaInputs]) -> None:
    """The processor's words go to the client."""
    with pytest.raises(ValueError, match="aspect ratio must be smaller than 200"):
        load("qwen2_vl").image(Image.new("RGB", (201, 1)))


@pytest.mark.parametrize(("name", "timed"), [("qwen2_vl", False), ("qwen2_5_vl", True)])
def test_only_models_that_follow_time_are_told_it(name: str, timed: bool, load: Callable[[str], MediaInputs]) -> None:
    """A pair of frames that are 4 apart at 8 a second stands for a second."""
    prepared = load(name).video((pixels(seed) for seed in range(4)), [0, 4, 8, 12], 16, 8.0)
    told: Any = prepared.features.get("second_per_grid_ts")
    assert (told is not None) == timed
    if timed:
        assert told.tolist() == [1.0]


@pytest.mark.parametrize(("seconds", "tokens"), [(0.025, 1), (0.5, 12), (2.0, 50)])
def test_a_recording_has_25_embeddings_a_second(
    seconds: float, tokens: int, load: Callable[[str], MediaInputs]
) -> None:
    """As many as Qwen2-Audio's processor counts."""
    assert load("qwen2_audio").audio(samples(seconds=seconds)[:, 0]).tokens == tokens


def test_a_recording_longer_than_the_window_is_refused(load: Callable[[str], MediaInputs]) -> None:
    """transformers cuts it off without a word, and the answer would be about a part."""
    with pytest.raises(ValueError, match=r"it lasts 2\.1 s, of which the model would hear 2 s"):
        load("qwen2_audio").audio(samples(seconds=2.1)[:, 0])


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_audio"])
def test_a_folder_without_processors_is_told(name: str, tmp_path: Path) -> None:
    """At load, not at the first picture."""
    (tmp_path / "config.json").write_text(f'{{"model_type": "{name}"}}')
    with pytest.raises(OSError, match="preprocessor_config"):
        inputs_of(tmp_path)


def test_a_text_model_has_no_inputs(tmp_path: Path) -> None:
    """Nor does a folder that says nothing."""
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert inputs_of(tmp_path) is None
    assert inputs_of(tmp_path / "none") is None
