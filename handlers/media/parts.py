"""A media part of a request as the client wrote it, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.types import MediaKind


@dataclass(frozen=True, slots=True)
class MediaPart:
    """One image, video or recording that a request names or carries."""

    kind: MediaKind
    param: str
    """Path of the member that ``value`` is, such as ``messages[0].content[1].image_url.url``."""
    value: str
    """A path, a file:// or http(s) address, a data URI, or Base64."""
    audio_format: str | None = None
    """Of an input_audio part, in lower case: its value is Base64 then."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A part whose bytes lie in a file of the request's spool, unread and as hostile as they came."""

    part: MediaPart
    path: Path
    size: int
    """In bytes, at least 1."""


@dataclass(frozen=True, slots=True)
class PreparedMedia:
    """A part that is ready for the engine, but for its place in the prompt."""

    part: MediaPart
    tokens: int
    """Tokens that stand for it in the prompt."""
    content_hash: bytes
    features: str
    """Path of the encoder's input; the file is the request's spool's."""
