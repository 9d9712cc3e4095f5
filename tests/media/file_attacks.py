"""Attacks by the bytes of files, as data: what a client brings, and what it is told."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from typing import Any, Final

import av
import numpy as np
import soundfile
from PIL import Image

from engine.types import MediaKind
from tests.media.files import audio_file, encoded_video, image_file, picture, samples, saved, video_file

INVALID: Final = "media_invalid"
TOO_LARGE: Final = "media_too_large"
MANY: Final = 1_000_000_000


@dataclass(frozen=True)
class FileAttack:
    """One file."""

    name: str
    kind: MediaKind
    data: Callable[[], bytes]
    code: str
    words: str
    """Of the message."""
    said: str | None = None
    """The audio format that the client names."""

    def __str__(self) -> str:
        return self.name


def chunk(name: bytes, data: bytes) -> bytes:
    """Of a PNG, with its checksum."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(
    width: int = 8,
    height: int = 8,
    *,
    bits: int = 8,
    colour: int = 0,
    data: bytes | None = None,
    extra: bytes = b"",
    behind: bytes = b"",
) -> bytes:
    """A PNG whose header says anything; ``extra`` stands before the pixels, ``behind`` after them."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    packed = zlib.compress(bytes((width + 1) * height)) if data is None else data
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + extra + chunk(b"IDAT", packed) + behind + chunk(b"IEND", b"")


def png_bomb(side: int) -> bytes:
    """A true PNG of so many pixels each way, one bit each, in a few kilobytes."""
    return saved(Image.new("1", (side, side)), "PNG")


def bomb(size: int) -> bytes:
    """Zeros, deflated."""
    return zlib.compress(bytes(size), 9)


def replaced(data: bytes, place: int, new: bytes) -> bytes:
    """Other bytes at a place."""
    return data[:place] + new + data[place + len(new) :]


def jpeg_of(width: int, height: int) -> bytes:
    """A JPEG whose frame header says another size (ISO 10918-1, B.2.2)."""
    data = image_file("jpg")
    return replaced(data, data.index(b"\xff\xc0") + 5, struct.pack(">HH", height, width))


def jpeg_of_scans(side: int, scans: int) -> bytes:
    """A progressive JPEG whose last scan stands there again and again."""
    data = saved(Image.new("L", (side, side)), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:-2] + data[last:-2] * scans + data[-2:]


def animated(format_name: str) -> bytes:
    """Two pictures in turn."""
    return saved(picture(), format_name, save_all=True, append_images=[picture(1)], duration=100)


def cut(data: bytes) -> bytes:
    """The first half."""
    return data[: len(data) // 2]


def pictures_in(container_format: str, *pictures: bytes, apart_s: int = 1) -> bytes:
    """A video of JPEG pictures, so many seconds apart; its header says 64 x 48."""
    sink = BytesIO()
    with av.open(sink, "w", format=container_format) as container:
        stream: Any = container.add_stream("mjpeg", rate=1)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        for index, data in enumerate(pictures):
            packet = av.Packet(data)
            place = index * apart_s
            packet.stream, packet.pts, packet.dts, packet.time_base = stream, place, place, Fraction(1)
            packet.is_keyframe = True
            container.mux(packet)
    return sink.getvalue()


def avi_of_many_frames() -> bytes:
    """An AVI whose headers say a thousand million."""
    data = video_file("avi")
    data = replaced(data, data.index(b"avih") + 8 + 16, struct.pack("<I", MANY))
    return replaced(data, data.index(b"strh") + 8 + 32, struct.pack("<I", MANY))


def mp4_of_many_frames() -> bytes:
    """An MP4 whose sample table says a thousand million, all of one size and one time."""
    data = video_file("mp4")
    data = replaced(data, data.index(b"stts") + 8, struct.pack(">III", 1, MANY, 1))
    return replaced(data, data.index(b"stsz") + 8, struct.pack(">II", 1, MANY))


def wav(*, rate: int = 16_000, channels: int = 1, size: int | None = None, before: bytes = b"") -> bytes:
    """A WAV whose header says anything; ``before`` stands before the samples."""
    body = samples(seconds=0.5).tobytes()
    form = struct.pack("<HHIIHH", 3, channels, rate, rate * 4, 4 * channels & 0xFFFF, 32)
    length = len(body) if size is None else size
    inner = b"WAVE" + b"fmt " + struct.pack("<I", 16) + form + before + b"data" + struct.pack("<I", length) + body
    return b"RIFF" + struct.pack("<I", len(inner)) + inner


def flac_of(total: int) -> bytes:
    """A FLAC whose stream header says another number of samples."""
    data = audio_file("flac")
    place = 8 + 13
    return replaced(data, place, bytes([data[place] & 0xF0 | total >> 32]) + struct.pack(">I", total & 0xFFFF_FFFF))


def long_silence() -> bytes:
    """A FLAC of an hour, in some kilobytes."""
    sink = BytesIO()
    soundfile.write(sink, np.zeros(3600 * 1000, np.int16), 1000, format="FLAC")
    return sink.getvalue()


def sound_in(format_name: str, subtype: str | None = None) -> bytes:
    """A recording in any format of soundfile."""
    sink = BytesIO()
    soundfile.write(sink, samples(), 16_000, format=format_name, subtype=subtype)
    return sink.getvalue()


def noise(head: bytes, size: int = 5_000) -> bytes:
    """Random bytes behind the first ones of a format."""
    return head + random.Random(7).randbytes(size)


IMAGES: Final = (
    ("an empty file", lambda: b"", INVALID, "is empty"),
    ("a GIF", lambda: saved(picture(), "GIF"), INVALID, "is in GIF format; an image must be a JPEG or PNG file"),
    ("an animated GIF", lambda: animated("GIF"), INVALID, "is in GIF format"),
    ("an animated WebP", lambda: animated("WEBP"), INVALID, "is in WebP format"),
    ("an animated PNG", lambda: animated("PNG"), INVALID, "is an animated PNG; an image must be a still picture"),
    ("a BMP", lambda: saved(picture(), "BMP"), INVALID, "is in BMP format"),
    ("a TIFF", lambda: saved(picture(), "TIFF"), INVALID, "is in TIFF format"),
    ("an SVG", lambda: b'<?xml version="1.0"?><svg onload="x()"/>', INVALID, "is in SVG format"),
    ("a page of a login wall", lambda: b"\n<!doctype html><p>secret</p>", INVALID, "is in HTML or XML format"),
    ("an answer of an API", lambda: b'{"secret": 1}', INVALID, "is in JSON format"),
    ("a ZIP", lambda: b"PK\x03\x04" + bytes(99), INVALID, "is in ZIP format"),
    ("a PDF with a JPEG in it", lambda: b"%PDF-1.7\n" + image_file("jpg"), INVALID, "is in PDF format"),
    ("a GIF with a PNG behind it", lambda: b"GIF89a" + image_file("png"), INVALID, "is in GIF format"),
    ("a video", lambda: video_file("mp4"), INVALID, "is in MP4 format; an image must be"),
    ("noise", lambda: noise(b""), INVALID, "is in no known format"),
    ("noise behind the first bytes of a PNG", lambda: noise(b"\x89PNG\r\n\x1a\n"), INVALID, "PNG"),
    ("noise behind the first bytes of a JPEG", lambda: noise(b"\xff\xd8\xff\xe0"), INVALID, "JPEG"),
    ("a PNG of 81 million pixels", lambda: png_bomb(9_000), TOO_LARGE, "has 9000 x 9000 = 81000000 pixels; at most"),
    ("a PNG that says two thousand million each way", lambda: png(2**31 - 1, 2**31 - 1, data=b""), TOO_LARGE, "pixels"),
    ("a PNG that says one pixel times many", lambda: png(1, 2**31 - 1, data=b""), TOO_LARGE, "has 1 x 2147483647"),
    ("a JPEG that says 65,500 each way", lambda: jpeg_of(65_500, 65_500), TOO_LARGE, "has 65500 x 65500"),
    (
        "a JPEG of 200 scans",
        lambda: jpeg_of_scans(4_000, 200),
        TOO_LARGE,
        "is a JPEG of 206 scans of 16000000 pixels; at most 32 are allowed",
    ),
    ("a PNG without width", lambda: png(0, 8), INVALID, "PNG"),
    ("a PNG of 7 bits", lambda: png(bits=7), INVALID, "PNG"),
    ("a PNG of pixels that are no deflated data", lambda: png(data=b"none"), INVALID, "is a damaged PNG"),
    ("a PNG with fewer rows than it says", lambda: png(64, 4_000, data=bomb(640)), INVALID, "is cut short"),
    ("a PNG with a wrong checksum", lambda: replaced(png(), 30, b"\xff"), INVALID, "PNG"),
    ("half of a PNG", lambda: cut(image_file("png")), INVALID, "is cut short: its PNG data end before"),
    ("half of a JPEG", lambda: cut(image_file("jpg")), INVALID, "is cut short: its JPEG data end before"),
    (
        "a PNG with a deflated text of 100 MB",
        lambda: png(extra=chunk(b"zTXt", b"k\0\0" + bomb(10**8))),
        TOO_LARGE,
        "unpack",
    ),
    (
        "a PNG with a deflated international text of 100 MB",
        lambda: png(extra=chunk(b"iTXt", b"k\0\1\0\0\0" + bomb(10**8))),
        TOO_LARGE,
        "unpack",
    ),
    ("a PNG with a profile of 100 MB", lambda: png(extra=chunk(b"iCCP", b"k\0\0" + bomb(10**8))), TOO_LARGE, "unpack"),
    (
        "a PNG with a deflated text of 100 MB behind its pixels",
        lambda: png(behind=chunk(b"zTXt", b"k\0\0" + bomb(10**8))),
        TOO_LARGE,
        "unpack",
    ),
    (
        "a PNG with a hundred deflated texts of 1 MB",
        lambda: png(extra=chunk(b"zTXt", b"k\0\0" + bomb(10**6)) * 100),
        TOO_LARGE,
        "unpack",
    ),
    (
        "a picture of 300 pixels by one",
        lambda: image_file("png", width=300, height=1),
        INVALID,
        "is not taken by the model",
    ),
)

VIDEOS: Final = (
    ("a picture", lambda: image_file("png"), INVALID, "is in PNG format; a video must be an MP4, AVI or WMV file"),
    ("a Matroska file", lambda: encoded_video("matroska", "libx264"), INVALID, "is in Matroska or WebM format"),
    ("a QuickTime file", lambda: encoded_video("mov", "libx264"), INVALID, "is in QuickTime format"),
    ("a Flash video", lambda: encoded_video("flv", "flv"), INVALID, "is in FLV format"),
    ("a playlist", lambda: b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", INVALID, "is in playlist format"),
    ("a list of files", lambda: b"ffconcat version 1.0\nfile /etc/passwd\n", INVALID, "is in no known format"),
    (
        "an AVI in a codec that is not taken",
        lambda: encoded_video("avi", "ffv1"),
        INVALID,
        "ffv1 video, which is not taken",
    ),
    ("an MP4 of sound alone", lambda: mp4_of_sound(), INVALID, "holds no video"),
    ("half of an MP4", lambda: cut(video_file("mp4")), INVALID, "is cut short"),
    ("half of an AVI", lambda: cut(video_file("avi")), INVALID, "is cut short"),
    ("half of a WMV", lambda: cut(video_file("wmv")), INVALID, "is cut short"),
    ("a WMV's first bytes", lambda: video_file("wmv")[:30], INVALID, "does not say how long it is"),
    (
        "noise behind the first bytes of an MP4",
        lambda: noise(b"\0\0\0\x14ftypisom\0\0\0\0isom"),
        INVALID,
        "is cut short",
    ),
    ("noise behind the first bytes of an AVI", lambda: noise(b"RIFF\0\0\0\0AVI "), INVALID, "holds no video"),
    ("an MP4 of 200,000 boxes", lambda: mp4_of_boxes(), INVALID, "is an MP4 file of more than 100000 boxes"),
    (
        "an MP4 with a box of three bytes",
        lambda: video_file("mp4") + b"\0\0\0\3free",
        INVALID,
        "a box of it says it has 3 bytes",
    ),
    ("an MP4 with a thousand million frames", mp4_of_many_frames, INVALID, "holds no frames"),
    ("an AVI with a thousand million frames", avi_of_many_frames, TOO_LARGE, "lasts 125000000 s; at most 3600 s"),
    (
        "frames a day apart",
        lambda: pictures_in("mp4", *[image_file("jpg")] * 4, apart_s=86_400),
        TOO_LARGE,
        "at most 3600 s are allowed",
    ),
    (
        "frames of 81 million pixels",
        lambda: pictures_in("avi", saved(Image.new("L", (9_000, 9_000)), "JPEG")),
        TOO_LARGE,
        "has 9000 x 9000 = 81000000 pixels a frame; at most 67108864",
    ),
    (
        "frames of 400 million pixels",
        lambda: pictures_in("avi", jpeg_of(20_000, 20_000)),
        INVALID,
        "or has frames of more than 67108864 pixels",
    ),
    (
        "frames that change their size",
        lambda: pictures_in("avi", jpeg_of(64, 48), jpeg_of(96, 64)),
        INVALID,
        "from 64 x 48 to 96 x 64 at frame 1",
    ),
    (
        "a frame of 81 million pixels among small ones",
        lambda: pictures_in("avi", jpeg_of(64, 48), jpeg_of(9_000, 9_000)),
        INVALID,
        "or has frames of more than 67108864 pixels",
    ),
)

AUDIOS: Final = (
    (
        "a picture",
        lambda: image_file("jpg"),
        INVALID,
        "is in JPEG format; a recording must be an MP3, WAV or FLAC file",
    ),
    ("an Ogg file", lambda: sound_in("OGG"), INVALID, "is in Ogg format"),
    ("an AIFF", lambda: sound_in("AIFF"), INVALID, "is in AIFF format"),
    ("a WAV of 64 bits", lambda: sound_in("RF64"), INVALID, "is in RF64 format"),
    ("a MIDI file", lambda: b"MThd\0\0\0\6" + bytes(99), INVALID, "is in MIDI format"),
    ("half of a WAV", lambda: cut(audio_file("wav")), INVALID, "is cut short"),
    ("half of an MP3", lambda: cut(audio_file("mp3")), INVALID, "is cut short"),
    ("half of a FLAC", lambda: cut(audio_file("flac")), INVALID, "is a damaged FLAC file"),
    (
        "a WAV that says a thousand million bytes",
        lambda: wav(size=MANY),
        INVALID,
        "of at least 1000000044 that it says",
    ),
    ("a WAV that says no bytes", lambda: wav(size=0), INVALID, "holds no samples"),
    (
        "a WAV of a million samples a second",
        lambda: wav(rate=10**6),
        INVALID,
        "has 1000000 samples a second; 1000 to 384000",
    ),
    ("a WAV of one sample a second", lambda: wav(rate=1), INVALID, "has 1 samples a second"),
    ("a WAV of no samples a second", lambda: wav(rate=0), INVALID, "is a damaged WAV file"),
    ("a WAV of 255 channels", lambda: wav(channels=255), INVALID, "has 255 channels; at most 8 are taken"),
    ("a WAV of 65,535 channels", lambda: wav(channels=65_535), INVALID, "is a damaged WAV file"),
    ("a WAV of no channels", lambda: wav(channels=0), INVALID, "is a damaged WAV file"),
    ("a WAV of 5,000 chunks", lambda: wav(before=b"LIST\0\0\0\0" * 5_000), INVALID, "more than 1000 chunks"),
    ("a WAV in a rare coding", lambda: sound_in("WAV", "GSM610"), INVALID, "holds GSM610 samples; of WAV, PCM_U8"),
    ("a FLAC of an hour", long_silence, TOO_LARGE, "lasts 3600 s or more; at most 1800 s are allowed"),
    ("a FLAC that says 2^36 samples", lambda: flac_of(2**36 - 1), TOO_LARGE, "lasts 4294967 s or more"),
    ("a FLAC that says ten times its samples", lambda: flac_of(80_000), INVALID, "is a damaged FLAC file"),
    ("noise behind a tag of MP3", lambda: noise(b"ID3\4\0\0\0\0\0\0"), INVALID, "MP3"),
    ("an MP3 tag of 250 MB", lambda: noise(b"ID3\4\0\0\x7f\x7f\x7f\x7f"), INVALID, "MP3"),
    ("three seconds for a model of two", lambda: audio_file(seconds=3.0), INVALID, "of which the model would hear 2 s"),
    ("a hundred samples", lambda: audio_file(seconds=0.00625), INVALID, "its 100 samples are too few to be heard"),
)


def mp4_of_sound() -> bytes:
    """No pictures in it."""
    sink = BytesIO()
    with av.open(sink, "w", format="mp4") as container:
        stream: Any = container.add_stream("aac", rate=16_000)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(samples().T, format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 16_000, 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return sink.getvalue()


def mp4_of_boxes() -> bytes:
    """Empty ones."""
    return b"\0\0\0\x14ftypisom\0\0\0\0isom" + b"\0\0\0\x08free" * 200_000


ATTACKS: Final[tuple[FileAttack, ...]] = (
    *(FileAttack(f"image: {row[0]}", "image", *row[1:]) for row in IMAGES),
    *(FileAttack(f"video: {row[0]}", "video", *row[1:]) for row in VIDEOS),
    *(FileAttack(f"audio: {row[0]}", "audio", *row[1:]) for row in AUDIOS),
    FileAttack("audio: a WAV said to be MP3", "audio", lambda: audio_file("wav"), INVALID, "said to be mp3", "mp3"),
)
