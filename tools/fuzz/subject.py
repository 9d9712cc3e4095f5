"""A native runner over a random model, and what a fuzzer needs to judge it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine import seam
from engine.loader import LoadedModel
from engine.native.describe import describe
from engine.native.library import Library, ThreadPool
from engine.native.packing import PackedModel, pack
from engine.native.runner import NativeRunner
from engine.plan import Plan, Span
from engine.types import ModelInfo
from tools.fuzz.models import Case, build

MAX_ARENA_BYTES = 4 << 20
"""Pages are compared as a whole after every step."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tried."""

    case: Case
    runner: NativeRunner
    library: Library
    pool: ThreadPool
    packed: PackedModel

    @property
    def memory(self) -> Tensor:
        """The bytes of the pages, ``[pages, bytes]``."""
        return self.runner.pages.tensor().view(self.runner.num_pages, self.runner.bytes_per_page)

    def fresh(self, num_pages: int) -> NativeRunner:
        """Another runner over the same weights, with pages of its own that hold no numbers at all."""
        runner = NativeRunner(
            self.library,
            self.pool,
            self.packed,
            self.runner.info,
            num_pages=num_pages,
            positions=self.case.positions,
        )
        runner.pages.tensor().fill_(255)
        return runner

    def alone(self, token_ids: list[int], pieces: list[int]) -> Tensor:
        """The logits after each of the last tokens of ``pieces``, run alone in a fresh runner: ``[pieces, vocab]``."""
        size = self.runner.page_size
        pages = list(range(-(-len(token_ids) // size)))
        runner = self.fresh(len(pages))
        found, start = [], 0
        for piece in pieces:
            found.append(runner.run(Plan([Span(pages, start, token_ids[start : start + piece], True)], 0)))
            start += piece
        assert start == len(token_ids)
        return torch.cat(found)


def make_subject(case: Case, library: Library) -> Subject:
    """Describe, pack and serve a case's model.

    Raises:
        ModelMismatch: the native step cannot hold it.
    """
    model: Any = build(case)
    loaded = LoadedModel(
        model,
        ModelInfo(case.config["vocab_size"], case.positions, (1,), "bfloat16", "cpu", type(model).__name__),
    )
    seam.refuse_by_kind(model, case.positions)
    probe = seam.probe_layers(model)
    found = describe(model, loaded.info, probe, case.positions)
    pool = ThreadPool(library, case.threads)
    windows = [probe.rules[layer].window for layer in range(len(found.layers))]
    packed = pack(library, pool, found, windows, case.page_size, case.weights)
    runner = NativeRunner(library, pool, packed, loaded.info, num_pages=case.num_pages, positions=case.positions)
    if runner.num_pages * runner.bytes_per_page > MAX_ARENA_BYTES:
        num_pages = max(1, MAX_ARENA_BYTES // runner.bytes_per_page)
        runner = NativeRunner(library, pool, packed, loaded.info, num_pages=num_pages, positions=case.positions)
    return Subject(case, runner, library, pool, packed)
