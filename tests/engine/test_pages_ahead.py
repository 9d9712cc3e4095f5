"""Memory behind the pages in use takes room before it is needed, and only so much of it."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import pytest

from engine.loader import cpu_flags
from engine.native.build import with_library
from engine.native.library import Library, MappedMemory
from engine.native.pages_ahead import PagesAhead
from engine.native.variants import choose
from tests.engine.native_models import need_native

PAGE_BYTES = 1 << 20
NUM_PAGES = 128


@pytest.fixture
def library(library_cache: Path) -> Library:
    """The built functions."""
    need_native()
    return with_library(choose(cpu_flags()), Library, cache=library_cache)


def resident(memory: MappedMemory) -> list[bool]:
    """Of each page, whether the first of its bytes has room."""
    pages = -(-memory.size // mmap.PAGESIZE)
    found = (ctypes.c_uint8 * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(memory.address), ctypes.c_size_t(memory.size), found) == 0
    return [bool(found[page * PAGE_BYTES // mmap.PAGESIZE] & 1) for page in range(NUM_PAGES)]


def test_pages_behind_those_in_use_take_room(library: Library) -> None:
    """Sixteen pages are an eighth of 128: with page 0 in use, pages 0 to 16 have room and page 20 has not."""
    memory = MappedMemory(library, NUM_PAGES * PAGE_BYTES)
    ahead = PagesAhead(library, memory, PAGE_BYTES, NUM_PAGES)
    assert not any(resident(memory))
    ahead.reach(0)
    ahead.close()
    assert resident(memory)[:17] == [True] * 17
    assert not any(resident(memory)[20:])


def test_what_was_written_stays(library: Library) -> None:
    """The bytes of a page are those before it."""
    memory = MappedMemory(library, NUM_PAGES * PAGE_BYTES)
    memory.tensor()[: 4 * PAGE_BYTES] = 7
    ahead = PagesAhead(library, memory, PAGE_BYTES, NUM_PAGES)
    ahead.reach(3)
    ahead.close()
    assert memory.tensor()[: 4 * PAGE_BYTES].eq(7).all()
    assert not memory.tensor()[4 * PAGE_BYTES : 8 * PAGE_BYTES].any()


def test_the_last_pages_are_the_end(library: Library) -> None:
    """Use of the last page asks for nothing behind the memory."""
    memory = MappedMemory(library, NUM_PAGES * PAGE_BYTES)
    ahead = PagesAhead(library, memory, PAGE_BYTES, NUM_PAGES)
    for page in range(NUM_PAGES):
        ahead.reach(page)
    ahead.close()
    assert all(resident(memory))


def test_a_pool_of_few_pages_is_left_alone(library: Library) -> None:
    """An eighth of seven pages is none: no memory takes room, and no thread starts."""
    memory = MappedMemory(library, NUM_PAGES * PAGE_BYTES)
    ahead = PagesAhead(library, memory, PAGE_BYTES, 7)
    ahead.reach(6)
    ahead.close()
    assert not any(resident(memory))
