"""Memory policy, its common part: how sequences get and give back pages, and which of them stay as cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from engine.pages import PagePool
from engine.plan import ModelRunner
from engine.prefix import SHORTEST_RUN, PrefixIndex
from engine.sequences import KVSequence
from engine.stats import MemoryStats
from engine.types import Request

_RUNS_TO_WAIT_FOR = 4
"""A part of a page that another sequence computes is waited for when it saves so many shortest runs of tokens."""


class KVMemory(ABC):
    """Pages for sequences. Two kinds: pages that sequences share, and extents of which each sequence has its own.

    A sequence is *started* with room for all of its tokens, *secured* whenever it got more of them, *committed* after
    each step, and *released*. Whatever it returns or raises, a method leaves pages and index in agreement.
    """

    def __init__(self, runner: ModelRunner, soft_limit: int | None = None, *, shortest_run: int = SHORTEST_RUN) -> None:
        """``soft_limit``: see :class:`engine.pages.PagePool`; ``shortest_run``: tokens of a page worth a copy."""
        self.page_size = runner.page_size
        self._shortest_run = shortest_run
        self._num_pages = runner.num_pages
        self._soft_limit = soft_limit
        self._copy_pages = runner.copy_pages
        self._copy_beginning = runner.copy_beginning
        self._queries = self._hits = self._query_tokens = self._hit_tokens = 0
        self.reset()

    def reset(self) -> None:
        """Forget all pages and everything about them; no sequence may have any after that."""
        self.index: PrefixIndex[KVSequence] = PrefixIndex(self.page_size, self._shortest_run)
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

    def refusal(self, request: Request) -> str | None:
        """Why a request can never have the pages that it may need, as a sentence; None when it can."""
        beams = request.sampling.n if request.sampling.use_beam_search else 1
        prompt, output = len(request.prompt_ids), request.sampling.max_tokens
        needed = self.most_pages(prompt, prompt + output - 1, beams)
        if needed <= self._num_pages:
            return None
        wide = f" in {beams} beams" if beams > 1 else ""
        return (
            f"A prompt of {prompt} tokens with up to {output} tokens of output{wide} needs memory for "
            f"{needed * self.page_size} tokens; this deployment has memory for {self._num_pages * self.page_size}."
        )

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
        """The cached full pages that a sequence can begin with; at least its last token is left to be run."""
        usable = self._usable(sequence) // self.page_size
        self.index.extend_keys(sequence.keys, sequence.tokens, sequence.salt)
        return self.index.lookup(sequence.keys[:usable])

    def must_wait(self, sequence: KVSequence) -> bool:
        """Whether what a sequence would have to compute first is being computed by another one.

        That is a whole page, or so much of it that waiting saves more than it costs: a running sequence waits for
        nobody, so it is there after that one's own next chunks, or will not come.
        """
        hits = len(self.lookup(sequence))
        if hits < self._usable(sequence) // self.page_size and self.index.computed_by(sequence.keys[hits]) is not None:
            return True
        part, least = self._part(sequence, hits), _RUNS_TO_WAIT_FOR * self._shortest_run
        if len(part) < least:
            return False
        before, begin = self._before(sequence, hits), hits * self.page_size
        coming = [run for owner, run in self.index.planned(before, part) if owner.computed < begin + run]
        most = max(coming, default=0)
        return most >= least and most - self.index.longest_part(before, part)[1] >= least

    def commit(self, sequence: KVSequence) -> None:
        """Make what the last step computed known to others: full pages, and now and then what the open one holds."""
        if sequence.computed >= sequence.tell_at:  # no more than that: it is asked of every sequence in every step
            self._tell(sequence)

    def release(self, sequence: KVSequence) -> None:
        """Take a sequence's pages; what is known of them stays as cache."""
        if len(sequence.pages):
            self._tell(sequence)
        first = sequence.told // self.page_size
        self.index.withdraw(sequence.keys[first:], sequence)
        for place in range(first, self.pages_for(len(sequence.tokens))):
            self.index.drop_plan(sequence, place)
        self.pool.release(sequence.pages)
        sequence.pages = []
        sequence.computed = sequence.told = 0
        sequence.source = None

    def distrust(self, sequence: KVSequence) -> None:
        """Nobody shall look up the pages of a sequence any more: their content may be wrong."""
        sequence.cacheable = 0
        for page in sequence.pages if sequence.source is None else [*sequence.pages, sequence.source]:
            self.index.forget(page)
            self.pool.forget(page)

    def check(self, sequences: Iterable[KVSequence]) -> None:
        """Raise PageError or ValueError unless pages, index and the owners ``sequences`` agree."""
        sequences = list(sequences)
        self.pool.check()
        self.index.check(self.pool.kept, sequences)
        owners = [0] * self.pool.num_pages
        for sequence in sequences:
            if sequence.computed > len(sequence.pages) * self.page_size:
                raise ValueError("a sequence has computed more tokens than its pages hold")
            for place, page in enumerate(sequence.pages):
                owners[page] += 1
                held, begin = self.index.tokens_of(page) or [], place * self.page_size
                if held != sequence.tokens[begin : min(begin + len(held), sequence.computed)]:
                    raise ValueError(f"page {page} is known for tokens that its owner has not computed")
        for page, count in enumerate(owners):
            if self.pool.owners(page) != count:
                raise ValueError(f"page {page} has {count} owners and counts {self.pool.owners(page)}")

    def _usable(self, sequence: KVSequence) -> int:
        """Tokens that a sequence may take from the cache: at least its last one is run."""
        return min(len(sequence.tokens) - 1, sequence.cacheable)

    def _before(self, sequence: KVSequence, place: int) -> bytes:
        """The key of what comes before a sequence's page ``place``."""
        return sequence.keys[place - 1] if place else self.index.root(sequence.salt)

    def _part(self, sequence: KVSequence, hits: int) -> list[int]:
        """The tokens of the page behind ``hits`` cached ones that could come from the cache as well."""
        begin = hits * self.page_size
        return sequence.tokens[begin : min(begin + self.page_size, self._usable(sequence))]

    def _find_part(self, sequence: KVSequence, hits: int) -> tuple[int, int]:
        """(page, tokens) of a known page that begins like the one behind ``hits`` cached ones; it is used again now."""
        part = self._part(sequence, hits)
        if len(part) < self._shortest_run:
            return -1, 0
        page, run = self.index.longest_part(self._before(sequence, hits), part)
        if run:
            self.pool.share([page])
            self.pool.release([page])
        return page, run

    def _begin(self, sequence: KVSequence, hits: int, part: tuple[int, int] = (-1, 0)) -> None:
        """Note that a sequence has its pages: ``hits`` from the cache, then ``part`` (page, tokens) of another one."""
        size = self.page_size
        source, run = part
        sequence.source = source if run else None
        sequence.computed = sequence.told = hits * size + run
        sequence.tell_at = self._tell_next(sequence)
        self._queries += 1
        self._hits += sequence.computed > 0
        self._query_tokens += len(sequence.tokens)
        self._hit_tokens += sequence.computed
        self.index.announce(sequence.keys[hits : sequence.cacheable // size], sequence)
        end = min(len(sequence.tokens), sequence.cacheable)
        for place in range(hits, self.pages_for(end)):
            planned = sequence.tokens[place * size : min((place + 1) * size, end)]
            if len(planned) >= _RUNS_TO_WAIT_FOR * self._shortest_run:
                self.index.plan(sequence, place, self._before(sequence, place), planned)

    def _tell_next(self, sequence: KVSequence) -> int:
        """The computed tokens with which the index hears of a sequence again: soon while its prompt is run."""
        computed, size = sequence.computed, self.page_size
        least = self._shortest_run if sequence.left else _RUNS_TO_WAIT_FOR * self._shortest_run
        return min(computed + least, (computed // size + 1) * size)

    def _tell(self, sequence: KVSequence) -> None:
        """Tell the index of what a sequence has computed."""
        size, known = self.page_size, min(sequence.computed, sequence.cacheable)
        sequence.tell_at = self._tell_next(sequence)
        if known <= sequence.told:
            return
        first, full = sequence.told // size, known // size
        if full > len(sequence.keys):
            self.index.extend_keys(sequence.keys, sequence.tokens[: full * size], sequence.salt)
        for place in range(first, full):
            self._know(sequence, place, (place + 1) * size, sequence.keys[place])
            self.index.drop_plan(sequence, place)
        self.index.withdraw(sequence.keys[first:full], sequence)
        if known - full * size >= self._shortest_run:
            self._know(sequence, full, known)
        sequence.told = known

    def _know(self, sequence: KVSequence, place: int, end: int, key: bytes | None = None) -> None:
        """Make a page known by its tokens up to ``end``, or give it up where another page has all of them."""
        page = sequence.pages[place]
        tokens = sequence.tokens[place * self.page_size : end]
        superseded = self.index.insert(page, self._before(sequence, place), tokens, key)
        if superseded is None:
            self.pool.forget(page)
            return
        self.pool.keep(page)
        for other in superseded:
            self.pool.forget(other)

    def _child(self, parent: KVSequence, tokens: list[int], pages: list[int] | range) -> KVSequence:
        """A sequence with the parent's computed tokens in ``pages``."""
        shared = parent.keys[: parent.computed // self.page_size]
        return KVSequence(
            tokens,
            parent.limit,
            parent.cacheable,
            parent.salt,
            pages,
            parent.computed,
            shared,
            parent.told,
            parent.tell_at,
        )

    def _copy(self, source: Sequence[int], target: Sequence[int], given_back: Sequence[int]) -> None:
        """Copy pages into new ones; when that fails, ``given_back`` are released."""
        if not source:
            return
        try:
            self._copy_pages(source, target)
        except BaseException:
            self.pool.release(given_back)
            raise

    def _copy_part(self, part: tuple[int, int], target: int, given_back: Sequence[int]) -> None:
        """Copy the first tokens of a page into another one; when that fails, ``given_back`` are released.

        The page may have been evicted since it was found, even to be ``target``: nothing has been written to it yet.
        """
        source, run = part
        try:
            self._copy_beginning(source, target, run)
        except BaseException:
            self.pool.release(given_back)
            raise
