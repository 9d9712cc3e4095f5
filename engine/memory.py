"""Memory policy, its common part: how sequences get and give back pages, and which of them stay as cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from engine.pages import PagePool
from engine.plan import ModelRunner
from engine.prefix import PrefixIndex
from engine.sequences import KVSequence
from engine.stats import MemoryStats


class KVMemory(ABC):
    """Pages for sequences. Two kinds: pages that sequences share, and extents of which each sequence has its own.

    A sequence is *started* with room for all of its tokens, *secured* whenever it got more of them, *committed* after
    each step, and *released*. Whatever it returns or raises, a method leaves pages and index in agreement.
    """

    def __init__(self, runner: ModelRunner, soft_limit: int | None = None) -> None:
        """``soft_limit``: see :class:`engine.pages.PagePool`."""
        self.page_size = runner.page_size
        self._num_pages = runner.num_pages
        self._soft_limit = soft_limit
        self._copy_pages = runner.copy_pages
        self._queries = self._hits = self._query_tokens = self._hit_tokens = 0
        self.reset()

    def reset(self) -> None:
        """Forget all pages and everything about them; no sequence may have any after that."""
        self.index: PrefixIndex[KVSequence] = PrefixIndex(self.page_size)
        self.pool = PagePool(self._num_pages, self.index.forget, self._soft_limit)

    @property
    def stats(self) -> MemoryStats:
        """For metrics."""
        pool = self.pool
        counts = (self._queries, self._hits, self._query_tokens, self._hit_tokens)
        return MemoryStats(pool.num_pages, pool.used, pool.cached, *counts)

    def pages_for(self, tokens: int) -> int:
        """Pages that hold so many tokens."""
        return -(-tokens // self.page_size)

    @abstractmethod
    def most_pages(self, prompt_tokens: int, limit: int, beams: int) -> int:
        """Pages that a choice (``beams`` 1) or a set of beams can need at one time, each up to ``limit`` tokens."""

    @abstractmethod
    def spare(self, sequence: KVSequence, forks: int, tokens: int, running: int, reserve_all: bool) -> int:
        """Pages that had better be left when ``sequence`` starts beside others.

        Args:
            forks: sequences that will part from it after its prompt.
            tokens: the length that these begin with.
            running: sequences that run already.
            reserve_all: as for ``start``.
        """

    @abstractmethod
    def start(self, sequence: KVSequence, spare: int, reserve_all: bool) -> bool:
        """Give a sequence its pages, with what the cache has of it; False, and nothing changes, without room.

        Args:
            spare: pages that must stay available.
            reserve_all: take the room for ``limit`` tokens at once, where that means anything.
        """

    @abstractmethod
    def secure(self, sequence: KVSequence) -> bool:
        """Make room for all tokens of a started sequence; False, and nothing changes, when there is none."""

    @abstractmethod
    def fork(self, parent: KVSequence, tokens: list[int], reserve_all: bool = False) -> KVSequence | None:
        """A sequence of ``tokens`` that continues all that ``parent`` has computed; None when there is no room.

        It may have to be secured.
        """

    @abstractmethod
    def replace(self, dead: KVSequence, parent: KVSequence, tokens: list[int]) -> KVSequence:
        """Like ``fork``, with the room of ``dead``, which is released. Never fails.

        ``dead`` and ``parent`` were forked from one sequence and have computed as many tokens.
        """

    def lookup(self, sequence: KVSequence) -> list[int]:
        """The cached pages that a sequence can begin with; at least its last token is left to be run."""
        usable = min(len(sequence.tokens) - 1, sequence.cacheable) // self.page_size
        self.index.extend_keys(sequence.keys, sequence.tokens, sequence.salt)
        return self.index.lookup(sequence.keys[:usable])

    def must_wait(self, sequence: KVSequence) -> bool:
        """Whether the first page that a sequence would have to compute is being computed by another one."""
        hits = len(self.lookup(sequence))
        usable = min(len(sequence.tokens) - 1, sequence.cacheable) // self.page_size
        return hits < usable and self.index.computed_by(sequence.keys[hits]) is not None

    def commit(self, sequence: KVSequence) -> None:
        """Make the pages that the last step filled known to others."""
        full = min(sequence.computed, sequence.cacheable) // self.page_size
        if full <= sequence.offered:
            return
        if full > len(sequence.keys):
            self.index.extend_keys(sequence.keys, sequence.tokens[: full * self.page_size], sequence.salt)
        for place in range(sequence.offered, full):
            if self.index.insert(sequence.keys[place], sequence.pages[place]):
                self.pool.keep(sequence.pages[place])
        self.index.withdraw(sequence.keys[sequence.offered : full], sequence)
        sequence.offered = full

    def release(self, sequence: KVSequence) -> None:
        """Take a sequence's pages; what is known of them stays as cache."""
        self.index.withdraw(sequence.keys[sequence.offered :], sequence)
        self.pool.release(sequence.pages)
        sequence.pages = []
        sequence.computed = sequence.offered = 0

    def distrust(self, sequence: KVSequence) -> None:
        """Nobody shall look up the pages of a sequence any more: their content may be wrong."""
        for page in sequence.pages:
            self.index.forget(page)
            self.pool.forget(page)

    def check(self, sequences: Iterable[KVSequence]) -> None:
        """Raise PageError or ValueError unless pages, index and the owners ``sequences`` agree."""
        self.pool.check()
        self.index.check(self.pool.kept)
        owners = [0] * self.pool.num_pages
        for sequence in sequences:
            if sequence.computed > len(sequence.pages) * self.page_size:
                raise ValueError("a sequence has computed more tokens than its pages hold")
            for page in sequence.pages:
                owners[page] += 1
        for page, count in enumerate(owners):
            if self.pool.owners(page) != count:
                raise ValueError(f"page {page} has {count} owners and counts {self.pool.owners(page)}")

    def _begin(self, sequence: KVSequence, hits: int) -> None:
        """Note that a sequence has its pages, the first ``hits`` of them from the cache."""
        sequence.computed = hits * self.page_size
        sequence.offered = hits
        self._queries += 1
        self._hits += hits > 0
        self._query_tokens += len(sequence.tokens)
        self._hit_tokens += sequence.computed
        self.index.announce(sequence.keys[hits : sequence.cacheable // self.page_size], sequence)

    def _child(self, parent: KVSequence, tokens: list[int], pages: list[int] | range) -> KVSequence:
        """A sequence with the parent's computed tokens in ``pages``."""
        shared = parent.keys[: parent.computed // self.page_size]
        offered = min(parent.offered, len(shared))
        return KVSequence(tokens, parent.limit, parent.cacheable, parent.salt, pages, parent.computed, shared, offered)

    def _copy(self, source: Sequence[int], target: Sequence[int], given_back: Sequence[int]) -> None:
        """Copy pages into new ones; when that fails, ``given_back`` are released."""
        if not source:
            return
        try:
            self._copy_pages(source, target)
        except BaseException:
            self.pool.release(given_back)
            raise
