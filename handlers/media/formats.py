"""What a file is, by its first bytes: the formats that are taken, and names for those that are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.types import MediaKind
from handlers.media.faults import invalid

HEAD_BYTES: Final = 4096
"""How much of a file is looked at."""

TAKEN: Final[Mapping[MediaKind, tuple[str, ...]]] = {
    "image": ("JPEG", "PNG"),
    "video": ("MP4", "AVI", "WMV"),
    "audio": ("MP3", "WAV", "FLAC"),
}

_NOUNS: Final[Mapping[MediaKind, str]] = {
    "image": "an image must be a JPEG or PNG file",
    "video": "a video must be an MP4, AVI or WMV file",
    "audio": "a recording must be an MP3, WAV or FLAC file",
}

_STARTS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"), "WMV"),
    (b"fLaC", "FLAC"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"\0\0\x01\0", "Windows icon"),
    (b"8BPS", "Photoshop"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"\x1a\x45\xdf\xa3", "Matroska or WebM"),
    (b"FLV\x01", "FLV"),
    (b"\0\0\x01\xba", "MPEG program stream"),
    (b"\0\0\x01\xb3", "MPEG video"),
    (b"OggS", "Ogg"),
    (b"FORM", "AIFF"),
    (b"RF64", "RF64"),
    (b"RIFX", "RIFX"),
    (b"MThd", "MIDI"),
    (b"#!AMR", "AMR"),
    (b"#EXTM3U", "playlist"),
    (b"%PDF", "PDF"),
    (b"PK\x03\x04", "ZIP"),
    (b"\x1f\x8b", "gzip"),
    (b"BM", "BMP"),
)
_BRANDS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"qt  ", "QuickTime"),
    (b"M4A ", "M4A"),
    (b"M4B ", "M4A"),
    (b"3g", "3GP"),
    (b"avi", "AVIF"),
    (b"heic", "HEIC"),
    (b"heix", "HEIC"),
    (b"mif1", "HEIC"),
    (b"msf1", "HEIC"),
    (b"jpg", "JPEG 2000"),
    (b"crx ", "Canon raw"),
)
"""Of ISO media files, whose others are MP4."""
_RIFF: Final = {b"WAVE": "WAV", b"AVI ": "AVI", b"WEBP": "WebP"}
_QUICKTIME: Final = frozenset({b"moov", b"mdat", b"free", b"wide", b"skip", b"pnot"})
_TEXT_STARTS: Final = (b"<", b"{", b"[")


def format_of(head: bytes) -> str:
    """The name of the format that a file's first HEAD_BYTES begin, such as ``JPEG``; empty where it is none of those
    known here. Nothing of the content is in it."""
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12], "RIFF")
    if head[4:8] == b"ftyp":
        return next((name for brand, name in _BRANDS if head[8:12].startswith(brand)), "MP4")
    if head[4:8] in _QUICKTIME:
        return "QuickTime"
    if head[:3] == b"ID3" or _is_mp3_frame(head):
        return "MP3"
    if head[:2] in (b"\xff\xf1", b"\xff\xf9"):
        return "AAC"
    for start, name in _STARTS:
        if head.startswith(start):
            return name
    return _text_of(head)


def taken_format(head: bytes, kind: MediaKind, said: str | None) -> str:
    """The format of a file that should be of a kind.

    Args:
        head: its first HEAD_BYTES.
        kind: what it should be.
        said: the format that the client names, in lower case; None where it names none.

    Raises:
        MediaFault: it is in none of the kind's formats, or in another than the client says.
    """
    if not head:
        raise invalid("is empty")
    found = format_of(head)
    if found not in TAKEN[kind]:
        what = f"is in {found} format" if found else "is in no known format"
        raise invalid(f"{what}; {_NOUNS[kind]}")
    if said is not None and said != found.lower():
        raise invalid(f"is in {found} format, but its format is said to be {said}")
    return found


def _is_mp3_frame(head: bytes) -> bool:
    """Whether a header of MPEG audio, layer III, with a valid rate stands first (ISO 11172-3, 2.4.1.3)."""
    return (
        len(head) >= 4
        and head[0] == 0xFF
        and head[1] & 0xE6 == 0xE2
        and head[1] & 0x18 != 0x08
        and head[2] & 0xF0 != 0xF0
        and head[2] & 0x0C != 0x0C
    )


def _text_of(head: bytes) -> str:
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start.startswith(_TEXT_STARTS):
        return ""
    if b"<svg" in head:
        return "SVG"
    return "HTML or XML" if start.startswith(b"<") else "JSON"
