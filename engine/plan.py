"""The runner seam: what one step computes, and the door to whatever computes it (token ids in, logits out)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from engine.lora_config import LinearLayer
from engine.sampling.selector import Selector
from engine.types import ModelInfo

AdapterTensors = Mapping[str, tuple[Tensor, Tensor]]
"""Per layer that an adapter changes, by its name in the model: A ``[rank, in]`` and B ``[out, rank]`` with all factors
in it, in the dtype of the weights. The layer then gives ``x @ (W + B @ A).T``."""


@dataclass(frozen=True, slots=True)
class MediaRows:
    """What a span of a prompt with media has besides token ids; for runners whose model takes media."""

    places: Tensor | None
    """The model's places of the tokens, int64 ``[axes, tokens]``; None: their positions."""
    embeddings: Sequence[tuple[int, Tensor]]
    """From which row of the span on which embeddings stand in place of the tokens', ``[rows, hidden]``. The ids of
    these rows mean nothing to the runner."""


@dataclass(slots=True)
class Span:
    """One sequence's rows of one step."""

    pages: Sequence[int]
    """Page ids that hold (or will hold) the positions 0..start+len(token_ids)-1, in order. There may be more of them
    than these positions need; the further ones hold nothing of meaning yet."""
    start: int
    """Position of ``token_ids[0]``: so many tokens have their keys and values in the pages already."""
    token_ids: list[int]
    """The newest token for a decode row, and drafts of those after it; a chunk for a prefill."""
    wanted: int
    """The logits after each of so many of its last tokens are wanted."""
    adapter: int = 0
    """What ``ModelRunner.load_adapter`` gave for the adapter of these rows; 0 for the model as it is."""
    shift: int = 0
    """How much the model's place of a token, on every axis, is further on than its position, where ``media`` has none:
    behind an image, which takes fewer places than tokens, it is negative."""
    media: MediaRows | None = None


@dataclass(slots=True)
class Plan:
    """One step: decode spans first, then prefill chunks. No two spans write to one page."""

    spans: list[Span]
    decode_count: int
    """The first so many spans are decode rows: one token each, or one and its drafts, and the logits after each are
    wanted."""


class ModelRunner(Protocol):
    """Everything that belongs to a device and a model: one forward over packed rows, and the pages behind it.

    Not thread safe. Pages are numbered 0..num_pages-1; what a page holds is the runner's own affair, for all layers.
    """

    info: ModelInfo
    page_size: int
    """Tokens of a page."""
    contiguous_pages: bool
    """A sequence's pages must be one ascending run without gaps, and belong to it alone."""
    num_pages: int
    bytes_per_page: int
    same_bits: bool
    """A row's logits are the same bits whatever is computed beside it: one token at a time, in a chunk, in company."""
    selector: Selector
    """Finds tokens in the logits that ``run`` gives."""

    def run(self, plan: Plan) -> Tensor:
        """Run one step and write the keys and values of all its rows.

        Returns:
            float32 ``[wanted rows, vocab]``, in span order, those of a span in the order of its tokens.
        """
        ...

    def copy_pages(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Copy whole pages, ``source[i]`` to ``target[i]``: a prefix hit or fork that cannot share, an extent moved.

        No page is in both lists. The copies are made in the order of the calls, before the next ``run``.
        """
        ...

    def copy_beginning(self, source: int, target: int, tokens: int) -> None:
        """Copy what a page holds of its first ``tokens`` tokens, in order with ``copy_pages``.

        What ``target`` has behind them is then like a page that was never written: it need not be as it was, and does
        no harm. ``source`` may be ``target``.
        """
        ...

    def adapter_layers(self) -> Mapping[str, LinearLayer]:
        """The layers that adapters may change, by name; the same at any time and for any thread.

        Raises:
            AdapterError: this runner takes no adapters; the message is a sentence that says why.
        """
        ...

    def load_adapter(self, name: str, tensors: AdapterTensors) -> int:
        """Keep an adapter for the steps to come; returns the id for ``Span.adapter``, at least 1, never given again.

        Raises:
            AdapterError: it cannot be kept; nothing has changed.
        """
        ...

    def unload_adapter(self, adapter: int) -> None:
        """Forget a loaded adapter; no later step has it."""
        ...
