"""Shuts a process off from files and the network by Linux's Landlock, where the kernel has it (5.13 and later).

A decoder that a hostile file has taken over then finds the libraries, that file, and one place to write; no keys, no
other request's files, nobody to talk to. Bits and structures: the kernel's ``include/uapi/linux/landlock.h``.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Final

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
"""Numbers of system calls, the same on all architectures."""
_GIVE_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_REMOVE_FILE: Final = 1 << 5
_MAKE_FILE: Final = 1 << 8
_TRUNCATE: Final = 1 << 14
_WRITING: Final = _READ_FILE | _WRITE_FILE | _TRUNCATE | _MAKE_FILE | _REMOVE_FILE
_FILE_BITS: Final = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many rights on files each version knows; 16 from the fifth on."""
_ALL_TCP: Final = 0b11
_ALL_SCOPES: Final = 0b11
"""No signals and no abstract sockets to processes outside."""


class Sandbox:
    """Made before anything hostile is there; the library folders are those of this interpreter and of the system."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        found = self._call(_CREATE_RULESET, None, 0, _GIVE_VERSION)
        self.version = max(found, 0)
        """Of Landlock; 0 where there is none."""
        folders = {sys.prefix, sys.base_prefix, *sys.path, "/usr", "/lib", "/lib64"}
        self._libraries = [folder for folder in folders if os.path.isdir(folder)]

    def enter(self, readable: str, writable: str) -> None:
        """Leave this process, for good, the libraries, a file to read and a folder to write files into; does nothing
        where there is no Landlock.

        Raises:
            OSError: one of them is not there, or the kernel refuses.
        """
        if not self.version or self._libc is None:
            return
        rights = (1 << _FILE_BITS.get(self.version, 16)) - 1
        attributes = struct.pack("<QQQ", rights, _ALL_TCP, _ALL_SCOPES)
        size = 24 if self.version >= 6 else 16 if self.version >= 4 else 8
        ruleset = self._checked(_CREATE_RULESET, attributes, size, 0)
        for folder in self._libraries:
            self._allow(ruleset, folder, rights & (_EXECUTE | _READ_FILE | _READ_DIR))
        self._allow(ruleset, readable, _READ_FILE)
        self._allow(ruleset, writable, rights & _WRITING)
        self._libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        self._checked(_RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)

    def _allow(self, ruleset: int, path: str, rights: int) -> None:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            self._checked(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("<Qi", rights, descriptor), 0)
        finally:
            os.close(descriptor)

    def _checked(self, number: int, *arguments: int | bytes | None) -> int:
        result = self._call(number, *arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def _call(self, number: int, *arguments: int | bytes | None) -> int:
        return -1 if self._libc is None else int(self._libc.syscall(number, *arguments))
