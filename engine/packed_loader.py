"""Loads a model behind the executor that suits it: packed steps over one memory, else one sequence at a time."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

from engine import card_memory
from engine.batching import BatchLimits
from engine.executor import Executor
from engine.forward import ModelMismatch
from engine.grammar.compiler import GrammarCompiler
from engine.loader import LoadedModel, LoadError, load, try_out
from engine.machine_memory import cache_bytes
from engine.multimodal.desk import CACHE_BYTES, SLICE_S, MediaDesk
from engine.native.load import attempt, build_native
from engine.native.packing import CpuWeights
from engine.native.runner import NativeRunner
from engine.native.variants import NativeUnavailable
from engine.pace import StepPace
from engine.packed_executor import PackedExecutor
from engine.parallel.leading_runner import LeadingRunner
from engine.parallel.loading import load_part
from engine.parallel.ranks import Followers
from engine.plan import ModelRunner
from engine.process import usable_cores
from engine.runner import TorchExecutor
from engine.text.tokenizer import tokenizer_from_folder
from engine.torch_runner import PAGE_SIZE, TorchRunner, load_runner

CpuStep = Literal["auto", "native", "torch"]
"""What computes on a CPU: the native step where it can, it or nothing, or torch."""

_Built = TypeVar("_Built")

_log = logging.getLogger(__name__)


def load_executor(
    path: str,
    *,
    dtype: str = "auto",
    device: str | None = None,
    trust_remote_code: bool = False,
    page_size: int = PAGE_SIZE,
    memory_bytes: int | None = None,
    memory_share: float = 1.0,
    memory_fraction: float | None = None,
    max_batch_size: int = 200,
    max_prefill_batch_size: int = 50,
    max_prefill_tokens: int = 8192,
    prefill_chunk_size: int | None = None,
    apart: bool = False,
    max_partial_prefills: int | None = None,
    max_long_partial_prefills: int | None = None,
    long_prefill_tokens: int = 1024,
    prefix_cache: bool = True,
    draft_tokens: int = 0,
    deterministic: bool = False,
    adapters: bool = False,
    cpu_step: CpuStep = "auto",
    cpu_variant: str | None = None,
    cpu_weights: CpuWeights = "bf16",
    native_cache: str | None = None,
    threads: int | None = None,
    followers: Followers | None = None,
    encoder_slice_ms: float = 1000 * SLICE_S,
    encoder_cache_bytes: int = CACHE_BYTES,
    on_progress: Callable[[str], None] = lambda _: None,
    on_long_step: Callable[[float], None] = lambda _: None,
) -> Executor:
    """Load the model at ``path`` and serve it.

    A model in bfloat16 on a CPU runs on the native step where that fits it. One that transformers' attention interface
    cannot carry, or that is not on a CPU, runs one sequence at a time. Log lines say what does not fit, and why.

    Args:
        path: see :func:`engine.loader.load`, as for ``dtype``, ``device`` and ``trust_remote_code``.
        page_size: tokens of a page of keys and values.
        memory_bytes: for keys and values; None takes a share of what the machine has.
        memory_share: this process's part of that share, where several serve.
        memory_fraction: instead, of a card's memory, for all that is on it.
        max_batch_size: see :class:`engine.batching.BatchLimits`, as for the eight after it.
        prefix_cache: what one request has computed serves others that begin alike.
        deterministic: numbers do not depend on a sequence's company or on what is cached: equal requests with equal
            seeds get equal answers, bit by bit. So does the native step always; others run each sequence by itself.
        adapters: requests may name adapters, which the native step cannot add.
        cpu_step: see ``CpuStep``.
        cpu_variant: the instruction set of the native step, of ``engine.native.variants``; None takes the best.
        cpu_weights: of the native step; int8 ones are refused where it does not run.
        native_cache: the folder that the native step's library is kept in once it is built; None takes the usual one.
        threads: of the native step; None takes one a core, since it makes way for busy neighbours by itself.
        followers: the other ranks, where several share the model; it then runs on torch.
        encoder_slice_ms: how long answers wait for encoders of media between two steps.
        encoder_cache_bytes: of embeddings that are kept for later requests with the same media.
        on_progress: gets a sentence before something that takes seconds.
        on_long_step: gets the processor time of a step, in seconds, before it begins; see ``StepPace``.

    Raises:
        LoadError: not a servable model.
        RankFailure, RankLost: see :func:`engine.parallel.loading.load_part`.
        NativeUnavailable, ModelMismatch: the native step was asked for by name, or int8 weights, and cannot be had.
    """
    limits = BatchLimits(
        max_batch_size,
        max_prefill_batch_size,
        max_prefill_tokens,
        prefill_chunk_size,
        apart=apart,
        max_partial_prefills=max_partial_prefills,
        max_long_partial_prefills=max_long_partial_prefills,
        long_prefill_tokens=long_prefill_tokens,
        draft_tokens=draft_tokens,
    )

    warming: list[tuple[GrammarCompiler, Future[None]]] = []

    def first(loaded: LoadedModel) -> NativeRunner | None:
        if not warming:
            # Packing, and comparing logits, let other threads run.
            grammars = GrammarCompiler(lambda: tokenizer_from_folder(path), loaded.info)
            warming.append((grammars, grammars.warm()))
        return native_first(loaded)

    def native_first(loaded: LoadedModel) -> NativeRunner | None:
        if cpu_weights == "int8":
            try:
                return int8_native(loaded)
            except (NativeUnavailable, ModelMismatch) as reason:
                raise type(reason)(f"int8 weights are for the native CPU step: {reason}") from reason
        if cpu_step == "torch" or (cpu_step == "auto" and not _suits(loaded)):
            return None
        if cpu_step == "auto" and adapters:
            _log.warning("the model runs on torch, slower: the native step cannot add adapters.")
            return None
        return native(build_native if cpu_step == "native" else attempt, loaded)

    def int8_native(loaded: LoadedModel) -> NativeRunner:
        if cpu_step == "torch":
            raise NativeUnavailable("torch was asked for.")
        if cpu_step == "auto" and adapters:
            raise NativeUnavailable("it cannot add adapters.")
        return native(build_native, loaded)

    def native(build: Callable[..., _Built], loaded: LoadedModel) -> _Built:
        return build(
            loaded,
            page_size=page_size,
            memory_bytes=memory_bytes,
            memory_share=memory_share,
            threads=threads or usable_cores(),
            variant=cpu_variant,
            weights=cpu_weights,
            cache=None if native_cache is None else Path(native_cache),
            on_progress=on_progress,
        )

    source: dict[str, Any] = {"dtype": dtype, "device": device, "trust_remote_code": trust_remote_code}
    pages: dict[str, Any] = {"page_size": page_size, "memory_bytes": memory_bytes, "memory_share": memory_share,
                             "memory_fraction": memory_fraction}  # fmt: skip
    runner: ModelRunner | LoadedModel
    if followers is not None:
        asked = {"--cpu-step native": cpu_step == "native", "int8 weights": cpu_weights == "int8",
                 "adapters": adapters, "--deterministic": deterministic}  # fmt: skip
        for wish, there in asked.items():
            if there:
                raise LoadError(f"worldSize is {followers.size}, and {wish} cannot be had with more than 1.")
        part = load_part(followers, Path(path), **source, **pages)
        grammars = GrammarCompiler(lambda: tokenizer_from_folder(path), part.info)
        warming.append((grammars, grammars.warm()))
        runner = LeadingRunner(part, followers)
    elif deterministic:
        loaded = load(Path(path), **source, tried=False)
        found = first(loaded)
        if found is None:
            try_out(loaded, Path(path).name)
        runner = found or loaded
        del loaded
    else:
        runner = load_runner(Path(path), **source, first=first, **pages)
    ((grammars, warmed),) = warming
    warmed.result()
    media = None
    if isinstance(runner, LoadedModel | TorchRunner) and runner.encoder is not None:
        media = MediaDesk(
            runner.encoder,
            runner.encoder.width,
            runner.model.dtype,
            slice_s=encoder_slice_ms / 1000,
            cache_bytes=encoder_cache_bytes,
            tell=on_long_step,
        )
    if isinstance(runner, LoadedModel):
        if runner.model.device.type in card_memory.CARDS:
            memory_bytes = _card_bytes(memory_bytes, memory_share, memory_fraction, runner.model.device.type)
        return TorchExecutor(runner, memory_bytes, grammars, memory_share, StepPace(on_long_step), media)
    if media is None and runner.info.media_tokens:
        _log.warning("%s takes text only here: its runner does not take embeddings.", runner.info.architecture)
        runner.info = replace(runner.info, media_tokens=())
    if isinstance(runner, NativeRunner):
        # torch's idle threads would spin on into the next step, and there is nothing large left for them to do.
        torch.set_num_threads(1)
        gc.collect()  # the model's own weights
    soft_limit = _soft_limit(runner, memory_bytes)
    return PackedExecutor(
        runner,
        limits,
        cache_bytes=soft_limit,
        grammars=grammars,
        prefix_cache=prefix_cache,
        pace=StepPace(on_long_step),
        media=media,
    )


def _soft_limit(runner: ModelRunner, limit: int | None) -> int | None:
    """How much of the pages may become used for the prefix cache's sake; None: all."""
    if runner.info.device.partition(":")[0] in card_memory.CARDS:
        return None  # pages on a card are taken from the start, whether they are used or not
    return cache_bytes(limit, runner.num_pages * runner.bytes_per_page)


def _card_bytes(limit: int | None, share: float, fraction: float | None, kind: str = "npu") -> int:
    """For the caches of sequences on the current card."""
    if limit is None and fraction is not None:
        return card_memory.fraction_bytes(fraction, share, kind)
    return card_memory.pool_bytes(limit, share, kind)


def _suits(loaded: LoadedModel) -> bool:
    """Whether the native step is for such models at all; others are none that it failed on."""
    return bool(loaded.model.device.type == "cpu" and loaded.model.dtype == torch.bfloat16)
