"""Encoders of media: their embeddings in the text part give what transformers' whole model gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from torch import Tensor

from engine.multimodal.encoders.internvl import InternVLEncoder
from engine.multimodal.encoders.qwen2_audio import Qwen2AudioEncoder
from engine.multimodal.encoders.qwen3_vl import Qwen3VLEncoder
from engine.multimodal.family import MediaEncoder
from engine.multimodal.features import Features
from engine.multimodal.inputs.internvl import InternVLInputs
from engine.multimodal.inputs.qwen3_vl import Qwen3VLInputs
from tests.media.files import audio_file, image_file, picture, pixels, video_file
from tests.tiny_media import MediaModels, reference_inputs, video_frames

CLOSE = 1e-4
"""Products of other shapes sum in another order."""
QUESTION = {"type": "text", "text": "What is it?"}


def whole_model(folder: Path) -> Any:
    """transformers' model of a folder, in float32."""
    architecture = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    return getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32).eval()


def text_logits(encoder: MediaEncoder, ids: Tensor, is_media: Tensor, embeddings: Tensor) -> Tensor:
    """Of the text part ``[1, tokens, vocab]``: ``ids`` ``[tokens]``, but embeddings where ``is_media`` ``[tokens]``."""
    text: Any = encoder.text_model()
    embedded = text.get_input_embeddings()(ids)
    embedded[is_media] = embeddings
    logits: Tensor = text(inputs_embeds=embedded[None], position_ids=torch.arange(len(ids))[None]).logits
    return logits


def place(ids: Tensor, item: Tensor) -> slice:
    """Where the tokens of an item, ``[tokens]``, stand in a prompt's."""
    starts = [k for k in range(len(ids)) if torch.equal(ids[k : k + len(item)], item)]
    assert len(starts) == 1
    return slice(starts[0], starts[0] + len(item))


def audio_features(inputs: Any) -> Features:
    """What the encoder gets of the processor's answer."""
    return {name: inputs[name] for name in ("input_features", "feature_attention_mask")}


def stops_hit(encoder: MediaEncoder, kind: Any, features: Features) -> list[int]:
    """Indices of ``stops`` in the order in which an encode comes to each for the first time."""
    hit: list[int] = []
    for index, module in enumerate(encoder.stops(kind)):
        module.register_forward_pre_hook(lambda *_, index=index: hit.append(index))
    with torch.inference_mode():
        encoder.encode(kind, features)
    return list(dict.fromkeys(hit))


@pytest.mark.parametrize("seconds", [0.04, 0.5, 2.0, 3.0])
def test_a_recording_is_heard_as_transformers_hears_it(
    seconds: float, media_models: MediaModels, tmp_path: Path
) -> None:
    """One token's worth, part of the encoder's length, all of it, and more, of which the processor cuts the end."""
    folder = media_models.folder("qwen2_audio")
    file = tmp_path / "a.wav"
    file.write_bytes(audio_file("wav", seconds=seconds))
    inputs = reference_inputs(folder, [{"role": "user", "content": [{"type": "audio"}, QUESTION]}], [file])
    ids = inputs["input_ids"][0]
    whole = whole_model(folder)
    encoder = Qwen2AudioEncoder(whole)
    with torch.inference_mode():
        expected = whole(**inputs).logits
        embeddings = encoder.encode("audio", audio_features(inputs))
        logits = text_logits(encoder, ids, ids == encoder.token_ids["audio"], embeddings)
    assert len(embeddings) == {0.04: 1, 0.5: 12, 2.0: 50, 3.0: 50}[seconds]
    torch.testing.assert_close(logits, expected, rtol=CLOSE, atol=CLOSE)


def test_two_recordings_are_encoded_apart_as_together(media_models: MediaModels, tmp_path: Path) -> None:
    """transformers encodes all recordings of a prompt in one batch; here each is alone, so that it can be kept."""
    folder = media_models.folder("qwen2_audio")
    files = [tmp_path / "a.wav", tmp_path / "b.flac"]
    files[0].write_bytes(audio_file("wav", 1, seconds=0.3))
    files[1].write_bytes(audio_file("flac", 2, seconds=1.1))
    content = [{"type": "audio"}, {"type": "audio"}, QUESTION]
    inputs = reference_inputs(folder, [{"role": "user", "content": content}], files)
    ids = inputs["input_ids"][0]
    whole = whole_model(folder)
    encoder = Qwen2AudioEncoder(whole)
    with torch.inference_mode():
        expected = whole(**inputs).logits
        alone = [{name: value[k : k + 1] for name, value in audio_features(inputs).items()} for k in (0, 1)]
        embeddings = torch.cat([encoder.encode("audio", features) for features in alone])
        logits = text_logits(encoder, ids, ids == encoder.token_ids["audio"], embeddings)
    torch.testing.assert_close(logits, expected, rtol=CLOSE, atol=CLOSE)


