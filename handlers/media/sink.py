"""The bytes of one part on their way into a file of the spool, held to the limit of its kind."""

from __future__ import annotations

from handlers.errors import Problem, refused
from handlers.media.limits import MB, MediaLimits
from handlers.media.parts import MediaPart, SourceFile
from handlers.media.spool import Spool


def most_bytes(part: MediaPart, limits: MediaLimits) -> int:
    """How large the part may be."""
    if part.audio_format is not None:
        return limits.max_input_audio_bytes
    return {"image": limits.max_image_bytes, "video": limits.max_video_bytes, "audio": limits.max_audio_bytes}[
        part.kind
    ]


class Sink:
    """The file of one part. ``write`` and ``expect`` wait for the disk and are for threads."""

    def __init__(self, part: MediaPart, spool: Spool, limits: MediaLimits) -> None:
        self.part = part
        self.size = 0
        """Bytes that were written."""
        self._most = most_bytes(part, limits)
        self._spool = spool
        self._path = spool.new_file()

    def fits(self, more: int) -> None:
        """Raise where so many further bytes are too many.

        Raises:
            Problem: 422 media_too_large.
        """
        if self.size + more > self._most:
            raise too_large(self.part, self._most)

    def expect(self, more: int) -> None:
        """Raise where so many further bytes are too many for the part, the request or the disk.

        Raises:
            Problem: 422 media_too_large, 503 queue_full.
        """
        self.fits(more)
        self._spool.expect(more, self.part.param)

    def write(self, data: bytes | memoryview) -> None:
        """Add to the file. Raises as ``expect``."""
        self.fits(len(data))
        self._spool.append(self._path, data, self.part.param)
        self.size += len(data)

    def file(self) -> SourceFile:
        """What was written.

        Raises:
            Problem: 422 media_invalid where that is nothing.
        """
        if self.size == 0:
            part = self.part
            raise refused("media_invalid", f"{part.param} leads to an empty file, which is no {part.kind}", part.param)
        return SourceFile(self.part, self._path, self.size)


def too_large(part: MediaPart, most: int) -> Problem:
    """The refusal of a part that has more bytes than ``most``."""
    allowed = f"{most / MB:g} MB" if most >= MB else f"{most} bytes"
    what = "a recording inside a request" if part.audio_format is not None else f"this kind of media ({part.kind})"
    message = f"{part.param} has more than {allowed}, the most that {what} may have"
    return refused("media_too_large", message, part.param)
