"""The prefix index: which page holds the keys and values of a given beginning, and who is computing one just now."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Generic, TypeVar

from engine.token_runs import TokenRuns

SHORTEST_RUN = 8
"""Tokens of a page that are worth a copy. Computing them takes a step far longer than the copy of a page."""
_KEY_BYTES = 16

Owner = TypeVar("Owner")


class PrefixIndex(Generic[Owner]):
    """Full pages by a hash of all token ids from the first one to the page's last; parts of pages by their tokens.

    A full page's key is BLAKE2b-128 of its predecessor's key and its own token ids, keyed with 32 random bytes of this
    process, so nobody can search for two beginnings with one key, and by chance there is none either (2^40 pages:
    below 2^-48). Token ids are therefore not compared. What else the content depends on (an adapter, an image) is the
    ``salt`` that a chain begins with.

    Of each known page the tokens are kept as well, under the key of the pages before it. So a page can serve a
    sequence that is like it only in its beginning, and a page that is not full can be known: an *open* one, whose
    later slots may still be written.

    What a sequence is going to compute is *announced* by key and *planned* by its tokens: others that need the same
    may wait.
    """

    def __init__(self, page_size: int, shortest_run: int = SHORTEST_RUN) -> None:
        """``shortest_run``: parts of pages that have fewer tokens are not found."""
        self._page_size = page_size
        self._secret = os.urandom(32)
        self._pages: dict[bytes, int] = {}
        self._keys: dict[int, bytes] = {}
        self._computing: dict[bytes, Owner] = {}
        self._content: TokenRuns[int] = TokenRuns(shortest_run)
        self._plans: TokenRuns[tuple[Owner, int]] = TokenRuns(shortest_run)

    def root(self, salt: bytes) -> bytes:
        """What stands for the key of the page before the first one."""
        return self._hash(salt)

    def extend_keys(self, keys: list[bytes], token_ids: Sequence[int], salt: bytes) -> None:
        """Append to ``keys``, the keys of the first pages of ``token_ids``, those of all its further full pages."""
        size = self._page_size
        for first in range(len(keys) * size, len(token_ids) - size + 1, size):
            before = keys[-1] if keys else self.root(salt)
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

    def longest_part(self, before: bytes, token_ids: Sequence[int]) -> tuple[int, int]:
        """(page, tokens) of the page behind ``before`` that has the most of ``token_ids``; of equal ones the newest.

        No tokens where no page has ``shortest_run`` of them.
        """
        best, run = -1, 0
        for match in self._content.matches(before, token_ids):
            if match.run > run:
                best, run = match.holder, match.run
        return best, run

    def insert(self, page: int, before: bytes, token_ids: Sequence[int], key: bytes | None = None) -> list[int] | None:
        """Make a page known that holds ``token_ids`` behind the page ``before``; with its key when it is full.

        Returns:
            Open pages that are no longer known, since this one holds all that they do; None when another known page
            holds all that this one does, which is then not known itself.
        """
        if key is not None and key in self._pages:
            self.forget(page)
            return None
        superseded = []
        for match in self._content.matches(before, token_ids):
            if match.holder == page:
                continue
            if key is None and match.run == len(token_ids):
                self.forget(page)
                return None
            if match.run == match.length and match.holder not in self._keys:
                superseded.append(match.holder)
        for other in superseded:
            self._content.discard(other)
        self._content.put(page, before, token_ids)
        if key is not None:
            self._pages[key] = page
            self._keys[page] = key
        return superseded

    def move(self, source: int, target: int) -> None:
        """What ``source`` holds is to be looked up in ``target``. ``source`` is known."""
        self._content.move(source, target)
        key = self._keys.pop(source, None)
        if key is not None:
            self._keys[target] = key
            self._pages[key] = target

    def forget(self, page: int) -> None:
        """The page will hold something else; an unknown one is fine."""
        self._content.discard(page)
        key = self._keys.pop(page, None)
        if key is not None:
            del self._pages[key]

    def tokens_of(self, page: int) -> list[int] | None:
        """What a known page is looked up for."""
        return self._content.tokens_of(page)

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

    def plan(self, owner: Owner, place: int, before: bytes, token_ids: Sequence[int]) -> None:
        """``owner`` is going to compute these tokens of its page ``place``, behind the page ``before``."""
        self._plans.put((owner, place), before, token_ids)

    def drop_plan(self, owner: Owner, place: int) -> None:
        """``owner`` has computed its page ``place``, or will not; what was not planned is fine."""
        self._plans.discard((owner, place))

    def planned(self, before: bytes, token_ids: Sequence[int]) -> Iterator[tuple[Owner, int]]:
        """Who plans to compute the beginning of ``token_ids`` behind the page ``before``, and how many of them."""
        return ((match.holder[0], match.run) for match in self._plans.matches(before, token_ids))

    def check(self, kept: Sequence[int], owners: Sequence[Owner]) -> None:
        """Raise ValueError unless the known pages are exactly ``kept``, only ``owners`` plan, and all books agree."""
        self._content.check()
        self._plans.check()
        known = sorted(self._content.holders)
        if known != sorted(kept):
            raise ValueError(f"the index knows the pages {known}, the allocator keeps {sorted(kept)}")
        if {page: key for key, page in self._pages.items()} != self._keys or not self._keys.keys() <= set(known):
            raise ValueError("pages and keys of the index do not agree")
        listed = {id(owner) for owner in owners}
        if not listed.issuperset(map(id, (*self._computing.values(), *(owner for owner, _ in self._plans.holders)))):
            raise ValueError("a sequence that is no more is said to compute pages")

    def _hash(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=_KEY_BYTES, key=self._secret).digest()