def test_tiles_and_frames_are_seen_as_transformers_sees_them(media_models: MediaModels, tmp_path: Path) -> None:
    """An image of several tiles and a video, with the marks that the processor puts around them."""
    folder = media_models.folder("internvl")
    files = [tmp_path / "a.png", tmp_path / "b.mp4"]
    files[0].write_bytes(image_file("png", 3, width=150, height=60))
    files[1].write_bytes(video_file("mp4", 4, frames=8, rate=8))
    content = [{"type": "image"}, QUESTION, {"type": "video"}]
    inputs = reference_inputs(folder, [{"role": "user", "content": content}], files)
    whole = whole_model(folder)
    encoder = InternVLEncoder(whole)
    made = InternVLInputs(folder)
    frames, metadata = video_frames(transformers.AutoVideoProcessor.from_pretrained(folder), files[1])
    image = made.image(Image.open(files[0]))
    video = made.video(iter(frames), metadata.frames_indices, 8, 8.0)
    # Three tiles in a row, and all of the image once more.
    assert (len(image.features["pixel_values"]), image.tokens) == (4, 1 + 4 * 4 + 1)
    # Each frame with "\nFrame1: " and marks before and behind 4 embeddings; the first begins with no new line.
    assert (len(video.features["pixel_values"]), video.tokens) == (8, 8 * (9 + 1 + 4 + 1) - 1)
    ids = inputs["input_ids"][0]
    items = (image, video)
    is_media = torch.zeros_like(ids, dtype=torch.bool)
    for item in items:
        is_media[place(ids, item.features["item_ids"])] = True
    with torch.inference_mode():
        expected = whole(**inputs).logits
        embeddings = [encoder.encode(kind, item.features) for kind, item in zip(("image", "video"), items, strict=True)]
        logits = text_logits(encoder, ids, is_media, torch.cat(embeddings))
    torch.testing.assert_close(logits, expected, rtol=CLOSE, atol=CLOSE)


def test_frames_are_the_middles_of_equal_parts(media_models: MediaModels) -> None:
    """Eight where the folder names no number, or all of a shorter video."""
    made = InternVLInputs(media_models.folder("internvl"))
    assert made.frame_indices(80, 8.0) == [5, 15, 25, 35, 45, 55, 65, 75]
    assert made.frame_indices(3, 8.0) == [0, 1, 2]
    assert made.frame_indices(1, 8.0) == [0]


def test_frames_at_a_rate_that_a_folder_names_are_one_at_least(media_models: MediaModels) -> None:
    """One a second: three of 24 at 8 a second, and the middle one of three that last less than a second."""
    made = InternVLInputs(media_models.folder("internvl"))
    videos = made._processor.video_processor
    videos.num_frames, videos.fps = None, 1.0
    assert made.frame_indices(24, 8.0) == [4, 12, 20]
    assert made.frame_indices(3, 8.0) == [1]


def test_a_video_has_its_own_token(media_models: MediaModels) -> None:
    """The model's configuration names that of images only; that of videos is the tokenizer's."""
    encoder = InternVLEncoder(whole_model(media_models.folder("internvl")))
    assert encoder.token_ids == {"image": 256 + 5, "video": 256 + 6}


def test_a_video_of_one_frame_is_refused_with_a_reason(media_models: MediaModels) -> None:
    """Qwen3-VL sees frames in pairs, and its processor makes none of a single one."""
    made = Qwen3VLInputs(media_models.folder("qwen3_vl"))
    assert list(made.frame_indices(1, 8.0)) == [0]
    with pytest.raises(ValueError, match="it has 1 frame, and the model looks at 2"):
        made.video(iter([pixels()]), [0], 1, 8.0)


def test_encoders_can_pause_before_each_product(media_models: MediaModels, tmp_path: Path) -> None:
    """An encode comes to each of its stops, in their order."""
    file = tmp_path / "a.wav"
    file.write_bytes(audio_file("wav"))
    folder = media_models.folder("qwen2_audio")
    inputs = reference_inputs(folder, [{"role": "user", "content": [{"type": "audio"}]}], [file])
    # Two convolutions, six products in each of two layers, the projection.
    assert stops_hit(Qwen2AudioEncoder(whole_model(folder)), "audio", audio_features(inputs)) == list(range(15))
    folder = media_models.folder("qwen3_vl")
    features = Qwen3VLInputs(folder).image(picture()).features
    # The patches; attention and four products in each of two layers, and two behind it; two of the projection.
    assert stops_hit(Qwen3VLEncoder(whole_model(folder)), "image", features) == list(range(17))
    folder = media_models.folder("internvl")
    features = InternVLInputs(folder).image(picture()).features
    # Six products in each of two layers, two of the projection.
    assert stops_hit(InternVLEncoder(whole_model(folder)), "image", features) == list(range(14))
