"""Decodes an MP3, WAV or FLAC file as transformers' own loader does, within limits that hold while it is read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from handlers.media.faults import MediaFault, invalid, too_large
from handlers.media.whole import check_whole, counts_frames

_RATES_HZ: Final = (1_000, 384_000)
_MAX_CHANNELS: Final = 8
_BLOCK_SAMPLES: Final = 1 << 20
_CONTAINERS: Final = {"WAV": ("WAV", "WAVEX"), "MP3": ("MP3",), "FLAC": ("FLAC",)}
_PLAIN: Final = ("PCM_U8", "PCM_S8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")
_CODINGS: Final = {
    "WAV": (*_PLAIN, "ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM"),
    "FLAC": _PLAIN,
    "MP3": ("MPEG_LAYER_III",),
}
"""The library reads rarer ones too, down to MP3 inside WAV."""


def decode_audio(path: Path, format_name: str, rate_hz: int, max_s: float) -> NDArray[np.float32]:
    """The recording at ``rate_hz``, one channel, ``[samples]``.

    The samples are those of ``transformers.audio_utils.load_audio(backend="soundfile")``: float32, the channels'
    mean, resampled by soxr in high quality, as many as the two rates say. Unlike there, a file is refused that ends
    before its header says.

    Args:
        path: the file.
        format_name: ``MP3``, ``WAV`` or ``FLAC``.
        rate_hz: that the model wants.
        max_s: the longest recording that is taken; it is also held against what is read, since headers lie.

    Raises:
        MediaFault: it is too long, has a rate, channels or a coding that is not taken, no samples, or is damaged.
        MemoryError: as it says.
    """
    with path.open("rb") as file:
        check_whole(file, format_name)
        counted = format_name != "MP3" or counts_frames(file)
    try:
        with soundfile.SoundFile(str(path)) as sound:
            _check(sound, format_name, max_s)
            samples, rate, said = _read(sound, max_s), sound.samplerate, sound.frames
    except (MediaFault, MemoryError):
        raise
    except Exception:  # in words of ours: the library's hold the path
        raise invalid(f"is a damaged {format_name} file: it cannot be decoded to its end") from None
    if not len(samples):
        raise invalid("holds no samples")
    if counted and len(samples) < said:
        raise invalid(f"is cut short: it has {len(samples)} of the {said} samples that it says it has")
    if rate != rate_hz:
        length = math.ceil(len(samples) * rate_hz / rate)
        samples = soxr.resample(samples, rate, rate_hz, quality="soxr_hq")
        samples = np.pad(samples, (0, max(0, length - len(samples))))[:length]
    return np.ascontiguousarray(samples, dtype=np.float32)


def _check(sound: Any, format_name: str, max_s: float) -> None:
    low, high = _RATES_HZ
    if sound.format not in _CONTAINERS[format_name]:
        raise invalid(f"begins like {format_name} but is no such file")
    if sound.subtype not in _CODINGS[format_name]:
        allowed = ", ".join(_CODINGS[format_name])
        raise invalid(f"holds {sound.subtype} samples; of {format_name}, {allowed} are taken")
    if not low <= sound.samplerate <= high:
        raise invalid(f"has {sound.samplerate} samples a second; {low} to {high} are taken")
    if sound.channels > _MAX_CHANNELS:
        raise invalid(f"has {sound.channels} channels; at most {_MAX_CHANNELS} are taken")
    _check_length(sound.frames, sound.samplerate, max_s)


def _check_length(samples: int, rate: int, max_s: float) -> None:
    if samples > max_s * rate:
        raise too_large(f"lasts {samples / rate:.0f} s or more; at most {max_s:g} s are allowed")


def _read(sound: Any, max_s: float) -> NDArray[np.float32]:
    """Block by block, so that many channels are never in memory at once, and a header that says too little does not
    matter."""
    blocks: list[NDArray[np.float32]] = []
    count = 0
    while len(block := sound.read(_BLOCK_SAMPLES, dtype="float32", always_2d=True)):
        count += len(block)
        _check_length(count, sound.samplerate, max_s)
        channels = block.T  # [channels, samples]
        blocks.append(channels.mean(axis=0) if len(channels) > 1 else channels[0])
    return np.concatenate(blocks) if blocks else np.empty(0, np.float32)
