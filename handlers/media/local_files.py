"""Local files of the one folder that requests may read from, whatever links and names say."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

from handlers.errors import Problem, refused
from handlers.media.limits import MB, MediaLimits
from handlers.media.parts import MediaPart
from handlers.media.sink import Sink

_SCHEME: Final = "file:"
MAX_PATH_CHARS: Final = 4096
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_BLOCK_BYTES: Final = MB
_SHOWN_CHARS: Final = 100


def is_file_address(text: str) -> bool:
    """Whether it is meant as file://."""
    return text[: len(_SCHEME)].lower() == _SCHEME


def local_path(part: MediaPart, limits: MediaLimits) -> Path:
    """The file that a part names, as far as it can be judged by its text: inside the folder, links aside.

    A path without a beginning slash starts at the folder, behind file:// too, where escapes stand for characters.

    Raises:
        Problem: 422 media_forbidden, media_invalid, too_long.
    """
    text, param = part.value, part.param
    if limits.folder is None:
        raise _forbidden(part, f"{param} is a path, but this deployment reads no local files")
    if len(text) > MAX_PATH_CHARS:
        raise refused("too_long", f"{param} is a path of {len(text)} characters; it may have {MAX_PATH_CHARS}", param)
    if is_file_address(text):
        if not text[len(_SCHEME) :].startswith("//"):
            message = f"{param} begins with file: and no //; a path follows file://"
            raise refused("media_invalid", message, param)
        try:
            text = unquote_to_bytes(text[len(_SCHEME) + 2 :]).decode()
        except UnicodeError:
            raise refused("media_invalid", f"{param} has escapes that are not UTF-8", param) from None
    if _CONTROLS.search(text):
        raise refused("media_invalid", f"{param} is a path with a control character in it", param)
    # Opened as it is judged here, so that no way up is left for the system to walk, over links perhaps.
    path = Path(os.path.normpath(limits.folder / text))
    if not path.is_relative_to(os.path.normpath(limits.folder)):
        raise _outside(part, limits.folder)
    return path


def copy_local(sink: Sink, path: Path, limits: MediaLimits) -> None:
    """Copy a file of ``local_path`` into the spool. Waits for the disk, and is for a thread.

    Links are followed where they stay inside the folder. What is copied is what was judged: the file is opened once,
    without touching it, and read through that.

    Raises:
        Problem: 422 media_forbidden, media_unreachable, media_too_large; 503 queue_full.
    """
    assert limits.folder is not None
    part = sink.part
    folder = os.path.realpath(limits.folder)
    try:
        # O_PATH opens no device, waits for no pipe and reads nothing.
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # The same answer whether something is there or not: nobody learns what there is elsewhere.
        if not _is_inside(os.path.realpath(path), folder):
            raise _outside(part, limits.folder) from None
        raise _unreadable(part, limits.folder) from None
    try:
        opened = f"/proc/self/fd/{place}"
        if not _is_inside(os.readlink(opened), folder):
            raise _outside(part, limits.folder)
        found = os.fstat(place)
        if not stat.S_ISREG(found.st_mode):
            raise _unreadable(part, limits.folder)
        sink.expect(found.st_size)
        try:
            source = os.open(opened, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            raise _unreadable(part, limits.folder) from None
    finally:
        os.close(place)
    try:
        while block := _read(source, part):
            sink.write(block)
    finally:
        os.close(source)


def _read(source: int, part: MediaPart) -> bytes:
    try:
        return os.read(source, _BLOCK_BYTES)
    except OSError as error:
        message = f"{part.param} names a local file that could not be read to its end ({error.strerror})"
        raise refused("media_unreachable", message, part.param) from None


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _forbidden(part: MediaPart, message: str) -> Problem:
    return refused("media_forbidden", message, part.param)


def _outside(part: MediaPart, folder: Path) -> Problem:
    return _forbidden(part, f"{part.param} names {_shown(part)}, which is not in {folder}; local files are read there")


def _unreadable(part: MediaPart, folder: Path) -> Problem:
    message = f"{part.param} names {_shown(part)}; there is no such file in {folder} that can be read"
    return refused("media_unreachable", message, part.param)


def _shown(part: MediaPart) -> str:
    text = part.value
    return ascii(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}...")
