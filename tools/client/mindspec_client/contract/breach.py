# Written by `mindspec generate` from tools/laws/breach.py; do not edit.
"""One breach of the contract, by a request, an answer or a stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Breach:
    """What is wrong, where, and what to do about it."""

    law: str
    """For requests the broken rule's id or the contract's code; for answers and streams an id of ``table.LAWS``."""
    field: str | None
    """The path of the member at fault, such as ``messages[0].role``; None where no member is."""
    message: str
    """A sentence: what was sent, and what is allowed."""
    remedy: str
    """A sentence: what to do."""
