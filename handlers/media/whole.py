"""Whether a file has as many bytes as its container says: what was cut off is refused before it is decoded."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO, Final

from handlers.media.faults import invalid

_UNKNOWN: Final = frozenset({0, 0xFFFF_FFFF})
"""Sizes that writers leave which cannot go back, such as those into a pipe."""
_MAX_BOXES: Final = 100_000
"""Of a file: two for each piece of a fragmented MP4."""
_MAX_CHUNKS: Final = 1_000
_MP3_TAG_WITHIN: Final = 44
"""Bytes of a frame: header, side information of two channels, the tag's name."""
_ASF_PROPERTIES: Final = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_ASF_BROADCAST: Final = 1


def check_whole(file: BinaryIO, format_name: str) -> None:
    """Raise where the sizes in a file's container go past its end.

    Only the containers whose libraries take what is there without a word: MP4 (ISO 14496-12, 4.2), AVI and WAV (RIFF),
    WMV (ASF, 3.2). The other formats' decoders miss the end themselves.

    Raises:
        MediaFault: media_invalid, with both sizes.
    """
    check = {"MP4": _check_boxes, "AVI": _check_riff, "WAV": _check_wave, "WMV": _check_asf}.get(format_name)
    if check is not None:
        check(file, os.fstat(file.fileno()).st_size)


def counts_frames(file: BinaryIO) -> bool:
    """Whether an MP3 file says how many frames it has, in a Xing or Info tag within its first one. Where it does not,
    its length is a guess of the decoder's."""
    file.seek(0)
    head = file.read(10)
    start = 0
    if head[:3] == b"ID3" and len(head) == 10:
        start = 10 + sum(byte << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=True))
    file.seek(start)
    first = file.read(_MP3_TAG_WITHIN)
    return b"Xing" in first or b"Info" in first


def _check_boxes(file: BinaryIO, size: int) -> None:
    place = 0
    for _ in range(_MAX_BOXES):
        if place == size:
            return
        file.seek(place)
        head = file.read(16)
        if len(head) < 8:
            raise _cut(place + 8, size)
        length = int.from_bytes(head[:4], "big")
        if length == 0:  # up to the end of the file
            return
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8:
            raise invalid(f"is a damaged MP4 file: a box of it says it has {length} bytes")
        place += length
        if place > size:
            raise _cut(place, size)
    raise invalid(f"is an MP4 file of more than {_MAX_BOXES} boxes")


def _check_riff(file: BinaryIO, size: int) -> None:
    file.seek(4)
    length = int.from_bytes(file.read(4), "little")
    if length not in _UNKNOWN and length + 8 > size:
        raise _cut(length + 8, size)


def _check_wave(file: BinaryIO, size: int) -> None:
    """The samples count; a wrong size of the whole is common and does no harm."""
    place = 12
    for _ in range(_MAX_CHUNKS):
        file.seek(place)
        head = file.read(8)
        if len(head) < 8:
            return  # no samples; the decoder says so
        length = int.from_bytes(head[4:], "little")
        place += 8 + length
        if head[:4] == b"data":
            if length not in _UNKNOWN and place > size:
                raise _cut(place, size)
            return
        place += length % 2
    raise invalid(f"is a WAV file of more than {_MAX_CHUNKS} chunks before its samples")


def _check_asf(file: BinaryIO, size: int) -> None:
    file.seek(16)
    header = int.from_bytes(file.read(8), "little")
    place = 30
    while place + 24 <= min(header, size):
        file.seek(place)
        head = file.read(92)
        length = int.from_bytes(head[16:24], "little")
        if head[:16] == _ASF_PROPERTIES and len(head) == 92:
            total, flags = struct.unpack("<Q40xI", head[40:92])
            if not flags & _ASF_BROADCAST and total > size:
                raise _cut(total, size)
            return
        if length < 24:
            break
        place += length
    raise invalid("is a damaged WMV file: its header does not say how long it is")


def _cut(expected: int, found: int) -> Exception:
    return invalid(f"is cut short: it has {found} bytes of at least {expected} that it says it has")
