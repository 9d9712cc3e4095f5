"""How the rows of one CPU step lie in the pool: groups of decode rows, blocks of prefill rows, and their masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK_ROWS = 256
"""Query rows of a prefill chunk that attend in one call where a mask or whole scores are needed."""
LENGTH_RATIO = 1.4
"""Contexts of one group are at most so much longer than the shortest, plus LENGTH_SLACK tokens: shorter ones are read
as far as the longest."""
LENGTH_SLACK = 64


@dataclass(frozen=True, slots=True)
class Group:
    """Single rows whose extents lie at equal distances, so that one strided view shows all their keys."""

    members: tuple[int, ...]
    """Indices into the rows that were grouped, by place in the pool."""
    first_slot: int
    """Where the first member's extent begins."""
    stride: int
    """Slots from one extent to the next; 0 for a single row."""
    length: int
    """Context of the longest member, in tokens."""


def near_lengths(lengths: Sequence[int]) -> list[list[int]]:
    """Rows by the lengths of their contexts, longest first, split where those would differ too much."""
    by_length = sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=True)
    parts: list[list[int]] = []
    longest = 0
    for row in by_length:
        if not parts or lengths[row] * LENGTH_RATIO + LENGTH_SLACK < longest:
            parts.append([])
            longest = lengths[row]
        parts[-1].append(row)
    return parts


def gathered(first_slots: Sequence[int], lengths: Sequence[int]) -> list[Group]:
    """Single rows grouped by length alone, for calls that copy their contexts together."""
    return [
        Group(tuple(rows), first_slots[rows[0]], 0, max(lengths[row] for row in rows)) for rows in near_lengths(lengths)
    ]


def alone(first_slots: Sequence[int], lengths: Sequence[int]) -> list[Group]:
    """Each row a group of its own."""
    return [Group((row,), slot, 0, lengths[row]) for row, slot in enumerate(first_slots)]


def group_rows(first_slots: Sequence[int], lengths: Sequence[int], slots: int) -> list[Group]:
    """Split single rows into groups, greedily: near lengths first, then equal distances.

    Any two extents make a group; more do when their places form an arithmetic progression, as extents of one size
    that were given out one after the other do. A view of a group never ends behind the pool.

    Args:
        first_slots: per row, where its extent begins.
        lengths: per row, its context in tokens with its own.
        slots: size of the pool.
    """
    groups: list[Group] = []
    for rows in near_lengths(lengths):
        near = sorted(rows, key=lambda row: first_slots[row])
        longest = max(lengths[row] for row in near)
        while near:
            count, stride = _progression([first_slots[row] for row in near])
            while count > 1 and first_slots[near[count - 1]] + longest > slots:
                count -= 1
            members = tuple(near[:count])
            length = max(lengths[row] for row in members)
            groups.append(Group(members, first_slots[members[0]], stride if count > 1 else 0, length))
            near = near[count:]
    return groups


def _progression(ascending: Sequence[int]) -> tuple[int, int]:
    """How many of the first numbers are equally far apart, and how far."""
    if len(ascending) == 1:
        return 1, 0
    stride = ascending[1] - ascending[0]
    count = 2
    while count < len(ascending) and ascending[count] - ascending[count - 1] == stride:
        count += 1
    return count, stride


@dataclass(frozen=True, slots=True)
class Block:
    """Query rows ``first..last-1`` of a chunk, which see the keys at positions ``first_key..last_key-1``."""

    first: int
    last: int
    first_key: int
    last_key: int


def blocks_of(start: int, count: int, window: int | None, block_rows: int = BLOCK_ROWS) -> list[Block]:
    """The blocks of a chunk of ``count`` rows whose first row is at position ``start``."""
    blocks = []
    for first in range(0, count, block_rows):
        last = min(first + block_rows, count)
        first_key = 0 if window is None else max(0, start + first - window + 1)
        blocks.append(Block(first, last, first_key, start + last))
    return blocks


def block_mask(rows: int, keys: int, window: int | None) -> Tensor:
    """Which keys a block's rows see: bool ``[rows, keys]``; the last row sits on the last key."""
    behind = keys - rows + torch.arange(rows)[:, None] - torch.arange(keys)[None]
    return behind >= 0 if window is None else (behind >= 0) & (behind < window)


def group_mask(lengths: Sequence[int], first_key: int, last_key: int, window: int | None, dtype: torch.dtype) -> Tensor:
    """Which of the keys ``first_key..last_key-1`` single rows see, as a sum term ``[rows, 1, 1, keys]``: 0 or -inf."""
    ends = torch.tensor(lengths)[:, None]  # [rows, 1]
    positions = torch.arange(first_key, last_key)[None]  # [1, keys]
    hidden = positions >= ends
    if window is not None:
        hidden |= positions < ends - window
    return torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, -torch.inf)[:, None, None]
