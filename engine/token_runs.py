"""Rows of token ids behind a common beginning, and for how many tokens another row is like one of them."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

NEWEST_COMPARED = 16
"""Rows that a search compares at most, the newest ones; each takes about 0.3 us for a page of 128 tokens."""
_TOKEN_BITS = 8 * array("i").itemsize

Holder = TypeVar("Holder", bound=Hashable)


class Match(NamedTuple, Generic[Holder]):
    """A row that begins like the one searched for."""

    holder: Holder
    run: int
    """Tokens that are the same in both, from the first one."""
    length: int
    """Tokens of the holder's row."""


class _Row(NamedTuple):
    place: bytes
    bits: int
    length: int


class TokenRuns(Generic[Holder]):
    """One row for each holder, found by the key of what comes before it and its own first tokens.

    A row is compared as one large integer: the lowest bit in which two of them differ lies in the first token that
    differs. Tokens themselves are compared, so a match is exact.
    """

    def __init__(self, shortest: int) -> None:
        """Only rows that agree in their first ``shortest`` tokens are found."""
        self._shortest = shortest
        self._rows: dict[Holder, _Row] = {}
        self._places: dict[bytes, dict[Holder, None]] = {}  # in order of arrival

    @property
    def holders(self) -> Collection[Holder]:
        """Who has a row."""
        return self._rows.keys()

    def put(self, holder: Holder, before: bytes, token_ids: Sequence[int]) -> None:
        """``holder`` has these tokens behind the beginning with the key ``before``, and no others."""
        row = self._row(before, token_ids)
        old = self._rows.get(holder)
        if old is not None and old.place != row.place:
            self.discard(holder)
        self._rows[holder] = row
        self._places.setdefault(row.place, {})[holder] = None

    def discard(self, holder: Holder) -> None:
        """A holder has nothing any more; who had nothing is fine."""
        row = self._rows.pop(holder, None)
        if row is not None:
            at_place = self._places[row.place]
            del at_place[holder]
            if not at_place:
                del self._places[row.place]

    def move(self, source: Holder, target: Holder) -> None:
        """``target`` has what ``source`` had. ``source`` has a row."""
        row = self._rows[source]
        self.discard(source)
        self.discard(target)
        self._rows[target] = row
        self._places.setdefault(row.place, {})[target] = None

    def matches(self, before: bytes, token_ids: Sequence[int]) -> Iterator[Match[Holder]]:
        """The newest rows that agree in the first tokens, at most ``NEWEST_COMPARED``, the newest first."""
        row = self._row(before, token_ids)
        for holder in islice(reversed(self._places.get(row.place, {})), NEWEST_COMPARED):
            found = self._rows[holder]
            differing = found.bits ^ row.bits
            run = min(found.length, row.length)
            if differing:
                run = min(run, ((differing & -differing).bit_length() - 1) // _TOKEN_BITS)
            yield Match(holder, run, found.length)

    def tokens_of(self, holder: Holder) -> list[int] | None:
        """The row of a holder."""
        row = self._rows.get(holder)
        if row is None:
            return None
        tokens = array("i")
        tokens.frombytes(row.bits.to_bytes(row.length * tokens.itemsize, "little"))
        return tokens.tolist()

    def check(self) -> None:
        """Raise ValueError unless rows and places agree."""
        by_place = {holder: place for place, holders in self._places.items() for holder in holders}
        if by_place != {holder: row.place for holder, row in self._rows.items()} or not all(self._places.values()):
            raise ValueError("rows of tokens and their places do not agree")

    def _row(self, before: bytes, token_ids: Sequence[int]) -> _Row:
        tokens = array("i", token_ids)
        data = tokens.tobytes()
        # Little endian wherever we run: a token's place among the bits counts, not the order of its own bytes.
        return _Row(before + data[: self._shortest * tokens.itemsize], int.from_bytes(data, "little"), len(tokens))
