"""Memory policy of runners that read any pages: sequences share them by reference."""

from __future__ import annotations

from engine.memory import KVMemory
from engine.sequences import KVSequence


class PagedMemory(KVMemory):
    """Sequences share full pages by reference; a page that is not full, or like another's for a part, is copied."""

    def most_pages(self, prompt_tokens: int, limit: int, beams: int) -> int:
        """See ``KVMemory.most_pages``: beams share at least the full pages of their prompt."""
        shared = prompt_tokens // self.page_size
        return shared + beams * (self.pages_for(limit) - shared)

    def spare(self, sequence: KVSequence, forks: int, tokens: int, running: int, reserve_all: bool) -> int:
        """See ``KVMemory.spare``: one page for each sequence that runs, and what the forks do not share."""
        return running + forks * (self.pages_for(tokens + 1) - len(sequence.tokens) // self.page_size)

    def start(self, sequence: KVSequence, spare: int, reserve_all: bool) -> bool:
        """See ``KVMemory.start``; later pages come one by one, so there is nothing to reserve."""
        hits = self.lookup(sequence)
        part = self._find_part(sequence, len(hits))
        missing = self.pages_for(len(sequence.tokens)) - len(hits)
        self.pool.share(hits)  # first, so that they are not given away
        own = self.pool.take(missing) if self.pool.available >= missing + spare else None
        if own is None:
            self.pool.release(hits)
            return False
        pages = hits + own
        if part[1]:
            self._copy_part(part, own[0], given_back=pages)
        sequence.pages = pages
        self._begin(sequence, len(hits), part)
        return True

    def secure(self, sequence: KVSequence) -> bool:
        """See ``KVMemory.secure``."""
        pages = sequence.pages
        missing = self.pages_for(len(sequence.tokens)) - len(pages)
        if missing <= 0:
            return True
        added = self.pool.take(missing)
        if added is None:
            return False
        assert isinstance(pages, list)
        pages += added
        return True

    def fork(self, parent: KVSequence, tokens: list[int], reserve_all: bool = False) -> KVSequence | None:
        """See ``KVMemory.fork``."""
        full, rest = divmod(parent.computed, self.page_size)
        own = self.pool.take(1) if rest else []
        if own is None:
            return None
        self._copy(parent.pages[full : full + len(own)], own, given_back=own)
        shared = list(parent.pages[:full])
        self.pool.share(shared)
        return self._child(parent, tokens, shared + own)

    def replace(self, dead: KVSequence, parent: KVSequence, tokens: list[int]) -> KVSequence:
        """See ``KVMemory.replace``: ``dead`` has a page of its own whenever the fork needs one."""
        self.release(dead)
        child = self.fork(parent, tokens)
        assert child is not None
        return child
