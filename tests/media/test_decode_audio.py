"""Recordings are decoded and resampled as by transformers' own loader, and what is cut short is refused."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.multimodal.torchvision_import import import_torchvision
from handlers.media.decode_audio import _read, decode_audio
from handlers.media.faults import MediaFault
from tests.media.files import AUDIOS, audio_file

WHOLE = {suffix: audio_file(suffix, seconds=1.0) for suffix in AUDIOS}


def assert_as_transformers(path: Path, suffix: str) -> None:
    import_torchvision()
    from transformers.audio_utils import load_audio

    expected = load_audio(str(path), sampling_rate=16_000, backend="soundfile")
    found = decode_audio(path, suffix.upper(), 16_000, 10.0)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("suffix", AUDIOS)
@pytest.mark.parametrize(("rate", "channels"), [(16_000, 1), (16_000, 2), (44_100, 2), (8_000, 1)])
def test_samples_are_those_of_transformers(suffix: str, rate: int, channels: int, tmp_path: Path) -> None:
    """Bit for bit, with channels mixed and rates changed."""
    path = tmp_path / "recording"
    path.write_bytes(audio_file(suffix, seconds=0.7, rate=rate, channels=channels))
    assert_as_transformers(path, suffix)


@pytest.mark.parametrize(
    ("suffix", "subtype"),
    [
        *(("wav", subtype) for subtype in ("PCM_U8", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "IMA_ADPCM")),
        ("flac", "PCM_24"),
    ],
)
def test_a_coding_is_read_as_by_transformers(suffix: str, subtype: str, tmp_path: Path) -> None:
    """8 to 64 bits, telephone samples."""
    path = tmp_path / "recording"
    path.write_bytes(audio_file(suffix, subtype=subtype))
    assert_as_transformers(path, suffix)


def test_eight_channels_are_mixed_as_by_transformers(tmp_path: Path) -> None:
    """The most that are taken."""
    path = tmp_path / "recording"
    path.write_bytes(audio_file("wav", channels=8))
    assert_as_transformers(path, "wav")


@pytest.mark.parametrize("size", [0xFFFF_FFFF])
def test_a_recording_that_was_streamed_is_taken(size: int, tmp_path: Path) -> None:
    """Its writer could not go back to say how long it is."""
    data = bytearray(WHOLE["wav"])
    data[4:8] = data[40:44] = struct.pack("<I", size)
    path = tmp_path / "recording"
    path.write_bytes(data)
    assert_as_transformers(path, "wav")


@pytest.mark.parametrize("suffix", AUDIOS)
def test_a_recording_of_the_longest_time_allowed_is_taken(suffix: str, tmp_path: Path) -> None:
    """One second of one second."""
    path = tmp_path / "recording"
    path.write_bytes(WHOLE[suffix])
    assert len(decode_audio(path, suffix.upper(), 16_000, 1.0)) == 16_000
    with pytest.raises(MediaFault, match=r"lasts 1 s or more; at most 0\.9 s are allowed") as caught:
        decode_audio(path, suffix.upper(), 16_000, 0.9)
    assert caught.value.code == "media_too_large"


def test_a_recording_that_goes_on_beyond_its_header_is_held_to_the_longest_time() -> None:
    """Of a second each block; the third one is never read."""
    blocks = [np.zeros((1000, 2), np.float32)] * 3
    sound = SimpleNamespace(samplerate=1000, read=lambda *_, **__: blocks.pop())
    with pytest.raises(MediaFault, match=r"lasts 2 s or more; at most 1\.5 s are allowed"):
        _read(sound, 1.5)
    assert len(blocks) == 1


def test_a_chunk_of_odd_length_before_the_samples_is_stepped_over(tmp_path: Path) -> None:
    """A byte of padding follows it; what is cut short behind it is seen as such."""
    head, samples_of = WHOLE["wav"][:36], WHOLE["wav"][36:]
    assert samples_of.startswith(b"data")
    path = tmp_path / "recording"
    path.write_bytes(head + b"LIST\x03\0\0\0abc\0" + samples_of)
    assert_as_transformers(path, "wav")
    path.write_bytes((head + b"LIST\x03\0\0\0abc\0" + samples_of)[:-100])
    with pytest.raises(MediaFault, match="is cut short"):
        decode_audio(path, "WAV", 16_000, 10.0)


@pytest.mark.parametrize("suffix", AUDIOS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_recording_that_is_cut_anywhere_is_refused(
    suffix: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """libsndfile would take what is there of WAV and MP3."""
    whole = WHOLE[suffix]
    cut = data.draw(st.integers(12, len(whole) - 1))
    path = tmp_path_factory.mktemp("cut") / "recording"
    path.write_bytes(whole[:cut])
    with pytest.raises(MediaFault) as caught:
        decode_audio(path, suffix.upper(), 16_000, 10.0)
    assert caught.value.code == "media_invalid"
    assert str(path) not in caught.value.reason
