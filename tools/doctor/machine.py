"""A machine as the doctor sees it: its files, environment and user, and what its own commands say of it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from engine.machine_memory import available_bytes

NPU_SMI_TIMEOUT_S: Final = 30.0
"""`npu-smi info` takes a second or two; one that hangs waits for a card that does."""
_MOST_LINKS: Final = 40
_MOST_TEXT_BYTES: Final = 1 << 20
_PACKAGE_FOLDERS: Final = (
    *("usr/lib/python3*/site-packages", "usr/local/lib/python3*/site-packages", "usr/local/lib/python3*/dist-packages"),
    *("usr/local/python3*/lib/python3*/site-packages", "usr/lib/python3/dist-packages"),
    "opt/*/lib/python3*/site-packages",
)


@dataclass(frozen=True, slots=True)
class User:
    """Who would run the server."""

    uid: int
    gids: frozenset[int]

    def may(self, found: os.stat_result, wanted: str) -> bool:
        """Whether the mode of a file allows all of ``wanted``, some of the letters r, w and x; root may anything."""
        if self.uid == 0:
            return True
        shift = 6 if found.st_uid == self.uid else 3 if found.st_gid in self.gids else 0
        bits = stat.S_IMODE(found.st_mode) >> shift
        return all(bits & {"r": 4, "w": 2, "x": 1}[letter] for letter in wanted)


class Machine:
    """A tree of files that is, or was copied from, a machine's root folder."""

    def __init__(self, root: Path) -> None:
        """``root``: its root folder. Links in it lead to places in it."""
        self.root = root

    def path(self, name: str) -> Path:
        """Where a path of the machine lies here, links followed; it need not exist."""
        left = list(PurePosixPath(name).parts)
        walked: list[str] = []
        links = 0
        while left:
            part = left.pop(0)
            if part == "/":
                walked = []
            elif part == "..":
                walked = walked[:-1]
            elif part != ".":
                place = self.root.joinpath(*walked, part)
                if links < _MOST_LINKS and place.is_symlink():
                    links += 1
                    left = [*PurePosixPath(os.readlink(place)).parts, *left]
                else:
                    walked.append(part)
        return self.root.joinpath(*walked)

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder; no where that may not be seen."""
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, sorted; nothing where it cannot be read."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except OSError:
            return []

    def text(self, name: str) -> str | None:
        """The beginning of a text file (1 MiB); None where it cannot be read."""
        try:
            with self.path(name).open("rb") as opened:
                return opened.read(_MOST_TEXT_BYTES).decode("utf-8", "replace")
        except OSError:
            return None

    def first(self, *names: str) -> str | None:
        """The first of these paths that exists."""
        return next((name for name in names if self.exists(name)), None)

    def values(self, name: str) -> dict[str, str]:
        """The ``key=value`` lines of a file; empty where it cannot be read."""
        return _pairs(self.text(name) or "")

    @property
    def is_container(self) -> bool:
        """Whether this is a container rather than a host."""
        return self.first("/.dockerenv", "/run/.containerenv") is not None


class Commands(Protocol):
    """What else is asked of a machine. Each is None where that cannot be told."""

    def environment(self) -> Mapping[str, str] | None:
        """Of the process that would serve."""

    def user(self) -> User | None:
        """Who would serve."""

    def free_bytes(self, name: str) -> int | None:
        """Of the file system that a path lies on."""

    def available_bytes(self) -> int | None:
        """Of the host's memory."""

    def npu_smi(self, program: str) -> str | None:
        """What ``npu-smi info`` prints.

        Raises:
            TimeoutError: it printed nothing in ``NPU_SMI_TIMEOUT_S``.
        """

    def package_folders(self) -> list[Path]:
        """Where Python looks for packages."""


class Here:
    """This machine, as the present process sees it."""

    def environment(self) -> Mapping[str, str]:
        """See ``Commands``."""
        return os.environ

    def user(self) -> User:
        """See ``Commands``."""
        return User(os.geteuid(), frozenset({os.getegid(), *os.getgroups()}))

    def free_bytes(self, name: str) -> int | None:
        """See ``Commands``."""
        try:
            return shutil.disk_usage(name).free
        except OSError:
            return None

    def available_bytes(self) -> int:
        """See ``Commands``: no more than this container's control group lets it have."""
        return available_bytes()

    def npu_smi(self, program: str) -> str:
        """See ``Commands``."""
        try:
            done = subprocess.run(
                [program, "info"], capture_output=True, text=True, errors="replace", timeout=NPU_SMI_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        except OSError as error:
            return f"{program} cannot be run: {error.strerror}"
        return done.stdout + done.stderr

    def package_folders(self) -> list[Path]:
        """See ``Commands``."""
        return [Path(name) for name in sys.path if name]


class Copied:
    """A tree that is not this machine's: nothing is run, and what commands said on its machine is read."""

    def __init__(self, machine: Machine, said: Path) -> None:
        """``said``: a folder with what they printed, a file each for env, id, df and npu-smi."""
        self._machine = machine
        self._folder = said

    def environment(self) -> Mapping[str, str] | None:
        """See ``Commands``."""
        said = self._said("env")
        return None if said is None else _pairs(said)

    def user(self) -> User | None:
        """See ``Commands``."""
        said = self._said("id") or ""
        uid, groups = re.search(r"uid=(\d+)", said), re.search(r"groups=(\S+)", said)
        if uid is None:
            return None
        gids = re.findall(r"(?:^|,)(\d+)", groups[1]) if groups else []
        gid = re.search(r"gid=(\d+)", said)
        return User(int(uid[1]), frozenset(int(number) for number in [*gids, *([gid[1]] if gid else [])]))

    def free_bytes(self, name: str) -> int | None:
        """See ``Commands``: of ``df -Pk``, the file system with the longest mount point above the path."""
        rows = [line.split(maxsplit=5) for line in (self._said("df") or "").splitlines()[1:]]
        mounts = {row[5]: int(row[3]) for row in rows if len(row) == 6 and row[3].isdigit()}
        above = [mount for mount in mounts if PurePosixPath(name).is_relative_to(mount)]
        return mounts[max(above, key=len)] * 1024 if above else None

    def available_bytes(self) -> int | None:
        """See ``Commands``."""
        found = re.search(r"^MemAvailable:\s+(\d+) kB", self._machine.text("/proc/meminfo") or "", re.MULTILINE)
        return int(found[1]) * 1024 if found else None

    def npu_smi(self, program: str) -> str | None:
        """See ``Commands``."""
        return self._said("npu-smi")

    def package_folders(self) -> list[Path]:
        """See ``Commands``: those of the environment that is active, else all that are usual."""
        variables = self.environment() or {}
        active = [variables[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if variables.get(name)]
        inside = [f"{prefix.strip('/')}/lib/python3*/site-packages" for prefix in active]
        return list(self._matching(inside)) or list(self._matching(_PACKAGE_FOLDERS))

    def _matching(self, patterns: list[str] | tuple[str, ...]) -> Iterator[Path]:
        for pattern in patterns:
            yield from sorted(self._machine.root.glob(pattern))

    def _said(self, command: str) -> str | None:
        try:
            return (self._folder / command).read_text("utf-8", "replace")
        except OSError:
            return None


def _pairs(text: str) -> dict[str, str]:
    rows = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip().strip('"') for name, _, value in rows}
