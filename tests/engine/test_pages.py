"""The page allocator: a state machine against a plain model of it, and what runs and evictions it chooses."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle as Handles
from hypothesis.stateful import RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from engine.pages import PageError, PagePool


class PoolMachine(RuleBasedStateMachine):
    """Sequences take, share, fork, grow and release pages; the model is a count of owners and a list of cached ones."""

    held = Handles("held")

    @initialize(pages=st.integers(1, 24), data=st.data())
    def start(self, pages, data):
        self.evicted = []
        soft_limit = data.draw(st.none() | st.integers(0, pages))
        self.pool = PagePool(pages, self.evicted.append, soft_limit)
        self.near = pages if soft_limit is None else soft_limit  # all above is new memory, to be spared
        self.owners = [0] * pages
        self.kept = set()
        self.cached = []  # least recently used first

    @property
    def free(self):
        return {page for page, count in enumerate(self.owners) if not count} - set(self.cached)

    def gave(self, pages):
        """The pool gave these pages away: they had no owner, and what was cached in them is reported as evicted."""
        assert all(self.owners[page] == 0 for page in pages)
        lost = [page for page in pages if page in self.cached]
        assert sorted(self.evicted) == sorted(lost)
        self.evicted.clear()
        for page in pages:
            self.owners[page] = 1
        for page in lost:
            self.cached.remove(page)
            self.kept.discard(page)
        self.near = max([self.near, *(page + 1 for page in pages)])

    @rule(target=held, count=st.integers(0, 8))
    def take(self, count):
        free, cached, near = len(self.free), list(self.cached), self.near
        spare = sum(page < near for page in self.free)
        pages = self.pool.take(count)
        if pages is None:
            assert count > free + len(cached)
            return multiple()
        assert len(set(pages)) == len(pages) == count
        assert sorted(self.evicted) == sorted(cached[: max(0, count - spare)])  # the oldest, and no more than needed
        new = [page for page in pages if page >= near]
        assert sorted(new) == list(range(near, near + max(0, count - spare - len(cached))))  # the lowest
        self.gave(pages)
        return pages

    @rule(target=held, count=st.integers(1, 8))
    def take_run(self, count):
        windows = [range(first, first + count) for first in range(len(self.owners) - count + 1)]
        loose = [window for window in windows if not any(self.owners[page] for page in window)]
        known = [window for window in loose if window.stop <= self.near]
        without_loss = [window for window in known if self.free.issuperset(window)]
        run = self.pool.take_run(count)
        if run is None:
            assert not loose
            return multiple()
        assert run in (without_loss or known or [min(loose, key=lambda window: window.stop)])
        self.gave(run)
        return run

    @rule(target=held, pages=consumes(held), count=st.integers(1, 4))
    def extend(self, pages, count):
        if not isinstance(pages, range):
            return pages
        added = range(pages.stop, pages.stop + count)
        possible = added.stop <= len(self.owners) and not any(self.owners[page] for page in added)
        grown = self.pool.extend_run(pages, count)
        assert (grown is not None) == possible
        if grown is None:
            return pages
        self.gave(added)
        return grown

    @rule(target=held, pages=held, own=st.integers(0, 3))
    def fork(self, pages, own):
        """A sequence that shares another one's pages and has some of its own."""
        self.pool.share(pages)
        for page in pages:
            self.owners[page] += 1
        added = self.pool.take(own)
        if added is None:
            return list(pages)
        self.gave(added)
        return [*pages, *added]

    @rule(target=held, data=st.data())
    def reuse(self, data):
        """A sequence that begins with cached pages, which nobody owned."""
        if not self.cached:
            return multiple()
        page = data.draw(st.sampled_from(self.cached))
        self.pool.share([page])
        self.cached.remove(page)
        self.owners[page] += 1
        return [page]

    @rule(pages=consumes(held))
    def release(self, pages):
        """The end of a sequence, or its preemption."""
        self.pool.release(pages)
        for page in reversed(pages):
            self.owners[page] -= 1
            if not self.owners[page] and page in self.kept:
                self.cached.append(page)

    @rule(pages=held, data=st.data())
    def keep(self, pages, data):
        if pages:
            page = data.draw(st.sampled_from(list(pages)))
            self.pool.keep(page)
            self.kept.add(page)

    @rule(data=st.data())
    def forget(self, data):
        page = data.draw(st.integers(0, len(self.owners) - 1))
        self.pool.forget(page)
        self.kept.discard(page)
        if page in self.cached:
            self.cached.remove(page)

    @rule()
    def evict_all(self):
        self.pool.evict_all()
        assert sorted(self.evicted) == sorted(self.cached)
        self.evicted.clear()
        self.kept -= set(self.cached)
        self.cached.clear()

    @rule(data=st.data())
    def misuse(self, data):
        """Releasing or keeping what nobody owns, or sharing a free page, is refused and changes nothing."""
        page = data.draw(st.integers(0, len(self.owners) - 1))
        if self.owners[page]:
            return
        with pytest.raises(PageError):
            self.pool.release([page])
        with pytest.raises(PageError):
            self.pool.keep(page)
        if page in self.free:
            with pytest.raises(PageError):
                self.pool.share([page])

    @invariant()
    def agrees(self):
        if not hasattr(self, "pool"):
            return
        self.pool.check()
        assert [self.pool.owners(page) for page in range(len(self.owners))] == self.owners
        assert self.pool.used == sum(map(bool, self.owners))
        assert self.pool.cached == len(self.cached)
        assert self.pool.available == len(self.free) + len(self.cached)
        assert self.pool.kept == sorted(self.kept)

    def teardown(self):
        """Whatever happened: when every holder has let go, no page is owned."""
        if not hasattr(self, "pool"):
            return
        for page, count in enumerate(self.owners):
            for _ in range(count):
                self.pool.release([page])
        assert self.pool.used == 0
        assert self.pool.take(self.pool.num_pages) is not None


