"""Why a media file is refused, as the process that decodes it says it."""

from __future__ import annotations

from typing import Literal


class MediaFault(Exception):
    """A file that is refused.

    ``reason`` goes on after the part's name: ``is empty``. Nothing of the file's content, and no path, is in it.
    """

    def __init__(self, code: Literal["media_invalid", "media_too_large"], reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def invalid(reason: str) -> MediaFault:
    """It is not what it should be."""
    return MediaFault("media_invalid", reason)


def too_large(reason: str) -> MediaFault:
    """It has more bytes, pixels, frames, samples or seconds than allowed."""
    return MediaFault("media_too_large", reason)
