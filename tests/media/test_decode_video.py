"""Frames of videos are those of transformers' own loader, and what is cut short is refused."""

from __future__ import annotations

from fractions import Fraction
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.multimodal.torchvision_import import import_torchvision
from handlers.media.decode_video import Clip, _count, chosen_frames, survey
from handlers.media.faults import MediaFault
from tests.media.files import VIDEOS, encoded_video, pixels, video_file

FORMATS = {"mp4": "MP4", "avi": "AVI", "wmv": "WMV"}
WHOLE = {suffix: video_file(suffix, frames=12) for suffix in VIDEOS}
FRAGMENTED = {"movflags": "frag_keyframe+empty_moov"}


def decoded(path: Path, suffix: str, indices: list[int]) -> NDArray[np.uint8]:
    clip = survey(path, FORMATS[suffix], 10_000, 10.0)
    return np.stack(list(chosen_frames(path, FORMATS[suffix], clip, indices, 10_000)))


def difference(found: NDArray[np.uint8], expected: NDArray[np.uint8]) -> float:
    """Mean of the absolute differences; the codecs lose some."""
    return float(np.abs(found.astype(int) - expected.astype(int)).mean())


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        ("mp4", WHOLE["mp4"]),
        ("mp4", encoded_video("mp4", "libx265", frames=12, pixel_format="yuv420p10le")),
        ("mp4", encoded_video("mp4", "libx264", frames=12, options=FRAGMENTED)),
        ("avi", WHOLE["avi"]),
        ("avi", encoded_video("avi", "libx264", frames=12)),
        ("avi", encoded_video("avi", "mjpeg", frames=12, pixel_format="yuvj420p")),
        ("wmv", WHOLE["wmv"]),
    ],
    ids=["mp4", "hevc of 10 bits", "fragments", "avi", "avi h264", "avi mjpeg", "wmv"],
)
def test_frames_are_those_of_transformers(suffix: str, data: bytes, tmp_path: Path) -> None:
    """Of its loader by PyAV, bit for bit, when it is told which: it knows no number of frames of some."""
    import_torchvision()
    from transformers.video_utils import load_video

    path = tmp_path / "video"
    path.write_bytes(data)
    chosen = np.array([0, 5, 11])
    expected, _ = load_video(str(path), backend="pyav", sample_indices_fn=lambda metadata, **_: chosen)
    assert np.array_equal(decoded(path, suffix, chosen.tolist()), expected)


def test_a_video_of_one_frame_needs_no_rate(tmp_path: Path) -> None:
    """A WMV tells it by the times of two."""
    path = tmp_path / "video"
    path.write_bytes(video_file("wmv", frames=1))
    assert survey(path, "WMV", 10_000, 10.0) == Clip(1, 1.0)
    assert decoded(path, "wmv", [0]).shape == (1, 48, 64, 3)


@pytest.mark.parametrize("suffix", VIDEOS)
def test_chosen_frames_show_what_was_filmed(suffix: str, tmp_path: Path) -> None:
    """Frame k is the k-th, also of WMV, whose header names no number of frames."""
    path = tmp_path / "video"
    path.write_bytes(WHOLE[suffix])
    chosen = [0, 3, 11]
    nearest = [min(range(12), key=lambda k: difference(frame, pixels(k))) for frame in decoded(path, suffix, chosen)]
    assert nearest == chosen


@pytest.mark.parametrize("suffix", VIDEOS)
def test_frames_and_their_rate_are_counted(suffix: str, tmp_path: Path) -> None:
    """In every container."""
    path = tmp_path / "video"
    path.write_bytes(WHOLE[suffix])
    assert survey(path, FORMATS[suffix], 10_000, 10.0) == Clip(12, 8.0)


@pytest.mark.parametrize(("degrees", "quarters"), [(90, 1), (180, 2), (-90, 3)])
def test_frames_are_turned_as_the_container_asks(degrees: int, quarters: int, tmp_path: Path) -> None:
    """As transformers' default decoder does since torchcodec 0.11; its loader by PyAV leaves them lying."""
    sink = BytesIO()
    with av.open(sink, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=8)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.set_display_rotation(degrees)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels(), format="rgb24")))
        container.mux(stream.encode(None))
    path = tmp_path / "video"
    path.write_bytes(sink.getvalue())
    assert difference(decoded(path, "mp4", [0])[0], np.rot90(pixels(), quarters)) < 8


def test_a_title_in_any_encoding_does_no_harm(tmp_path: Path) -> None:
    """Tools in China write GBK into AVI files; the title is not looked at."""
    sink = BytesIO()
    with av.open(sink, "w", format="avi") as container:
        stream = container.add_stream("mpeg4", rate=8)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        container.metadata["title"] = "PLACE"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels(), format="rgb24")))
        container.mux(stream.encode(None))
    path = tmp_path / "video"
    path.write_bytes(sink.getvalue().replace(b"PLACE", "视频".encode("gbk") + b"\0"))
    assert decoded(path, "avi", [0]).shape == (1, 48, 64, 3)


def test_a_few_frames_that_are_missing_at_the_end_show_the_last(tmp_path: Path) -> None:
    """Containers count packets, of which the last ones may hold no picture."""
    path = tmp_path / "video"
    path.write_bytes(WHOLE["mp4"])
    last, beyond = chosen_frames(path, "MP4", Clip(14, 8.0), [11, 13], 10_000)
    assert np.array_equal(last, beyond)


def test_many_frames_that_are_missing_are_a_fault(tmp_path: Path) -> None:
    """Then the file is damaged."""
    path = tmp_path / "video"
    path.write_bytes(WHOLE["mp4"])
    with pytest.raises(MediaFault, match="only 12 of its 100 frames can be decoded"):
        list(chosen_frames(path, "MP4", Clip(100, 8.0), [0, 99], 10_000))


def test_a_video_of_the_longest_time_allowed_is_taken(tmp_path: Path) -> None:
    """Twelve frames at 8 a second last 1.5 s."""
    path = tmp_path / "video"
    path.write_bytes(WHOLE["mp4"])
    assert survey(path, "MP4", 10_000, 1.5).frames == 12
    with pytest.raises(MediaFault, match=r"lasts 2 s; at most 1\.4 s are allowed"):
        survey(path, "MP4", 10_000, 1.4)


def test_packets_beyond_what_the_header_says_are_held_to_the_longest_time() -> None:
    """By their own times, from the first to the last: here two seconds apart, and the header was silent."""
    packet = {"is_corrupt": False, "is_discard": False, "size": 9, "time_base": Fraction(1, 2)}
    packets = [SimpleNamespace(**packet, pts=pts) for pts in (100, 102, 104)]
    container: Any = SimpleNamespace(demux=lambda _: iter(packets))
    assert _count(container, None, "AVI", 2.0) == (3, 2.0)
    with pytest.raises(MediaFault, match=r"lasts 2 s; at most 1\.9 s are allowed"):
        _count(container, None, "AVI", 1.9)


@pytest.mark.parametrize("suffix", VIDEOS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_video_that_is_cut_anywhere_is_refused(
    suffix: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Their decoders would take what is there."""
    whole = WHOLE[suffix]
    cut = data.draw(st.integers(16, len(whole) - 1))
    path = tmp_path_factory.mktemp("cut") / "video"
    path.write_bytes(whole[:cut])
    with pytest.raises(MediaFault) as caught:
        decoded(path, suffix, [0])
    assert caught.value.code == "media_invalid"
    assert str(path) not in caught.value.reason
