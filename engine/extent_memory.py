"""Memory policy of runners that need each sequence in one ascending run of pages: extents, copies and moves."""

from __future__ import annotations

from collections.abc import Iterable

from engine.memory import KVMemory
from engine.plan import ModelRunner
from engine.prefix import SHORTEST_RUN
from engine.sequences import KVSequence


class ExtentMemory(KVMemory):
    """Each sequence has one ascending run of pages to itself; what it could share is copied into it.

    A cached page that nobody owns *moves* into the extent that it is copied to: there is no use in having it twice.
    An extent begins with room for the tokens there are and ``growth_tokens`` more. When that is used up it doubles,
    at most to ``limit``: into the pages behind it, or by a move; if there is no room for either, by what it needs.
    """

    def __init__(
        self,
        runner: ModelRunner,
        growth_tokens: int,
        soft_limit: int | None = None,
        *,
        shortest_run: int = SHORTEST_RUN,
    ) -> None:
        super().__init__(runner, soft_limit, shortest_run=shortest_run)
        self._growth_tokens = growth_tokens

    def most_pages(self, prompt_tokens: int, limit: int, beams: int) -> int:
        """See ``KVMemory.most_pages``."""
        return beams * self.pages_for(limit)

    def spare(self, sequence: KVSequence, forks: int, tokens: int, running: int, reserve_all: bool) -> int:
        """See ``KVMemory.spare``: the forks' extents; those of running sequences have room to grow already."""
        return forks * self._capacity(tokens, sequence.limit, reserve_all)

    def start(self, sequence: KVSequence, spare: int, reserve_all: bool) -> bool:
        """See ``KVMemory.start``."""
        if reserve_all and not self.pool.used:
            self.pool.evict_all()  # from an empty pool extents come one after the other, without gaps
        capacity = self._capacity(len(sequence.tokens), sequence.limit, reserve_all)
        if self.pool.available < capacity + spare or (reserve_all and spare and not self._fits(capacity + spare)):
            return False
        hits = self.lookup(sequence)
        part = self._find_part(sequence, len(hits))
        if self._adopt(sequence, hits, part, capacity):
            return True
        self.pool.share(hits)  # so that they are not given away
        run = self.pool.take_run(capacity)
        if run is None and hits:
            # The cached pages themselves may stand in the way.
            self.pool.release(hits)
            hits, part = [], (-1, 0)
            run = self.pool.take_run(capacity)
        if run is None:
            return False
        try:
            if part[1]:  # before the hits: the page that has the part may be one that a hit is copied to
                self._copy_part(part, run[len(hits)], given_back=run)
            self._copy(hits, run[: len(hits)], given_back=run)
        finally:
            self.pool.release(hits)
        self._move_keys(hits, run)
        sequence.pages = run
        self._begin(sequence, len(hits), part)
        return True

    def secure(self, sequence: KVSequence) -> bool:
        """See ``KVMemory.secure``."""
        pages = sequence.pages
        have, needed = len(pages), self.pages_for(len(sequence.tokens))
        if needed <= have:
            return True
        assert isinstance(pages, range)
        wanted = max(needed, min(2 * have, self.pages_for(sequence.limit)))
        grown = self.pool.extend_run(pages, wanted - have)
        if grown is None:
            grown = self._moved(sequence, pages, wanted) or self.pool.extend_run(pages, needed - have)
        if grown is None and needed < wanted:
            grown = self._moved(sequence, pages, needed)
        if grown is None:
            return False
        sequence.pages = grown
        return True

    def fork(self, parent: KVSequence, tokens: list[int], reserve_all: bool = False) -> KVSequence | None:
        """See ``KVMemory.fork``."""
        run = self.pool.take_run(self._capacity(len(tokens), parent.limit, reserve_all))
        if run is None:
            return None
        filled = self.pages_for(parent.computed)
        self._copy(parent.pages[:filled], run[:filled], given_back=run)
        return self._child(parent, tokens, run)

    def replace(self, dead: KVSequence, parent: KVSequence, tokens: list[int]) -> KVSequence:
        """See ``KVMemory.replace``: the extent of ``dead`` stays; the full pages of the prompt are the same in both."""
        equal, filled = parent.cacheable // self.page_size, self.pages_for(parent.computed)
        if filled > equal:
            self._copy_pages(parent.pages[equal:filled], dead.pages[equal:filled])
        child = self._child(parent, tokens, dead.pages)
        dead.pages = []
        self.release(dead)
        return child

    def _fits(self, count: int) -> bool:
        """Whether there is a run of so many pages. Beams that came back would otherwise find that they cannot part,
        give way, and come back again, each time before all others."""
        run = self.pool.take_run(count)
        if run is not None:
            self.pool.release(run)
        return run is not None

    def _capacity(self, tokens: int, limit: int, reserve_all: bool) -> int:
        """Pages of a new extent for a sequence of ``tokens``."""
        return self.pages_for(limit if reserve_all else min(limit, tokens + self._growth_tokens))

    def _moved(self, sequence: KVSequence, pages: range, wanted: int) -> range | None:
        """An extent of ``wanted`` pages elsewhere with all that ``pages`` hold, which are released."""
        run = self.pool.take_run(wanted)
        if run is not None:
            filled = self.pages_for(sequence.computed)
            self._copy(pages[:filled], run[:filled], given_back=run)
            self.pool.release(pages)
            self._move_keys(pages, run)
        return run

    def _adopt(self, sequence: KVSequence, hits: list[int], part: tuple[int, int], capacity: int) -> bool:
        """Continue cached pages where they lie, without a copy: nobody owns them, they are a run, and there is room."""
        if not hits or hits != list(range(hits[0], hits[0] + len(hits))) or any(map(self.pool.owners, hits)):
            return False
        run = range(hits[0], hits[0] + len(hits))
        self.pool.share(run)
        grown = self.pool.extend_run(run, capacity - len(hits))
        if grown is None:
            self.pool.release(run)
            return False
        if part[1]:
            self._copy_part(part, grown[len(hits)], given_back=grown)
        sequence.pages = grown
        self._begin(sequence, len(hits), part)
        return True

    def _move_keys(self, source: Iterable[int], target: Iterable[int]) -> None:
        """Look up in ``target`` what was known of those pages in ``source`` that nobody owns any more."""
        for old, new in zip(source, target, strict=False):
            if not self.pool.owners(old) and self.pool.is_kept(old):
                self.index.move(old, new)
                self.pool.forget(old)
                self.pool.keep(new)
