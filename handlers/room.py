"""How much room the engine has: places in the batch, and pages of keys and values."""

from __future__ import annotations

from dataclasses import dataclass

from handlers.service import Service
from handlers.settings import Limits


@dataclass(frozen=True, slots=True)
class Room:
    """Of all instances together."""

    total_slots: int
    """Sequences that may run at the same time."""
    free_slots: int
    total_pages: int
    free_pages: int
    """Owned by no sequence; what is kept for its content gives way, so it is free."""


def room_of(service: Service, limits: Limits) -> Room:
    """The room now. An engine that keeps no pages has room in each place for the longest sequence."""
    front = service.front
    total, free = front.total_slots, front.free_slots
    memory = front.engine_stats.executor.memory
    if memory is not None:
        return Room(total, free, memory.pages_total, memory.pages_total - memory.pages_used)
    pages = -(-limits.max_seq_len // service.settings.engine.cache_block_size)
    return Room(total, free, total * pages, free * pages)
