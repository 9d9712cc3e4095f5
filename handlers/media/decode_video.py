"""Decodes the frames of an MP4, AVI or WMV file that a model looks at, one by one, within limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
from numpy.typing import NDArray

from handlers.media.faults import MediaFault, invalid, too_large
from handlers.media.whole import check_whole

_DEMUXERS: Final = {"MP4": "mp4", "AVI": "avi", "WMV": "asf"}
_CODECS: Final = (
    *("h264", "hevc", "mpeg4", "h263", "mpeg1video", "mpeg2video", "vp8", "vp9", "libdav1d", "av1"),
    *("msmpeg4v1", "msmpeg4v2", "msmpeg4", "wmv1", "wmv2", "wmv3", "vc1", "mjpeg", "dvvideo"),
)
"""Decoders that may run on a client's bytes; those of the library are some five hundred."""
_MISSED_FRAMES: Final = 16
"""At the end of a video that holds no picture for its last packets: as many as a decoder may hold back."""

_MARGIN_PIXELS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Clip:
    """What is known of a video before a frame of it is decoded."""

    frames: int
    """Counted, not as its header says."""
    frames_per_s: float


def survey(path: Path, format_name: str, max_pixels: int, max_s: float) -> Clip:
    """Read all of a video without decoding it.

    Raises:
        MediaFault: it is too long, has too many pixels, no video of a known codec, or is damaged.
    """
    with path.open("rb") as file:
        check_whole(file, format_name)
    try:
        with _opened(path, format_name, max_pixels) as container:
            stream = _stream(container, max_pixels)
            _check_header(container, stream, max_pixels, max_s)
            frames, seconds = _count(container, stream, format_name, max_s)
            rate = float(stream.average_rate or 0)
    except (MediaFault, MemoryError):
        raise
    except Exception:  # the library may end in any exception at bytes that are made for it
        raise _damaged(format_name) from None
    if not rate and frames == 1:
        rate = 1.0  # of one frame nothing depends on it
    if not rate and seconds > 0:
        rate = (frames - 1) / seconds
    if not rate > 0:
        raise invalid("does not say how fast its frames come")
    return Clip(frames, rate)


def chosen_frames(
    path: Path, format_name: str, clip: Clip, indices: Sequence[int], max_pixels: int
) -> Iterator[NDArray[np.uint8]]:
    """The frames of these ascending indices, each ``[height, width, 3]`` in RGB.

    Pixels are those of ``transformers.video_utils.load_video(backend="pyav")``. Like its default decoder, torchcodec
    (from 0.11), and unlike PyAV's, frames are turned as the container asks, to the nearest quarter.

    Raises:
        MediaFault: frames change their size, or cannot be decoded.
        MemoryError: as it says.
    """
    wanted = iter(indices)
    next_index = next(wanted, None)
    size: tuple[int, int] | None = None
    frame: Any = None
    index = -1
    try:
        with _opened(path, format_name, max_pixels) as container:
            stream = _stream(container, max_pixels)
            for index, frame in enumerate(container.decode(stream)):
                if size is None:
                    _check_pixels(frame, max_pixels)
                    size = frame.width, frame.height
                if (frame.width, frame.height) != size:
                    new, old = f"{frame.width} x {frame.height}", f"{size[0]} x {size[1]}"
                    raise invalid(f"changes its size from {old} to {new} at frame {index}")
                while next_index == index:
                    yield _pixels(frame)
                    next_index = next(wanted, None)
                if next_index is None:
                    return
    except (MediaFault, MemoryError):
        raise
    except Exception:  # as above; nor does a decoder say that frames are too large for it
        raise _damaged(format_name, f", or has frames of more than {max_pixels} pixels") from None
    if frame is None or index + 1 + _MISSED_FRAMES < clip.frames:
        raise invalid(f"is damaged: only {index + 1} of its {clip.frames} frames can be decoded")
    while next_index is not None:
        yield _pixels(frame)
        next_index = next(wanted, None)


def _opened(path: Path, format_name: str, max_pixels: int) -> Any:
    """Opened as this one format, by this one protocol: a file that names others is not followed."""
    options = {
        "codec_whitelist": ",".join(_CODECS),
        "protocol_whitelist": "file",
        "max_pixels": _decoder_pixels(max_pixels),
        "threads": "1",
    }
    return av.open(str(path), format=_DEMUXERS[format_name], options=options, metadata_errors="ignore")


def _decoder_pixels(max_pixels: int) -> str:
    """What a decoder may at most make room for; some want a margin around each frame."""
    return str(2 * max_pixels + _MARGIN_PIXELS)


def _stream(container: Any, max_pixels: int) -> Any:
    """The first stream of pictures that is no cover, whose decoder refuses much larger ones by itself."""
    for stream in container.streams.video:
        if not stream.disposition & av.stream.Disposition.attached_pic:
            break
    else:
        raise invalid("holds no video")
    codec = stream.codec_context
    if codec is None or codec.name not in _CODECS:
        name = "unknown" if codec is None else codec.name
        raise invalid(f"holds {name} video, which is not taken; H.264, HEVC, MPEG-4 and WMV are, and some older ones")
    codec.thread_count = 1
    codec.options = {"max_pixels": _decoder_pixels(max_pixels)}
    return stream


def _check_header(container: Any, stream: Any, max_pixels: int, max_s: float) -> None:
    _check_pixels(stream.codec_context, max_pixels)
    whole = 0.0 if container.duration is None else container.duration / av.time_base
    own = 0.0 if stream.duration is None else float(stream.duration * stream.time_base)
    _check_length(max(whole, own), max_s)


def _check_pixels(picture: Any, max_pixels: int) -> None:
    width, height = picture.width, picture.height
    if width * height > max_pixels:
        raise too_large(f"has {width} x {height} = {width * height} pixels a frame; at most {max_pixels} are allowed")


def _check_length(seconds: float, max_s: float) -> None:
    if seconds > max_s:
        raise too_large(f"lasts {seconds:.0f} s; at most {max_s:g} s are allowed")


def _count(container: Any, stream: Any, format_name: str, max_s: float) -> tuple[int, float]:
    """How many packets hold a frame, and the seconds between the first and the last."""
    frames = 0
    first: float | None = None
    last = 0.0
    for packet in container.demux(stream):
        if packet.is_corrupt:
            raise invalid(f"is a damaged {format_name} file: packet {frames} is not whole")
        if not packet.size or packet.is_discard:
            continue
        frames += 1
        if packet.pts is None:
            continue
        place = float(packet.pts * packet.time_base)
        first = place if first is None else min(first, place)
        last = max(last, place)
        _check_length(last - first, max_s)
    if not frames:
        raise invalid("holds no frames")
    if format_name == "MP4" and frames < stream.frames // 2:
        raise invalid(f"says it has {stream.frames} frames, of which {frames} are there")
    return frames, last - (first or 0.0)


def _pixels(frame: Any) -> NDArray[np.uint8]:
    pixels: NDArray[np.uint8] = frame.to_ndarray(format="rgb24")
    quarters = round(frame.rotation / 90) % 4
    return np.ascontiguousarray(np.rot90(pixels, quarters)) if quarters else pixels


def _damaged(format_name: str, more: str = "") -> MediaFault:
    """In words of ours: the library's hold the path."""
    return invalid(f"is a damaged {format_name} file: it cannot be decoded{more}")
