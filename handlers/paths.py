"""Which path of the contract a client's path is."""

from __future__ import annotations

import re
from collections.abc import Iterable


class PathTable:
    """Paths, in which names in braces stand for any text, slashes included."""

    def __init__(self, paths: Iterable[str]) -> None:
        """``paths``: as generated/routes.yaml has them."""
        self.paths = tuple(paths)
        self._exact = frozenset(path for path in self.paths if "{" not in path)
        patterns = [(path, re.split(r"\{\w+\}", path)) for path in self.paths if "{" in path]
        # Where two patterns fit, the one with more text of its own is meant.
        patterns.sort(key=lambda entry: -sum(map(len, entry[1])))
        self._patterns = [(re.compile(".+".join(map(re.escape, parts)), re.DOTALL), path) for path, parts in patterns]

    def find(self, path: str) -> str | None:
        """The path of the contract, None where there is none."""
        if path in self._exact:
            return path
        return next((known for pattern, known in self._patterns if pattern.fullmatch(path)), None)
