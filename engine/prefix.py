"""The prefix index: which page holds the keys and values of a given beginning, and who is computing one just now."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Generic, TypeVar

_KEY_BYTES = 16

Owner = TypeVar("Owner")


class PrefixIndex(Generic[Owner]):
    """Full pages by a hash of all token ids from the first one to the page's last.

    A page's key is BLAKE2b-128 of its predecessor's key and its own token ids, keyed with 32 random bytes of this
    process, so nobody can search for two beginnings with one key, and by chance there is none either (2^40 pages:
    below 2^-48). Token ids are therefore not compared. What else the content depends on (an adapter, an image) is the
    ``salt`` that a chain begins with.

    Keys are also *announced*: a sequence that is computing pages says so, and others that need the same may wait.
    """

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._secret = os.urandom(32)
        self._pages: dict[bytes, int] = {}
        self._keys: dict[int, bytes] = {}
        self._computing: dict[bytes, Owner] = {}

    def extend_keys(self, keys: list[bytes], token_ids: Sequence[int], salt: bytes) -> None:
        """Append to ``keys``, the keys of the first pages of ``token_ids``, those of all its further full pages."""
        size = self._page_size
        for first in range(len(keys) * size, len(token_ids) - size + 1, size):
            before = keys[-1] if keys else self._hash(salt)
            keys.append(self._hash(before + array("i", token_ids[first : first + size]).tobytes()))

    def lookup(self, keys: Sequence[bytes]) -> list[int]:
        """The pages of the longest run of keys, from the first, that the index has."""
        pages = []
        for key in keys:
            page = self._pages.get(key)
            if page is None:
                break
            pages.append(page)
        return pages

    def insert(self, key: bytes, page: int) -> bool:
        """Make a page known; False when another page is known for the key, which stays."""
        if key in self._pages:
            return False
        self._pages[key] = page
        self._keys[page] = key
        return True

    def move(self, source: int, target: int) -> None:
        """What ``source`` holds is to be looked up in ``target``. ``source`` is known."""
        key = self._keys.pop(source)
        self._keys[target] = key
        self._pages[key] = target

    def forget(self, page: int) -> None:
        """The page will hold something else; an unknown one is fine."""
        key = self._keys.pop(page, None)
        if key is not None:
            del self._pages[key]

    def announce(self, keys: Sequence[bytes], owner: Owner) -> None:
        """``owner`` is going to compute the pages of these keys; who said so first, stays."""
        for key in keys:
            self._computing.setdefault(key, owner)

    def withdraw(self, keys: Sequence[bytes], owner: Owner) -> None:
        """``owner`` has computed the pages of these keys, or will not."""
        for key in keys:
            if self._computing.get(key) is owner:
                del self._computing[key]

    def computed_by(self, key: bytes) -> Owner | None:
        """Who is computing the page of a key that is not known yet."""
        return self._computing.get(key)

    def check(self, kept: Sequence[int]) -> None:
        """Raise ValueError unless the known pages are exactly ``kept`` and both directions agree."""
        if sorted(self._keys) != sorted(kept):
            raise ValueError(f"the index knows the pages {sorted(self._keys)}, the allocator keeps {sorted(kept)}")
        if {page: key for key, page in self._pages.items()} != self._keys:
            raise ValueError("pages and keys of the index do not agree")

    def _hash(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=_KEY_BYTES, key=self._secret).digest()
