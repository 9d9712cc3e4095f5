"""Real media files for tests, made by the libraries that read them: each a function of its arguments alone."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
import soundfile
from numpy.typing import NDArray
from PIL import Image

MIME_TYPES: Final = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "mp4": "video/mp4",
    "avi": "video/x-msvideo",
    "wmv": "video/x-ms-wmv",
    "mp3": "audio/mpeg",
    "wav": "audio/x-wav",
    "flac": "audio/flac",
}
"""Of all formats that are taken, by suffix."""

IMAGES: Final = ("jpg", "jpeg", "png")
VIDEOS: Final = ("mp4", "avi", "wmv")
AUDIOS: Final = ("mp3", "wav", "flac")

_IMAGE_FORMATS: Final = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG"}
_CONTAINERS: Final = {"mp4": ("mp4", "libx264"), "avi": ("avi", "mpeg4"), "wmv": ("asf", "wmv2")}


def pixels(seed: int = 0, *, width: int = 64, height: int = 48) -> NDArray[np.uint8]:
    """Coloured waves, different for each seed, ``[height, width, 3]``: smooth, so that lossy codecs keep them."""
    down, right = np.mgrid[0:height, 0:width] / 16.0
    phases = np.random.default_rng(seed).uniform(0, 2 * np.pi, (3, 2))
    waves = [127.5 + 60 * np.sin(down * (1 + i) + a) + 60 * np.cos(right + b) for i, (a, b) in enumerate(phases)]
    return np.stack(waves, axis=-1).astype(np.uint8)


def picture(seed: int = 0, *, width: int = 64, height: int = 48, mode: str = "RGB") -> Image.Image:
    """A picture of ``pixels`` in a mode of Pillow."""
    return Image.fromarray(pixels(seed, width=width, height=height)).convert(mode)


def image_file(
    suffix: str = "png", seed: int = 0, *, width: int = 64, height: int = 48, mode: str = "RGB", **save: Any
) -> bytes:
    """A JPG or PNG of ``picture``; ``save`` goes to Pillow."""
    return saved(picture(seed, width=width, height=height, mode=mode), _IMAGE_FORMATS[suffix], **save)


def saved(image: Image.Image, format_name: str, **save: Any) -> bytes:
    """An image in any format of Pillow."""
    sink = BytesIO()
    image.save(sink, format_name, **save)
    return sink.getvalue()


def video_file(
    suffix: str = "mp4", seed: int = 0, *, frames: int = 8, width: int = 64, height: int = 48, rate: int = 8
) -> bytes:
    """An MP4 (H.264), AVI (MPEG-4) or WMV (WMV 2); frame k shows ``pixels(seed + k)``; no sound."""
    container_format, codec = _CONTAINERS[suffix]
    return encoded_video(container_format, codec, seed, frames=frames, width=width, height=height, rate=rate)


def encoded_video(
    container_format: str,
    codec: str,
    seed: int = 0,
    *,
    frames: int = 8,
    width: int = 64,
    height: int = 48,
    rate: int = 8,
    pixel_format: str = "yuv420p",
    options: dict[str, str] | None = None,
) -> bytes:
    """A video in any container and codec of PyAV; ``options`` are the container's."""
    sink = BytesIO()
    with av.open(sink, "w", format=container_format, options=options or {}) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        for index in range(frames):
            frame = av.VideoFrame.from_ndarray(pixels(seed + index, width=width, height=height), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return sink.getvalue()


def samples(seed: int = 0, *, seconds: float = 0.5, rate: int = 16000, channels: int = 1) -> NDArray[np.float32]:
    """Two tones in each channel, different for each seed, ``[samples, channels]`` in -1..1."""
    times = np.arange(round(seconds * rate)) / rate
    tones = np.random.default_rng(seed).uniform(100, 1000, (channels, 2))
    waves = [0.4 * np.sin(2 * np.pi * low * times) + 0.4 * np.sin(2 * np.pi * high * times) for low, high in tones]
    return np.stack(waves, axis=-1).astype(np.float32)


def audio_file(
    suffix: str = "wav",
    seed: int = 0,
    *,
    seconds: float = 0.5,
    rate: int = 16000,
    channels: int = 1,
    subtype: str | None = None,
) -> bytes:
    """An MP3, WAV or FLAC of ``samples``; ``subtype`` as soundfile names it."""
    sink = BytesIO()
    wave = samples(seed, seconds=seconds, rate=rate, channels=channels)
    soundfile.write(sink, wave, rate, format=suffix.upper(), subtype=subtype)
    return sink.getvalue()


def media_file(suffix: str, seed: int = 0) -> bytes:
    """A small file of any format of MIME_TYPES."""
    if suffix in IMAGES:
        return image_file(suffix, seed)
    return video_file(suffix, seed) if suffix in VIDEOS else audio_file(suffix, seed)


def write_demos(folder: Path, seed: int = 0) -> dict[str, Path]:
    """Write ``demo`` in every format of MIME_TYPES; the paths by suffix."""
    paths = {suffix: folder / f"demo.{suffix}" for suffix in MIME_TYPES}
    for suffix, path in paths.items():
        path.write_bytes(media_file(suffix, seed))
        path.chmod(0o640)
    return paths


def base64_of(data: bytes) -> str:
    """As it stands in a request."""
    return base64.b64encode(data).decode()


def data_uri(suffix: str, data: bytes) -> str:
    """A data URI with the MIME type of a suffix."""
    return f"data:{MIME_TYPES[suffix]};base64,{base64_of(data)}"
