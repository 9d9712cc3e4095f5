"""Puts a loaded model behind the native step where that is possible, or says why not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine import seam
from engine.forward import ModelMismatch
from engine.loader import LoadedModel, cpu_flags
from engine.machine_memory import pool_bytes
from engine.native.build import with_library
from engine.native.describe import UNIT, describe
from engine.native.library import Library, ThreadPool
from engine.native.packing import CpuWeights, pack
from engine.native.rounding import compare, logits_in_pieces, rounded_products
from engine.native.runner import NativeRunner, page_bytes
from engine.native.variants import NativeUnavailable, choose
from engine.quantised.linear import is_quantised

_TOLERANCES: Mapping[CpuWeights, float] = {"bf16": 0.06, "int8": 0.12}
"""Largest median error of the check, as a part of the spread of the logits; see ``seam.check``. The model's own
rounding in bfloat16 makes 0.03; embeddings or residual sums that are 1 % off make 0.07, other mistakes more. Weights in
int8 are compared with a forward whose weights are rounded likewise, so that their own error hides no mistake; that
forward's rounding in bfloat16 makes 0.07 on the default model, in the few rows of the check."""

_INT8_DISTANCE = 0.2
"""Largest mean distance of logits by int8 weights from those by the model's own, as a part of their spread. The default
model's is 0.07; beyond 0.2 something in a model does not bear one scale for each output."""

_INT8_PIECE = 4
"""Tokens of a step in which that distance is measured."""

_HUGE_FROM = 32 << 20
"""Bytes of weights from which huge pages matter."""

_log = logging.getLogger(__name__)


def build_native(
    loaded: LoadedModel,
    *,
    page_size: int,
    memory_bytes: int | None = None,
    memory_share: float = 1.0,
    max_tokens: int | None = None,
    threads: int = 1,
    variant: str | None = None,
    weights: CpuWeights = "bf16",
    cache: Path | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> NativeRunner:
    """A native runner over a copy of a loaded model, after it was compared with the model's own forward.

    Args:
        loaded: unchanged; not needed afterwards.
        page_size: tokens of a page, a multiple of 32.
        memory_bytes: for keys and values; None takes a share of what the machine has.
        memory_share: this process's part of that share, where several serve.
        max_tokens: no more tokens than this need a place at the same time; None knows no bound.
        threads: that compute, the caller's among them.
        variant: of ``variants.VARIANTS`` by name; None takes the best.
        weights: how they lie in memory; what int8 changes is measured and said.
        cache: the folder that built libraries are kept in; None takes ``build.native_cache()``.
        on_progress: gets a sentence before something that takes seconds.

    Raises:
        NativeUnavailable: this machine cannot run or build the step, and why.
        ModelMismatch: the step does not fit the model, and why.
    """
    model: Any = loaded.model
    if loaded.model.device.type != "cpu":
        raise NativeUnavailable(f"it is for CPUs, and the model is on {loaded.model.device}.")
    if page_size % UNIT:
        raise NativeUnavailable(f"its pages hold multiples of {UNIT} tokens, not {page_size}.")
    if loaded.encoder is not None:
        raise ModelMismatch("its prompts may hold media, whose embeddings the native step does not take.")
    if is_quantised(model):
        raise ModelMismatch("its weights are int8 with int8 activations, which the native step does not compute.")
    positions = loaded.info.max_position_embeddings
    seam.refuse_by_kind(model, positions)
    chosen = choose(cpu_flags(), variant)
    probe = seam.probe_layers(model)
    # What the model lacks is found before anything is built for it.
    found = describe(model, loaded.info, probe, positions)
    try:
        library = with_library(chosen, Library, cache=cache, on_progress=on_progress)
    except OSError as error:
        raise NativeUnavailable(f"its library cannot be loaded: {error}") from error
    pool = ThreadPool(library, threads)
    windows = [probe.rules[layer].window for layer in range(len(found.layers))]
    packed = pack(library, pool, found, windows, page_size, weights)
    num_pages = pool_bytes(memory_bytes, memory_share) // page_bytes(packed, page_size)
    if max_tokens is not None:
        num_pages = min(num_pages, -(-max_tokens // page_size))
    runner = NativeRunner(library, pool, packed, loaded.info, num_pages=num_pages, positions=positions)
    _check(runner, loaded, weights, on_progress)
    if packed.memory.size >= _HUGE_FROM and packed.memory.huge_bytes() < packed.memory.size // 2:
        _log.warning(
            "the weights lie in small pages of memory, so that steps take up to half as long again: set "
            "transparent_hugepage to 'madvise', or free memory before a start"
        )
    on_progress(f"The native step runs with {chosen.name} on {threads} thread{'s' if threads > 1 else ''}.")
    return runner


def _check(runner: NativeRunner, loaded: LoadedModel, weights: CpuWeights, on_progress: Callable[[str], None]) -> None:
    """Compare with the model's own forward, under windows that the short prompt reaches beyond."""
    model, info = loaded.model, loaded.info
    tokens = seam.check_tokens(info.vocab_size, runner.page_size, info.max_position_embeddings)
    with seam.narrow_windows(model):
        dense = expected = seam.dense_logits(model, tokens, info.vocab_size)
        if weights == "int8":
            with rounded_products(model):
                expected = seam.dense_logits(model, tokens, info.vocab_size)
        narrow = seam.probe_layers(model)
    wide = runner.windows
    runner.set_windows([narrow.rules[layer].window for layer in range(len(wide))])
    seam.check(runner, tokens, expected, model.dtype, tolerance_half=_TOLERANCES[weights])
    if weights == "int8":
        positions, logits = logits_in_pieces(runner, tokens, _INT8_PIECE)
        found = compare(logits, dense[positions])
        if not found.share <= _INT8_DISTANCE:
            raise ModelMismatch(
                f"int8 weights change its logits by {found.share:.2g} of their spread, "
                f"where {_INT8_DISTANCE} is allowed."
            )
        on_progress(
            f"int8 weights change the logits by {found.share:.1%} of their spread; the likeliest token is that of the "
            f"model's own weights in {found.same_best} of {found.rows} rows."
        )
    runner.set_windows(wide)


def attempt(loaded: LoadedModel, **options: Any) -> NativeRunner | None:
    """:func:`build_native`, or None and a log line that says why."""
    try:
        return build_native(loaded, **options)
    except NativeUnavailable as reason:
        _log.warning("the native step is not available: %s The model runs on torch, which is slower.", reason)
    except ModelMismatch as reason:
        _log.warning("%s does not run natively: %s It runs on torch, slower.", loaded.info.architecture, reason)
    except Exception:
        _log.exception("%s runs on torch, slower: the native step failed", loaded.info.architecture)
    return None
