"""Who runs and who waits: groups in order of arrival, started when there is room, preempted youngest first."""

from __future__ import annotations

from bisect import insort

from engine.memory import KVMemory
from engine.sequences import Group, RequestState


def _order(group: Group) -> tuple[int, int]:
    return group.order


class Admission:
    """The running and the waiting groups, both in order of arrival.

    Waiting groups start strictly in order. Only those whose beginning a running group is computing right now are
    passed over until it is there; they come first again then, and as what they wait for runs already and waits for
    nobody, this ends.

    When a running sequence finds no page, the youngest running group is preempted: it gives up its pages, keeps its
    tokens and waits in its place in the order; later its tokens are run again like a prompt. A group never makes an
    older one give way, so the oldest always goes on. Where extents are too cut up for the oldest to grow, it is
    preempted itself, last, and comes back with room for all that it can need. While beams come back no younger group
    starts, else they would find its pages missing each time.

    A request with a reserved place counts as the oldest, starts beside a full batch, and makes the youngest give way
    where there is no page for it; only others with a reserved place are waited for.
    """

    def __init__(self, memory: KVMemory, max_batch_size: int) -> None:
        self._memory = memory
        self._max_batch_size = max_batch_size
        self.running: list[Group] = []
        self.waiting: list[Group] = []
        self.preemptions = 0
        self._blocked = False
        self._blocked_by: Group | None = None

    @property
    def blocked(self) -> bool:
        """A group waits for memory or for a place in the batch, or has to be looked at: nobody younger may start."""
        return self._blocked and bool(self.waiting)

    @property
    def unstarted(self) -> int:
        """Requests without any part that ever ran, from the one on that found no memory or no place in the batch.

        Those before it wait for a beginning that is being computed, and lose no time by that.
        """
        if not self.blocked or self._blocked_by is None:
            return 0
        first = _order(self._blocked_by)
        waiting = {
            group.order[0] for group in self.waiting if group.order >= first and group.state.cached_tokens is None
        }
        return len(waiting)

    def enter(self, group: Group) -> None:
        """A new group, or one that lost its pages, waits."""
        insort(self.waiting, group, key=_order)
        self._blocked = True

    def join(self, group: Group) -> None:
        """A group that has its pages (a choice that parted from the others) runs."""
        insort(self.running, group, key=_order)

    def clear(self) -> None:
        """Forget all groups."""
        self.running.clear()
        self.waiting.clear()

    def admit(self) -> None:
        """Start waiting groups."""
        self._blocked, self._blocked_by = False, None
        if not self.waiting:
            return
        width = sum(group.width for group in self.running if not group.state.request.reserved)
        place = 0
        while place < len(self.waiting):
            group = self.waiting[place]
            reserved = group.state.request.reserved
            full = width and width + group.width > self._max_batch_size
            if not reserved and (full or self._coming_back(group)):
                self._block(group)
                return
            if self._memory.must_wait(group.sequences[0]):
                place += 1
                continue
            while not self._start(group, 0 if reserved else width):
                if not reserved or not self.running or self.running[-1].state.request.reserved:
                    self._block(group)
                    return
                width -= self.running[-1].width
                self.preempt(self.running[-1])
            del self.waiting[place]
            self.join(group)
            width += 0 if reserved else group.width

    def secure(self) -> None:
        """Make room for the next token of every running sequence, the oldest first; preempt where there is none."""
        place = 0
        while place < len(self.running):
            self._secure(self.running[place])
            place += 1

    def preempt(self, group: Group) -> None:
        """Take a running group's pages; it waits."""
        self.running.remove(group)
        state = group.state
        if state.beam is None:
            self._memory.release(group.sequences[0])
        else:
            # Beams start again as one sequence, the prompt, so that they share it as before.
            if group.resume is None and len(group.sequences[0].tokens) > len(state.request.prompt_ids):
                group.resume = [sequence.tokens for sequence in group.sequences]
            self.release(group)
            group.sequences = [state.prompt_sequence()]
        self.preemptions += 1
        self.enter(group)

    def make_way(self, group: Group) -> bool:
        """Preempt the youngest running group, unless that is ``group`` itself; whether there was a younger one."""
        youngest = self.running[-1]
        if youngest is group:
            return False
        self.preempt(youngest)
        return True

    def drop(self, group: Group) -> None:
        """A group is over, wherever it is."""
        (self.running if group in self.running else self.waiting).remove(group)
        self.release(group)

    def release(self, group: Group) -> None:
        """Give back a group's pages."""
        for sequence in group.sequences:
            self._memory.release(sequence)

    def _coming_back(self, group: Group) -> bool:
        """Whether older beams run their prompt again, whose memory must still be free when they part."""
        return any(each.resume is not None for each in self.running if each.order < group.order)

    def _block(self, group: Group) -> None:
        self._blocked = True
        self._blocked_by = group

    def _start(self, group: Group, width: int) -> bool:
        """Give a group its pages, if there is room; ``width`` sequences run already."""
        memory, sequence = self._memory, group.sequences[0]
        spare = 0
        if width:
            longest = max(map(len, group.resume)) if group.resume else len(sequence.tokens)
            spare = memory.spare(sequence, group.width - 1, longest, width, group.reserve_all)
        if not memory.start(sequence, spare, group.reserve_all):
            return False
        state: RequestState = group.state
        if state.cached_tokens is None:
            state.cached_tokens = sequence.computed
        return True

    def _secure(self, group: Group) -> None:
        for sequence in group.sequences:
            while not self._memory.secure(sequence):
                if not self.make_way(group):
                    self.preempt(group)
                    group.reserve_all = True
                    return
