"""The native step's C interface in Python: its structures, its functions, and memory that it maps."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any
from weakref import finalize

import torch
from torch import Tensor

_SMAPS = Path("/proc/self/smaps")


class CLinear(Structure):
    """``Linear`` of src/model.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("weights", "scales", "bias")),
        ("outputs", c_int64),
        ("inputs", c_int64),
    ]


class CLayer(Structure):
    """``Layer`` of src/model.h."""

    _fields_ = [
        *(
            (name, c_void_p)
            for name in (
                "attention_norm",
                "feed_forward_norm",
                "query_norm",
                "key_norm",
                "attention_post",
                "feed_forward_post",
                "cosines",
                "sines",
            )
        ),
        *((name, CLinear) for name in ("qkv", "out", "gate_up", "down")),
        ("rotated", c_int64),
        ("window", c_int64),
    ]


class CModel(Structure):
    """``Model`` of src/model.h."""

    _fields_ = [
        *(
            (name, c_int64)
            for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "inner", "vocab", "page", "gelu")
        ),
        *(
            (name, c_float)
            for name in (
                "epsilon",
                "attention_scale",
                "attention_cap",
                "logit_cap",
                "embedding_factor",
                "residual_factor",
                "logit_factor",
            )
        ),
        ("embeddings", c_void_p),
        ("norm", c_void_p),
        ("head", CLinear),
        ("layer", POINTER(CLayer)),
    ]


class CBatch(Structure):
    """``Batch`` of src/model.h."""

    _fields_ = [
        ("rows", c_int64),
        ("wanted", c_int64),
        *((name, c_void_p) for name in ("token_ids", "positions", "sequences", "page_begins", "pages", "wanted_rows")),
    ]


class MappedMemory:
    """Zeroed memory in huge pages, where the system gives them, that takes room only as it is written."""

    def __init__(self, library: Library, size: int) -> None:
        """Map ``size`` bytes.

        Raises:
            MemoryError: the system gives no such room.
        """
        self.size = size
        address = library.map(max(size, 1))
        if not address:
            raise MemoryError(f"the system gives no room for {size} bytes")
        self.address = int(address)
        self._freed = finalize(self, library.unmap, self.address, max(size, 1))

    def huge_bytes(self) -> int:
        """So many bytes of what was written lie in huge pages, by the system's own account; all where it gives none."""
        found = 0
        inside = False
        try:
            account = _SMAPS.read_text()
        except OSError:
            return self.size
        for line in account.splitlines():
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):
                first, last = (int(end, 16) for end in name.split("-"))
                inside = first < self.address + self.size and self.address < last
            elif inside and name == "AnonHugePages:":
                found += int(rest.split()[0]) * 1024
        return found

    def tensor(self) -> Tensor:
        """The bytes as a tensor ``[size]``; valid as long as this object is."""
        array = (ctypes.c_uint8 * self.size).from_address(self.address)
        return torch.frombuffer(array, dtype=torch.uint8)


class Library:
    """The functions of a loaded library. They let other Python threads run, and check nothing."""

    def __init__(self, path: Path) -> None:
        """Load it.

        Raises:
            OSError: it is not a library that this machine can load, or not this one.
        """
        loaded = ctypes.CDLL(str(path))
        try:
            self.map = _function(loaded.mindspec_map, c_void_p, c_int64)
            self.unmap = _function(loaded.mindspec_unmap, None, c_void_p, c_int64)
            self.touch = _function(loaded.mindspec_touch, None, c_void_p, c_int64, c_int64)
            self.new_pool = _function(loaded.mindspec_pool_new, c_void_p, c_int32)
            self.free_pool = _function(loaded.mindspec_pool_free, None, c_void_p)
            self.pack = _function(loaded.mindspec_pack, None, *[c_void_p] * 3, *[c_int64] * 5)
            self.pack_int8 = _function(loaded.mindspec_pack_int8, None, *[c_void_p] * 4, *[c_int64] * 5)
            self.new_step = _function(loaded.mindspec_step_new, c_void_p, POINTER(CModel), c_void_p, c_void_p)
            self.free_step = _function(loaded.mindspec_step_free, None, c_void_p)
            self.run_step = _function(loaded.mindspec_step_run, c_int32, c_void_p, POINTER(CBatch), c_void_p, c_int32)
            self.copy_pages = _function(
                loaded.mindspec_copy_pages, None, c_void_p, c_int64, c_void_p, c_void_p, c_int64
            )
            self.new_selection = _function(loaded.mindspec_selection_new, c_void_p, c_void_p)
            self.free_selection = _function(loaded.mindspec_selection_free, None, c_void_p)
            self.likeliest = _function(
                loaded.mindspec_likeliest, c_int32, *[c_void_p] * 2, *[c_int64] * 2, *[c_void_p] * 2, c_int32
            )
            self.draw = _function(
                loaded.mindspec_draw, c_int32, *[c_void_p] * 2, c_int64, c_void_p, c_int64, c_void_p, c_int32
            )
            self.logprobs = _function(
                loaded.mindspec_logprobs, c_int32, *[c_void_p] * 2, c_int64, c_void_p, c_int64, *[c_void_p] * 3, c_int32
            )
        except AttributeError as error:
            raise OSError(f"{path.name} lacks a function: {error}") from error


class ThreadPool:
    """The library's threads."""

    def __init__(self, library: Library, threads: int) -> None:
        """Start them; the calling thread is one of them.

        Raises:
            MemoryError: the system gives no such threads.
        """
        self.threads = threads
        self.handle = library.new_pool(threads)
        if not self.handle:
            raise MemoryError(f"the system gives no {threads} threads")
        self._freed = finalize(self, library.free_pool, self.handle)


def _function(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    function.restype = result
    function.argtypes = arguments
    typed: Callable[..., Any] = function
    return typed
