"""Files of requests: where they lie, who may read them, when they go, and what is done where the disk is full."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
from open_files import open_below

from handlers.errors import Problem
from handlers.media.limits import MediaLimits
from handlers.media.spool import Spools

PARAM = "messages[0].content[1].image_url"


def spools(base: Path, **limits: int) -> Spools:
    return Spools(MediaLimits(spool_folder=base, **limits))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_and_files_are_this_user_s_alone(tmp_path: Path) -> None:
    """0700 and 0600, whatever the umask is."""
    before = os.umask(0)
    try:
        made = spools(tmp_path)
        file = made.open().new_file(".png")
    finally:
        os.umask(before)
    assert [mode(made.folder), mode(file.parent), mode(file)] == [0o700, 0o700, 0o600]


def test_a_closed_spool_is_gone_and_others_stay(tmp_path: Path) -> None:
    """Also when it is closed again."""
    made = spools(tmp_path)
    first, second = made.open(), made.open()
    first.append(first.new_file(), b"one", PARAM)
    kept = second.new_file()
    first.close()
    first.close()
    assert (first.folder.exists(), kept.exists()) == (False, True)


def test_a_large_spool_is_removed_by_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nothing else waits for the disk."""
    made = spools(tmp_path)
    spool = made.open()
    removed_by, rmtree = [], shutil.rmtree

    def noted(*arguments: Any, **options: Any) -> None:
        removed_by.append(threading.current_thread().name)
        rmtree(*arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", noted)
    (spool.new_folder() / "features").touch()
    os.truncate(spool.folder / "1" / "features", 10**9)
    spool.close()
    for thread in threading.enumerate():
        if thread.name == "media-spool":
            thread.join()
    assert not spool.folder.exists()
    assert removed_by == ["media-spool"]


def test_the_end_of_the_process_s_spools_leaves_nothing(tmp_path: Path) -> None:
    """Files of requests that still ran included."""
    made = spools(tmp_path)
    made.open().new_file()
    made.close()
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_pieces_come_one_behind_the_other(tmp_path: Path) -> None:
    """And are counted."""
    spool = spools(tmp_path).open()
    file = spool.new_file()
    spool.append(file, b"one ", PARAM)
    spool.append(file, b"two", PARAM)
    assert (file.read_bytes(), spool.media_bytes) == (b"one two", 7)


def test_a_write_after_the_end_makes_no_file(tmp_path: Path) -> None:
    """A thread that is late leaves nothing behind."""
    spool = spools(tmp_path).open()
    file = spool.new_file()
    spool.close()
    with pytest.raises(FileNotFoundError):
        spool.append(file, b"late", PARAM)


def test_no_descriptor_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither behind a write, nor behind one for which there was no room, nor of the lock."""
    made = spools(tmp_path)
    spool = made.open()
    file = spool.new_file()
    spool.append(file, b"one", PARAM)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: fail(errno.ENOSPC))
        with pytest.raises(Problem, match="no room on its disk"):
            spool.append(file, b"two", PARAM)
    assert open_below(tmp_path) == [str((made.folder / ".lock").resolve())]
    made.close()
    assert open_below(tmp_path) == []


def fail(number: int) -> NoReturn:
    """Raise the system's error of a number."""
    raise OSError(number, os.strerror(number))


def test_media_of_a_request_have_a_limit_together(tmp_path: Path) -> None:
    """The part that goes past it is blamed, and nothing of it is written."""
    spool = spools(tmp_path, max_total_bytes=2 * 1024 * 1024).open()
    spool.append(spool.new_file(), bytes(2 * 1024 * 1024), PARAM)
    second = spool.new_file()
    with pytest.raises(Problem) as caught:
        spool.append(second, b"x", "messages[1].content[0].video_url")
    assert (caught.value.status, caught.value.code) == (422, "media_too_large")
    assert caught.value.param == "messages[1].content[0].video_url"
    assert caught.value.message.endswith("the media of this request have more than 2 MB together, the most allowed")
    assert second.stat().st_size == 0


def test_a_full_disk_is_told_before_anything_is_written(tmp_path: Path) -> None:
    """As what may pass: 503 with Retry-After."""
    spool = spools(tmp_path, disk_reserve_bytes=2**62).open()
    file = spool.new_file()
    with pytest.raises(Problem, match="no room on its disk") as caught:
        spool.append(file, b"x", PARAM)
    assert (caught.value.status, caught.value.code) == (503, "queue_full")
    assert caught.value.headers == {"Retry-After": "1"}
    assert file.stat().st_size == 0


def test_a_disk_that_fills_meanwhile_is_told_likewise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write itself may be what finds out."""
    spool = spools(tmp_path).open()
    file = spool.new_file()

    def full(_: int, __: memoryview) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Problem, match="no room on its disk"):
        spool.append(file, b"x", PARAM)


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    """Its lock is free then; the folder of a process that lives is left alone, and so is what is not ours."""
    script = (
        "import os, sys; from pathlib import Path; from handlers.media.limits import MediaLimits;"
        "from handlers.media.spool import Spools; made = Spools(MediaLimits(spool_folder=Path(sys.argv[1])));"
        "made.open().new_file(); print(made.folder, flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    left = Path(killed.stdout.strip())
    assert left.exists()
    living = spools(tmp_path)
    other = tmp_path / "mindspec-media-of-somebody"
    other.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "mindspec-media-link").symlink_to(outside)
    third = spools(tmp_path)
    assert [path.exists() for path in (left, living.folder, third.folder, other, outside)] == [False, *[True] * 4]


def test_a_folder_that_another_start_took_for_left_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That start came between the making of the folder and its lock."""
    lock, removed = fcntl.flock, []

    def late(descriptor: int, operation: int) -> None:
        lock(descriptor, operation)
        if not removed:
            removed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).parent)
            shutil.rmtree(removed[0])

    monkeypatch.setattr(fcntl, "flock", late)
    made = spools(tmp_path)
    assert made.open().new_file().exists()
    assert made.folder not in removed


def test_a_disk_without_locks_is_an_error_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is left on it."""

    def no_locks(_: int, __: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(OSError, match="No locks available"):
        spools(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error_of_the_start(tmp_path: Path) -> None:
    """An OSError that names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        spools(tmp_path / "file" / "below")