TestPagePool = PoolMachine.TestCase
TestPagePool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def pool_with(layout):
    """A pool in the state of a picture: f free, c cached (from the left, the longest ago first), o owned."""
    evicted = []
    pool = PagePool(len(layout), evicted.append)
    pages = pool.take_run(len(layout))
    for page in pages:
        if layout[page] == "c":
            pool.keep(page)
        if layout[page] != "o":
            pool.release([page])
    return pool, evicted


@pytest.mark.parametrize(
    ("layout", "count", "run", "evicted"),
    [
        ("ffffofffoff", 3, range(5, 8), []),  # the shortest free run that is long enough
        ("ffffofffoff", 4, range(4), []),
        ("fffofffoff", 3, range(3), []),  # of equal ones the first
        ("cccoff", 2, range(4, 6), []),  # free pages before cached ones
        ("coffcocc", 3, range(2, 5), [4]),  # none free: the only loose run
        ("cccccccc", 3, range(3), [0, 1, 2]),  # the least recently used window
        ("ofcofo", 3, None, []),
    ],
)
def test_the_run_that_is_chosen(layout, count, run, evicted):
    """Best fit among free pages, else where the least recently used cache is lost."""
    pool, lost = pool_with(layout)
    assert pool.take_run(count) == run
    assert lost == evicted
    pool.check()


@pytest.mark.parametrize(("take", "last"), [(PagePool.take, 23), (PagePool.take_run, 25)])
def test_the_cache_does_not_grow_beyond_the_soft_limit(take, last):
    """A hundred prompts of 3 pages, one after the other, each kept: no page beyond the soft limit of 10 is used.

    Nothing is evicted before; and three prompts of 8 pages at a time take what they need. As runs they begin where the
    cache is the oldest, on page 2.
    """
    evicted = []
    pool = PagePool(100, evicted.append, soft_limit=10)
    for number in range(100):
        pages = take(pool, 3)
        assert set(pages) < set(range(10))
        assert bool(evicted) == (number >= 3)
        for page in pages:
            pool.keep(page)
        pool.release(pages)
    held = [take(pool, 8) for _ in range(3)]
    assert max(page for pages in held for page in pages) == last
    pool.check()


def test_a_sequences_end_is_evicted_before_its_beginning():
    """Three cached pages of one sequence: the last one goes first, since without the first it is worth nothing."""
    evicted = []
    pool = PagePool(3, evicted.append)
    pages = pool.take(3)
    for page in pages:
        pool.keep(page)
    pool.release(pages)
    for _ in pages:
        pool.take(1)
    assert evicted == pages[::-1]


def test_using_cached_pages_again_makes_them_the_youngest():
    """Of two cached pages the one that was shared and released again is evicted last."""
    pool, evicted = pool_with("cc")
    pool.share([0])
    pool.release([0])
    pool.take(1)
    assert evicted == [1]


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda pool: pool._free.pop(0), "page 0 is free, owned, cached"),
        (lambda pool: pool._free.update({1: None}), "page 1 is free, owned, cached"),
        (lambda pool: pool._owners.__setitem__(1, 0), "page 1 is free, owned, cached"),
        (lambda pool: pool._state.__setitem__(2, ord("f")), "page 2 has the state 'f'"),
        (lambda pool: pool._kept.__setitem__(2, 0), "page 2 is kept: 0"),
        (lambda pool: pool._free.update({9: None}), "pages that do not exist"),
    ],
)
def test_the_check_finds_books_that_do_not_agree(spoil, found):
    """The checker itself: a lost page, one in two books, a wrong state, a cached one that is not kept, a stranger."""
    pool, _ = pool_with("foc")
    pool.check()
    spoil(pool)
    with pytest.raises(PageError, match=found):
        pool.check()
