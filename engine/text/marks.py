"""How much of a text must wait because a mark may begin in it."""

from __future__ import annotations


def open_tail(text: str, mark: str) -> int:
    """Length of the longest end of ``text`` that is a beginning of ``mark``, the whole mark left out."""
    start = text.find(mark[0], max(0, len(text) - len(mark) + 1))
    while start >= 0 and not mark.startswith(text[start:]):
        start = text.find(mark[0], start + 1)
    return 0 if start < 0 else len(text) - start
