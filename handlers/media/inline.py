"""Media inside a request: data URIs and Base64, decoded block by block into a file."""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Final

from engine.types import MediaKind
from handlers.errors import refused
from handlers.media.limits import MediaLimits
from handlers.media.parts import MediaPart
from handlers.media.sink import Sink, most_bytes, too_large

MIME_TYPES: Final[Mapping[MediaKind, tuple[str, ...]]] = {
    "image": ("image/jpeg", "image/png"),
    "video": ("video/mp4", "video/x-msvideo", "video/x-ms-wmv"),
    "audio": ("audio/mpeg", "audio/x-wav", "audio/flac"),
}
"""Of data URIs. What the bytes are is found by looking at them."""

_SCHEME: Final = "data:"
_HEAD_CHARS: Final = 256
_BLOCK_CHARS: Final = 256 * 1024
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9+/=\r\n]")


def is_data_uri(text: str) -> bool:
    """Whether it is meant as one."""
    return text[: len(_SCHEME)].lower() == _SCHEME


def check_inline(part: MediaPart, limits: MediaLimits) -> int:
    """What can be told of media in a request without decoding them.

    Returns:
        Where the Base64 text begins in the part's value.

    Raises:
        Problem: 422 media_invalid, media_too_large.
    """
    start = _payload(part) if is_data_uri(part.value) and part.audio_format is None else 0
    length = len(part.value) - start
    most = most_bytes(part, limits)
    # Line ends may stand in it, two for every 76 characters of those who write lines.
    if length * 3 // 4 > most + most // 16 + 64:
        raise too_large(part, most)
    return start


def write_inline(sink: Sink, start: int) -> None:
    """Decode the text that begins at ``start`` into a file. Takes long for large ones, and is for a thread.

    Raises:
        Problem: 422 media_invalid with the place of the fault, media_too_large; 503 queue_full.
    """
    text, rest = sink.part.value.rstrip("\r\n"), ""
    for place in range(start, len(text), _BLOCK_CHARS):
        rest += text[place : place + _BLOCK_CHARS].replace("\n", "").replace("\r", "")
        is_last = place + _BLOCK_CHARS >= len(text)
        end = len(rest) if is_last else len(rest) // 4 * 4
        try:
            if not is_last and "=" in rest[:end]:
                raise binascii.Error("padding (=) is not at its end")
            decoded = binascii.a2b_base64(rest[:end], strict_mode=True)
        except ValueError as error:
            foreign = _FOREIGN.search(text, max(start, place - 4), place + _BLOCK_CHARS)
            why = str(error).lower() if foreign is None else _foreign(foreign[0], foreign.start() - start + 1)
            raise refused("media_invalid", f"{sink.part.param} {_meant(sink.part)}: {why}", sink.part.param) from None
        if decoded:
            sink.write(decoded)
        rest = rest[end:]


def _payload(part: MediaPart) -> int:
    """Where the text behind the comma of a data URI begins, once its head is known to be right."""
    comma = part.value.find(",", 0, _HEAD_CHARS)
    head = part.value[len(_SCHEME) : max(comma, 0)]
    mime, semicolon, encoding = head.lower().partition(";")
    if comma < 0 or not semicolon or encoding != "base64" or mime not in MIME_TYPES[part.kind]:
        allowed = ", ".join(f"data:{name};base64," for name in MIME_TYPES[part.kind])
        given = part.value[: comma + 1 if 0 <= comma < 60 else 60]
        message = f"{part.param} begins with {given!a}; a data URI must begin with one of {allowed}"
        raise refused("media_invalid", message, part.param)
    return comma + 1


def _foreign(found: str, place: int) -> str:
    if found in "-_":
        return f"{found!r} at character {place} belongs to the form for URLs; + and / are needed"
    return f"{found!a} at character {place} is not of its alphabet"


def _meant(part: MediaPart) -> str:
    if part.audio_format is not None or is_data_uri(part.value):
        return "is not valid Base64"
    return "is no path with a dot, no address and no data URI, and as Base64 it is not valid"
