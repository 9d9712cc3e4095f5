"""Encoders' outputs by the content that they are of, under a limit of bytes, the least recently used given up first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set

from torch import Tensor


class Embeddings:
    """Per content hash ``[tokens, hidden]``. Together they take ``limit_bytes`` at most, or as much as one of them."""

    def __init__(self, limit_bytes: int) -> None:
        """Nothing is kept yet."""
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._held: OrderedDict[bytes, Tensor] = OrderedDict()

    def __contains__(self, content_hash: bytes) -> bool:
        return content_hash in self._held

    def get(self, content_hash: bytes) -> Tensor:
        """What is kept under a hash, which is used now. Raises KeyError where there is nothing."""
        self._held.move_to_end(content_hash)
        return self._held[content_hash]

    def make_room(self, size_bytes: int, needed: Set[bytes]) -> None:
        """Give up what is not ``needed`` until so many bytes are free below the limit, or nothing of it is left."""
        for content_hash in [known for known in self._held if known not in needed]:
            if self.used_bytes + size_bytes <= self.limit_bytes:
                return
            self.used_bytes -= self._held.pop(content_hash).nbytes

    def put(self, content_hash: bytes, embeddings: Tensor) -> None:
        """Keep an output, for which there is room."""
        self._held[content_hash] = embeddings
        self.used_bytes += embeddings.nbytes

    def clear(self) -> None:
        """Give up everything."""
        self._held.clear()
        self.used_bytes = 0
