"""The selector over the native step's library: a row's vocabulary is read once or twice, and never sorted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import finalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.native.library import Library, ThreadPool
from engine.sampling.penalties import TokenCounts
from engine.sampling.sampler import Row, pick
from engine.sampling.selector import Logprobs

_Array = NDArray[Any]

_DRAW = np.dtype(
    [
        ("row", np.int64),
        *((name, np.uint64) for name in ("key", "position")),
        *((name, np.float64) for name in ("temperature", "top_p", "repetition", "frequency", "presence")),
        *((name, np.int64) for name in ("top_k", "distinct", "counted", "generated")),
    ]
)
"""``DrawQuery`` of src/select.h."""
_LOGPROB = np.dtype([(name, np.int64) for name in ("row", "token", "top", "top_begin")])
"""``LogprobQuery`` of src/select.h."""


class NativeSelector:
    """The ``Selector`` of the native step: the tokens of ``TorchSelector``, to the last one.

    A draw is the largest of ``logit / temperature - log(noise)``. One pass in float32 bounds every token's score from
    above and passes over those that cannot win; the others are scored in float64. The winner of the whole vocabulary
    is the winner of every set that it is in, so top-k and top-p only have to judge it: by counting the tokens before
    it, and by adding up their probabilities. Where it is out, the draw is made again among the tokens before it.

    Where rounding could tell the two implementations apart (scores within 1e-12 of each other, probabilities within
    1e-4 of top_p, scores beyond 1e5), the row is drawn by torch; so is one that is held to a grammar or a thought's
    end. Logprobs differ from torch's by less than 1e-5, and are the same bits in any company.
    """

    def __init__(self, library: Library, pool: ThreadPool, together: Callable[[], bool]) -> None:
        """Args:
        library: the functions.
        pool: the threads.
        together: whether all threads shall work.

        Raises:
            MemoryError: there is no room.
        """
        self._library = library
        self._pool = pool
        self._together = together
        self._selection = library.new_selection(pool.handle)
        if not self._selection:
            raise MemoryError("the system gives no room for a selection")
        self._freed = finalize(self, library.free_selection, self._selection)

    def likeliest(self, logits: Tensor) -> tuple[list[int], list[int]]:
        """See ``Selector.likeliest``.

        Raises:
            ValueError: ``logits`` are not as they must be.
        """
        rows, vocab = _checked(logits)
        found = np.empty((2, rows), dtype=np.int64)
        ids = found.ctypes.data
        self._done(
            self._library.likeliest(
                self._selection, logits.data_ptr(), rows, vocab, ids, ids + 8 * rows, self._together()
            )
        )
        both: list[list[int]] = found.tolist()
        return both[0], both[1]

    def tokens(self, logits: Tensor, rows: Sequence[tuple[int, Row]]) -> list[int]:
        """See ``Selector.tokens``.

        Raises:
            ValueError: ``logits``, a row or a counted token are not as they must be.
        """
        count, vocab = _checked(logits)
        _within("row", [index for index, _ in rows], count)
        tokens = [-1] * len(rows)
        asked = [place for place, (_, row) in enumerate(rows) if row.free and not row.settings.greedy]
        if asked:
            queries = np.array([_query(*rows[place], vocab) for place in asked], dtype=_DRAW)
            found = np.empty(len(asked), dtype=np.int64)
            self._done(
                self._library.draw(
                    self._selection,
                    logits.data_ptr(),
                    vocab,
                    queries.ctypes.data,
                    len(asked),
                    found.ctypes.data,
                    self._together(),
                )
            )
            for place, token_id in zip(asked, found.tolist(), strict=True):
                tokens[place] = token_id
        return [
            int(pick(logits[index], row)) if token_id < 0 else token_id
            for token_id, (index, row) in zip(tokens, rows, strict=True)
        ]

    def logprobs(self, logits: Tensor, asked: Sequence[tuple[int, int, int | None]]) -> list[Logprobs]:
        """See ``Selector.logprobs``.

        Raises:
            ValueError: ``logits``, a row, a token or a length are not as they must be.
        """
        count, vocab = _checked(logits)
        _within("row", [index for index, _, _ in asked], count)
        _within("token id", [token_id for _, token_id, _ in asked], vocab)
        _within("length of a list", [top or 0 for _, _, top in asked], 1 << 31)
        tops = [min(top or 0, vocab) for _, _, top in asked]
        ends = np.cumsum(tops, dtype=np.int64).tolist()
        queries = np.array(
            [
                (index, token_id, top, end - top)
                for (index, token_id, _), top, end in zip(asked, tops, ends, strict=True)
            ],
            dtype=_LOGPROB,
        )
        chosen = np.empty(len(asked), dtype=np.float32)
        top_ids, top_values = np.empty(sum(tops), dtype=np.int64), np.empty(sum(tops), dtype=np.float32)
        self._done(
            self._library.logprobs(
                self._selection,
                logits.data_ptr(),
                vocab,
                queries.ctypes.data,
                len(asked),
                chosen.ctypes.data,
                top_ids.ctypes.data,
                top_values.ctypes.data,
                self._together(),
            )
        )
        pairs = list(zip(top_ids.tolist(), top_values.tolist(), strict=True))
        return [
            (logprob, None if top is None else tuple(pairs[end - length : end]))
            for logprob, (_, _, top), length, end in zip(chosen.tolist(), asked, tops, ends, strict=True)
        ]

    @staticmethod
    def _done(failed: int) -> None:
        if failed:
            raise MemoryError("the system gives no room to select tokens")


def _query(index: int, row: Row, vocab: int) -> tuple[Any, ...]:
    """A choice as ``DrawQuery``; its addresses are valid as long as its counts are not changed."""
    settings = row.settings
    distinct, counted, generated = 0, 0, 0
    if row.counts is not None:
        distinct, counted, generated = _counted(row.counts, vocab)
    return (
        index,
        settings.key,
        row.position,
        settings.temperature,
        settings.top_p,
        settings.repetition_penalty,
        settings.frequency_penalty,
        settings.presence_penalty,
        min(settings.top_k or vocab, vocab),
        distinct,
        counted,
        generated,
    )


def _counted(counts: TokenCounts, vocab: int) -> tuple[int, int, int]:
    """How many tokens penalties touch, and the addresses of their ids and counts."""
    ids, generated = counts.ids, counts.generated
    _within("counted token", ids.numpy(), vocab)
    return len(ids), ids.data_ptr(), generated.data_ptr()


def _checked(logits: Tensor) -> tuple[int, int]:
    """Rows and vocabulary of logits that the library can read.

    Raises:
        ValueError: it cannot.
    """
    if logits.dtype != torch.float32 or logits.device.type != "cpu" or logits.dim() != 2 or not logits.is_contiguous():
        raise ValueError(f"logits must be contiguous float32 [rows, vocab] on the CPU, not {_described(logits)}")
    rows, vocab = logits.shape
    if not 1 <= vocab < 1 << 31:
        raise ValueError(f"a vocabulary has 1 to {(1 << 31) - 1} tokens, not {vocab}")
    return rows, vocab


def _described(logits: Tensor) -> str:
    return f"{logits.dtype} {list(logits.shape)} with strides {list(logits.stride())} on {logits.device}"


def _within(name: str, values: Sequence[int] | _Array, end: int) -> None:
    if not len(values):
        return
    # numpy takes microseconds to begin with a list, and Python takes many for an array.
    ends = (values.min(), values.max()) if isinstance(values, np.ndarray) else (min(values), max(values))
    for value in ends:
        if not 0 <= value < end:
            raise ValueError(f"a {name} is {value}, outside of 0..{end - 1}")
