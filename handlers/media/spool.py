"""Files of running requests on disk: one folder of this process, in it one of each request, all gone at its end."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path
from typing import Final

from handlers.errors import Problem, refused
from handlers.media.limits import MB, MediaLimits

_PREFIX: Final = "mindspec-media-"
_LOCK: Final = ".lock"
"""Held as long as the process lives that made the folder."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_RETRY_AFTER_S: Final = 1
_LARGE_BYTES: Final = 32 * MB
"""A file system takes a millisecond or so to give this back."""


class Spools:
    """The folder of this process, mode 0700, in ``limits.spool_folder`` or the system's folder for temporary files.

    What processes that were killed left there is removed at the start; folders of others that live stay.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, limits: MediaLimits) -> None:
        base = Path(limits.spool_folder or tempfile.gettempdir())
        base.mkdir(parents=True, exist_ok=True)
        _remove_left(base)
        self._limits = limits
        self.folder, self._lock = _locked_folder(base)

    def open(self) -> Spool:
        """For one request."""
        return Spool(Path(tempfile.mkdtemp(dir=self.folder)), self._limits)

    def close(self) -> None:
        """Remove all; may be called again."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class Spool:
    """The files of one request, at most ``limits.max_total_bytes`` of media in them."""

    def __init__(self, folder: Path, limits: MediaLimits) -> None:
        self.folder = folder
        self.media_bytes = 0
        """Written by ``append``."""
        self._limits = limits
        self._files = 0
        self._counting = threading.Lock()

    def new_file(self, suffix: str = "") -> Path:
        """The path of a new empty file, which only this user may read."""
        self._files += 1
        path = self.folder / f"{self._files}{suffix}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return path

    def new_folder(self) -> Path:
        """The path of a new empty folder, which only this user may look into."""
        self._files += 1
        path = self.folder / str(self._files)
        path.mkdir(0o700)
        return path

    def room(self, size: int) -> None:
        """Raise where the disk has not so many bytes besides what is left alone on it.

        Raises:
            Problem: 503 queue_full; a later try may find more.
        """
        disk = os.statvfs(self.folder)
        if disk.f_bavail * disk.f_frsize - self._limits.disk_reserve_bytes < size:
            raise _no_room()

    def expect(self, size: int, param: str) -> None:
        """Raise where so many bytes of media are too many for the request, or for the disk.

        Raises:
            Problem: 422 media_too_large for ``param``, 503 queue_full.
        """
        most = self._limits.max_total_bytes
        if self.media_bytes + size > most:
            message = (
                f"With {param} the media of this request have more than {most // MB} MB together, the most allowed"
            )
            raise refused("media_too_large", message, param)
        self.room(size)

    def append(self, path: Path, data: bytes | memoryview, param: str) -> None:
        """Write behind what a file of ``new_file`` has. Safe in a thread whose caller is gone: a file that was removed
        meanwhile is not made again.

        Raises:
            Problem: as ``expect``.
            FileNotFoundError: the spool was closed.
        """
        with self._counting:
            self.expect(len(data), param)
            self.media_bytes += len(data)
        rest = memoryview(data)
        # A descriptor of this call alone: another thread that closed a shared one could make this write to any file.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError as error:
            if error.errno in _FULL:
                raise _no_room() from None
            raise
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Remove all files, large ones in a thread, since that takes long; may be called again."""
        size = 0
        with contextlib.suppress(FileNotFoundError):
            size = sum(file.lstat().st_size for file in self.folder.rglob("*"))
        if size > _LARGE_BYTES:
            threading.Thread(target=shutil.rmtree, args=(self.folder, True), name="media-spool").start()
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def _no_room() -> Problem:
    message = "The server has no room on its disk for the media of this request at the moment; try again soon"
    return Problem(503, "queue_full", message, headers={"Retry-After": str(_RETRY_AFTER_S)})


def _locked_folder(base: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another start may have taken it for one that was left, just before it was locked, or does so now.
            if os.fstat(lock).st_nlink:
                return folder, lock
        except BlockingIOError:
            pass
        except OSError:
            os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        os.close(lock)


def _remove_left(base: Path) -> None:
    """Remove the folders of this user whose processes are gone."""
    for folder in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
