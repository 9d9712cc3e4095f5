"""API keys: read from a file or a variable, kept as SHA-256 only, compared in the same time whatever was sent."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from handlers.reloading import stamp_of

MOST_BYTES: Final = 1024 * 1024
"""Size of a file of keys at most."""
MIN_KEY: Final = 8
MAX_KEY: Final = 512
"""Characters of a key."""
OPEN_PATHS: Final = (
    *("/health", "/health/*", "/v2/health/*", "/v2/models/*/ready", "/metrics"),
    *("/docs", "/play", "/pages/*", "/openapi.json", "/openapi.zh.json", "/openapi-3.0.json"),
)
"""What is answered without a key unless said otherwise: probes, the metrics, and pages that say nothing of their own
about the deployment."""
FORM: Final = (
    f"each line is NAME:KEY; a name has 1 to 64 letters, digits, dots, hyphens and underscores, a key "
    f"{MIN_KEY} to {MAX_KEY} visible ASCII characters"
)
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_KEY: Final = re.compile(rf"[\x21-\x7e]{{{MIN_KEY},{MAX_KEY}}}")
_OTHERS: Final = 0o007
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask. Without a file and a variable, everybody may."""

    keys_file: Path | None = None
    """Lines of NAME:KEY; read again when it changes."""
    keys_env: str | None = None
    """A variable with the same, entries parted by commas or line ends."""
    open_paths: tuple[str, ...] = OPEN_PATHS
    """Paths that need no key; ``*`` stands for one part between slashes."""


class KeysError(Exception):
    """The keys cannot be used; the message is a sentence for the operator, and shows no key."""


@dataclass(frozen=True, slots=True)
class _Key:
    name: str
    digest: bytes
    """SHA-256, 32 bytes."""


class KeyBook:
    """The keys in force."""

    def __init__(self, access: Access, environment: Mapping[str, str] | None = None) -> None:
        """Read them.

        Args:
            access: where they stand.
            environment: the process's variables.

        Raises:
            KeysError: they cannot be read, or are no keys.
        """
        self._file = access.keys_file
        self._open = tuple(_pattern(path) for path in access.open_paths)
        text = None if access.keys_env is None else (environment or {}).get(access.keys_env)
        self._of_variable = [] if text is None else _parsed(re.split(r"[,\n]", text), str(access.keys_env))
        self._stamp = None if self._file is None else stamp_of(self._file)
        self._keys = self._read()

    @property
    def needed(self) -> bool:
        """Whether requests need a key at all."""
        return bool(self._keys)

    @property
    def watched(self) -> bool:
        """Whether there is a file that may change."""
        return self._file is not None

    @property
    def name(self) -> str:
        """The file, for the log."""
        return str(self._file)

    @property
    def names(self) -> list[str]:
        """Of the keys, each once."""
        return list(dict.fromkeys(key.name for key in self._keys))

    def is_open(self, path: str) -> bool:
        """Whether a path needs no key."""
        return any(pattern.fullmatch(path) for pattern in self._open)

    def owner_of(self, given: bytes) -> str | None:
        """The name of a key; None for what is none.

        All keys are compared, and digests instead of the keys themselves: how long it takes says nothing about them.
        """
        digest = hashlib.sha256(given).digest()
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key.name
        return found

    async def look(self, *, always: bool = False) -> None:
        """Read the file again if it has changed; keys that cannot be used leave those before them in force."""
        if self._file is None:
            return
        stamp = stamp_of(self._file)
        if not always and stamp == self._stamp:
            return
        changed, self._stamp = stamp != self._stamp, stamp
        try:
            self._keys = await asyncio.to_thread(self._read)
        except KeysError as error:
            _log.error("the keys before it stay: %s", error)
        else:
            if changed:
                _log.warning("%s: the keys of %s are in force", self._file, ", ".join(self.names))

    def _read(self) -> list[_Key]:
        if self._file is None:
            return _unique(self._of_variable, "the variable")
        try:
            with self._file.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
                mode = self._file.stat().st_mode
        except OSError as error:
            raise KeysError(f"the keys file {self._file} cannot be read: {error.strerror or error}") from None
        if len(data) > MOST_BYTES:
            raise KeysError(f"the keys file {self._file} is larger than {MOST_BYTES} bytes, the most that is read")
        if mode & _OTHERS:
            _log.warning("the keys file %s is open to every user of this machine; `chmod 600` it", self._file)
        lines = data.decode("utf-8", "replace").splitlines()
        return _unique([*_parsed(lines, f"the keys file {self._file}"), *self._of_variable], str(self._file))


def bearer(headers: list[tuple[bytes, bytes]]) -> bytes:
    """The key that a request carries as ``Authorization: Bearer KEY``; empty where there is none, or more than one."""
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        return b""
    scheme, _, given = values[0].strip().partition(b" ")
    return given.strip() if scheme.lower() == b"bearer" else b""


def _parsed(lines: list[str], where: str) -> list[_Key]:
    keys = list(_entries(lines, where))
    if not keys:
        raise KeysError(f"{where} holds no key; {FORM}")
    return keys


def _entries(lines: list[str], where: str) -> Iterator[_Key]:
    for number, line in enumerate(lines, 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        name, colon, key = entry.partition(":")
        if not colon or not _NAME.fullmatch(name) or not _KEY.fullmatch(key):
            raise KeysError(f"{where} is wrong in entry {number}: {FORM}")
        yield _Key(name, hashlib.sha256(key.encode("ascii")).digest())


def _unique(keys: list[_Key], where: str) -> list[_Key]:
    owners: dict[bytes, str] = {}
    for key in keys:
        if key.digest in owners:
            raise KeysError(f"{where} gives {owners[key.digest]} and {key.name} the same key; a key has one owner")
        owners[key.digest] = key.name
    return keys


def _pattern(path: str) -> re.Pattern[str]:
    if not path.startswith("/"):
        raise KeysError(f"the open path {path!r} does not begin with a slash")
    return re.compile("[^/]+".join(map(re.escape, path.split("*"))))
