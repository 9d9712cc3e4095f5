"""Counts how often a JPEG's decoder would have to go over its picture."""

from __future__ import annotations

import re
from typing import Final

_MARKER: Final = re.compile(rb"\xff+([\x01-\xcf\xd8-\xfe])")
"""The next one in coded data, where zero follows an FF of the data, and D0 to D7 only restart it."""
_START_OF_SCAN: Final = 0xDA
_END_OF_IMAGE: Final = 0xD9
_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xDA)})


def scans_of(data: bytes) -> int:
    """The scans of the first picture of a JPEG file; what is damaged ends the count (ISO 10918-1, B.1 and B.2).

    Progressive pictures have some ten of them. Each costs a pass over all pixels, whatever its length, and a file may
    hold hundreds of thousands.
    """
    scans = 0
    place = 2
    while (found := _MARKER.search(data, place)) is not None:
        place = found.end()
        marker = found[1][0]
        if marker == _END_OF_IMAGE:
            break
        if marker in _WITHOUT_LENGTH:
            continue
        scans += marker == _START_OF_SCAN
        length = int.from_bytes(data[place : place + 2], "big")
        place += max(length, 2)
    return scans
