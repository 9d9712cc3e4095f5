"""What an engine says of its own state: pages, sequences that run and wait, and counts since its start."""

from __future__ import annotations

from typing import NamedTuple

# Tuples: one of each is made and compared in every step, which takes a third of a dataclass's time.


class MemoryStats(NamedTuple):
    """The pages of keys and values, and counts since the start."""

    pages_total: int
    pages_used: int
    """Owned by sequences."""
    pages_cached: int
    """Owned by nobody, kept for their content."""
    prefix_queries: int
    """Sequences that looked for a cached beginning."""
    prefix_hits: int
    """Those of them that found one."""
    prefix_query_tokens: int
    """Tokens of all sequences that looked."""
    prefix_hit_tokens: int
    """Those of them that were not computed, because the cache held them."""


class MediaStats(NamedTuple):
    """What encoders did, in counts since the start."""

    items: int
    """Images, videos and recordings of admitted requests."""
    kept_items: int
    """Those of them whose embeddings were kept from an earlier request."""
    encoded_items: int
    turns_us: int
    """Microseconds that encoders had, between steps."""
    embedding_bytes: int
    """That are kept now."""


class ExecutorStats(NamedTuple):
    """The state of an executor."""

    running: int = 0
    """Sequences in the batch."""
    waiting: int = 0
    """Admitted sequences that wait for memory, a place in the batch, or a beginning that another one computes."""
    unstarted: int = 0
    """Admitted requests, no part of which has ever run, that wait for memory or a place in the batch."""
    preemptions: int = 0
    """Times that a sequence had to give up its pages, since the start."""
    drafted_tokens: int = 0
    """Tokens that were guessed and run, since the start."""
    accepted_tokens: int = 0
    """Those of them that came true."""
    memory: MemoryStats | None = None
    """None: the executor keeps no pages."""
    media: MediaStats | None = None
    """None: the model takes text only."""


class EngineStats(NamedTuple):
    """The state of an engine between two rounds."""

    received: int = 0
    """Requests that it was sent, since its start."""
    queued: int = 0
    """Requests that it has not admitted."""
    full: bool = False
    """Whoever waits first found no room, and nothing has ended since: whoever comes now waits behind."""
    executor: ExecutorStats = ExecutorStats()

    @property
    def waiting(self) -> int:
        """Requests that wait for room and have never run."""
        return self.queued + self.executor.unstarted

    @property
    def idle(self) -> bool:
        """It has no request."""
        return not (self.queued or self.executor.running or self.executor.waiting)
