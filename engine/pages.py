"""The page allocator: which page is free, owned by how many sequences, or kept as cache until somebody needs it."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence

_FREE, _CACHED, _OWNED = b"fco"
_FREE_RUN = re.compile(b"f+")
_LOOSE_RUN = re.compile(b"[fc]+")


class PageError(Exception):
    """The allocator was used wrongly, or its books do not agree; the message says how."""


class PagePool:
    """Pages 0..num_pages-1, each exactly one of: free; owned, by one or more sequences; cached, by nobody.

    A page whose content somebody may look up again is *kept* (``keep``): when its last owner lets go of it, it is
    cached instead of free. Cached pages count as available. They are given away when free ones do not do, the one
    that nobody used for the longest time first, and ``on_evict`` hears of each.

    A page that never held anything takes no memory from the machine yet. So the lowest free pages go first, and above
    ``soft_limit`` cached pages are given away before new ones: the process grows with what its sequences need at the
    same time, not with every prompt that it has ever seen.

    Pages are allocated one by one (any pages, constant time each) or as ascending runs. The search for a free run goes
    over the state of all pages as a byte string, with the regular expression engine: 16 us for 2,000 pages. Where all
    of them are cached, finding what to evict takes 0.7 ms; that is once per admitted request or growth, not per step.
    """

    def __init__(self, num_pages: int, on_evict: Callable[[int], None], soft_limit: int | None = None) -> None:
        """All pages free.

        Args:
            num_pages: how many.
            on_evict: is called with a cached page that is about to hold something else.
            soft_limit: pages that may become used for the sake of what is cached in others; None: all.
        """
        self.num_pages = num_pages
        self._near = num_pages if soft_limit is None else min(soft_limit, num_pages)
        """Every page from this one on is free, has never been used, and is above the soft limit."""
        self._on_evict = on_evict
        self._owners = [0] * num_pages
        self._kept = bytearray(num_pages)
        self._state = bytearray([_FREE]) * num_pages
        self._free = dict.fromkeys(reversed(range(num_pages)))  # an ordered set; the last one goes first
        self._cached: OrderedDict[int, int] = OrderedDict()  # page -> when it was let go; longest ago first
        self._clock = 0

    @property
    def available(self) -> int:
        """Pages that can be allocated: free and cached ones."""
        return len(self._free) + len(self._cached)

    @property
    def cached(self) -> int:
        """Pages that nobody owns and whose content can still be looked up."""
        return len(self._cached)

    @property
    def used(self) -> int:
        """Pages that have an owner."""
        return self.num_pages - self.available

    @property
    def kept(self) -> list[int]:
        """The pages whose content can be looked up, owned or cached."""
        return [page for page in range(self.num_pages) if self._kept[page]]

    def is_kept(self, page: int) -> bool:
        """Whether the content of a page can be looked up."""
        return bool(self._kept[page])

    def owners(self, page: int) -> int:
        """How many sequences own a page."""
        return self._owners[page]

    def take(self, count: int) -> list[int] | None:
        """``count`` pages with one owner each, in any order; None, and nothing changes, when there are not so many."""
        if count > self.available:
            return None
        far = self.num_pages - self._near
        while self._cached and len(self._free) - far < count:
            self._evict(next(iter(self._cached)))
        pages = [self._free.popitem()[0] for _ in range(count)]
        for page in pages:
            self._owners[page] = 1
            self._state[page] = _OWNED
        self._near = max(self._near, 1 + max(pages, default=-1))
        return pages

    def take_run(self, count: int) -> range | None:
        """``count`` ascending pages with one owner each; None, and nothing changes, when there is no such run.

        Out of the shortest run of free pages that is long enough, at its beginning. If there is none, from the run
        of free and cached pages in which that evicts the least recently used ones. Only then from new pages above the
        soft limit, and as few of them as possible.
        """
        near = self._near
        fits = [span for span in self._runs(_FREE_RUN, self.num_pages, count) if span[0] + count <= near]
        if fits:
            start = min(fits, key=lambda span: span[1] - span[0])[0]
        elif loose := self._runs(_LOOSE_RUN, near, count):
            start = min(self._oldest_window(span, count) for span in loose)[1]
        else:
            start = self._state.rfind(_OWNED) + 1
            if start + count > self.num_pages:
                return None
        run = range(start, start + count)
        self._claim(run)
        return run

    def _runs(self, kind: re.Pattern[bytes], end: int, count: int) -> list[tuple[int, int]]:
        """(first page, end) of each run of that kind before ``end`` that has ``count`` pages."""
        spans = [match.span() for match in kind.finditer(self._state, 0, end)]
        return [span for span in spans if span[1] - span[0] >= count]

    def extend_run(self, run: range, count: int) -> range | None:
        """``run`` with the ``count`` pages after it, which get one owner; None when one of them is owned."""
        added = range(run.stop, run.stop + count)
        if added.stop > self.num_pages or _OWNED in self._state[added.start : added.stop]:
            return None
        self._claim(added)
        return range(run.start, added.stop)

    def share(self, pages: Iterable[int]) -> None:
        """Add an owner to owned or cached pages. Raises PageError for a free one."""
        for page in pages:
            if not self._owners[page]:
                if page not in self._cached:
                    raise PageError(f"page {page} is free and has nothing to share")
                del self._cached[page]
                self._state[page] = _OWNED
            self._owners[page] += 1

    def release(self, pages: Sequence[int]) -> None:
        """Take one owner from each page; those without any become cached where kept, else free.

        The last page counts as let go first, so that of a sequence's pages the end is evicted before the beginning,
        without which it could not be looked up. Raises PageError for a page without owner.
        """
        for page in reversed(pages):
            if not self._owners[page]:
                raise PageError(f"page {page} has no owner who could release it")
            self._owners[page] -= 1
            if not self._owners[page]:
                if self._kept[page]:
                    self._cached[page] = self._clock
                    self._state[page] = _CACHED
                    self._clock += 1
                else:
                    self._free[page] = None
                    self._state[page] = _FREE

    def keep(self, page: int) -> None:
        """The content of an owned page can be looked up from now on. Raises PageError for a page without owner."""
        if not self._owners[page]:
            raise PageError(f"page {page} has no owner, so its content is not worth keeping")
        self._kept[page] = 1

    def forget(self, page: int) -> None:
        """The content of a page cannot be looked up any more; a cached one becomes free. ``on_evict`` is not called."""
        self._kept[page] = 0
        if page in self._cached:
            del self._cached[page]
            self._free[page] = None
            self._state[page] = _FREE

    def evict_all(self) -> None:
        """Give up all cached pages."""
        while self._cached:
            self._evict(next(iter(self._cached)))

    def check(self) -> None:
        """Raise PageError unless every page is exactly one of free, owned and cached, by every book."""
        for page in range(self.num_pages):
            books = (page in self._free, self._owners[page] > 0, page in self._cached)
            if sum(books) != 1:
                raise PageError(f"page {page} is free, owned, cached: {books}")
            if self._state[page] != (_FREE, _OWNED, _CACHED)[books.index(True)]:
                raise PageError(f"page {page} has the state {chr(self._state[page])!r}, but is {books}")
            if (books[0] and self._kept[page]) or (books[2] and not self._kept[page]):
                raise PageError(f"page {page} is kept: {self._kept[page]}, but is {books}")
        if _OWNED in self._state[self._near :] or _CACHED in self._state[self._near :]:
            raise PageError(f"a page from {self._near} on has been used")
        if len(self._free) + len(self._cached) + sum(1 for owners in self._owners if owners) != self.num_pages:
            raise PageError("the books hold pages that do not exist")

    def _claim(self, pages: range) -> None:
        """Own pages that are free or cached."""
        for page in pages:
            if self._state[page] == _CACHED:
                self._evict(page)
            del self._free[page]
            self._owners[page] = 1
        self._state[pages.start : pages.stop] = bytes([_OWNED]) * len(pages)
        self._near = max(self._near, pages.stop)

    def _evict(self, page: int) -> None:
        """Make a cached page free."""
        self._on_evict(page)
        self.forget(page)

    def _oldest_window(self, span: tuple[int, int], count: int) -> tuple[int, int]:
        """The window of ``count`` pages whose most recently used page is the oldest: (its time, its first page)."""
        times = [self._cached.get(page, -1) for page in range(*span)]
        best = (self._clock, span[0])
        newest: deque[int] = deque()  # indices whose times descend: the first is the newest of the window
        for index, time in enumerate(times):
            while newest and times[newest[-1]] <= time:
                newest.pop()
            newest.append(index)
            if newest[0] <= index - count:
                newest.popleft()
            if index >= count - 1:
                best = min(best, (times[newest[0]], span[0] + index - count + 1))
        return best
