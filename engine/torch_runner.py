"""The runner over transformers' own forward on a CPU: one packed forward a step, each sequence's memory in one run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import card_memory, seam
from engine.attention.cpu import CpuPool, CpuStep
from engine.attention.registry import ATTENTION_NAME, LayerShape, register
from engine.devices import runner_type
from engine.executor import RankLost
from engine.forward import ModelMismatch
from engine.fused.replace import FusedKinds, replace_modules
from engine.loader import LoadedModel, LoadError, load, try_out
from engine.lora_config import LinearLayer
from engine.lora_layers import LoraLayers, changeable_layers
from engine.machine_memory import pool_bytes
from engine.multimodal.rows import media_inputs
from engine.parallel.ranks import RankFailure
from engine.plan import AdapterTensors, ModelRunner, Plan
from engine.quantised.check import check_limit
from engine.sampling.selector import Selector, TorchSelector
from engine.step_threads import StepThreads

PAGE_SIZE = 128
"""Tokens of a page where nothing else is asked for."""

_log = logging.getLogger(__name__)


class ReplacementMismatch(ModelMismatch):
    """Modules that each agreed with what they replaced do not agree together, in a model that runs packed."""


class TorchRunner:
    """The ``ModelRunner`` over a model that transformers loaded; its pages are contiguous.

    A row's logits depend on the shapes it is computed in: in float32 the last bits differ between a prompt run at once
    and in chunks, or alone and in company; in bfloat16 and float16 that can be 1 % of a logit, so that two tokens
    nearly as likely may change places. float32 is the reference.
    """

    contiguous_pages = True
    same_bits = False
    card: str | None = None
    """The kind of card that the pages lie on; None: in the host's memory."""
    fused: FusedKinds | None = None
    """What replaces the model's modules; None: the CPU's."""

    def __init__(self, loaded: LoadedModel, shapes: Sequence[LayerShape], *, page_size: int, num_pages: int) -> None:
        """Serve ``loaded``, whose attention goes through the seam and has layers of these shapes."""
        self.info = loaded.info
        self.shapes = tuple(shapes)
        self.page_size = page_size
        self.num_pages = num_pages
        self.bytes_per_page = page_bytes(shapes, page_size, loaded.model.dtype)
        self.selector: Selector = TorchSelector()
        self.model: Any = loaded.model
        self.encoder = loaded.encoder
        self.adapters: LoraLayers | None = None
        """Known once the model's modules are those that will run."""
        self.pool: Any = self._make_pool(loaded.model.dtype)
        self._threads = StepThreads(torch.get_num_threads())

    @classmethod
    def refuse(cls, loaded: LoadedModel, page_size: int) -> None:
        """Raise ModelMismatch where the model lies on a device that this runner is not for."""
        if loaded.model.device.type != "cpu":
            raise ModelMismatch(f"this runner is for CPUs, and the model is on {loaded.model.device}.")

    @classmethod
    def size_of_page(cls, asked: int) -> int:
        """Tokens of a page where ``asked`` are wanted."""
        return asked

    @classmethod
    def pages(
        cls, shapes: Sequence[LayerShape], memory_bytes: int | None, share: float, page_size: int, dtype: torch.dtype
    ) -> int:
        """How many pages there may be; see ``build`` for the arguments."""
        return pool_bytes(memory_bytes, share) // page_bytes(shapes, page_size, dtype)

    def _make_pool(self, dtype: torch.dtype) -> Any:
        return CpuPool(self.shapes, self.num_pages * self.page_size, dtype)

    @torch.inference_mode()
    def run(self, plan: Plan) -> Tensor:
        """See ``ModelRunner.run``."""
        with self._threads.step(sum(len(span.token_ids) for span in plan.spans)) as threads:
            torch.set_num_threads(threads)
            return self._run(plan)

    def _run(self, plan: Plan) -> Tensor:
        step = CpuStep(self.pool, plan, self.page_size)
        logits = self._forward(step, plan)
        if step.reads_more and not logits.sum().isfinite():
            # Rows of one call read each other's keys, with weight 0; but 0 times infinity is no number. So once more,
            # each for itself: the numbers that are not finite stay where they come from.
            logits = self._forward(CpuStep(self.pool, plan, self.page_size, grouped=False), plan)
        return logits

    def _forward(self, step: Any, plan: Plan) -> Tensor:
        if self.adapters is not None:
            self.adapters.follow(plan.spans, step.last_rows)
        wanted = step.wanted
        # Some output layers cannot run on no row at all.
        rows = wanted if len(wanted) else torch.zeros(1, dtype=torch.int64, device=self.model.device)
        inputs = {"input_ids": step.token_ids, "position_ids": step.positions}
        if self.encoder is not None:
            table = self.model.get_input_embeddings()
            inputs = media_inputs(step.token_ids, step.positions, plan.spans, step.last_rows, table)
        logits: Tensor = self.model(
            **inputs,
            use_cache=False,
            return_dict=True,
            logits_to_keep=rows,
            plan=step,
        ).logits
        return logits[0, : len(wanted), : self.info.vocab_size].float()

    def copy_pages(self, source: Sequence[int], target: Sequence[int]) -> None:
        """See ``ModelRunner.copy_pages``."""
        size, begin = self.page_size, 0
        for end in range(1, len(source) + 1):
            run_ends = end == len(source) or source[end] != source[end - 1] + 1 or target[end] != target[end - 1] + 1
            if run_ends:
                self.pool.copy(source[begin] * size, target[begin] * size, (end - begin) * size)
                begin = end

    def copy_beginning(self, source: int, target: int, tokens: int) -> None:
        """See ``ModelRunner.copy_beginning``; a sequence reads nothing behind its own tokens, so they may stay."""
        if source != target:
            self.pool.copy(source * self.page_size, target * self.page_size, tokens)

    def adapter_layers(self) -> Mapping[str, LinearLayer]:
        """See ``ModelRunner.adapter_layers``."""
        return self._lora().layers

    def load_adapter(self, name: str, tensors: AdapterTensors) -> int:
        """See ``ModelRunner.load_adapter``."""
        return self._lora().load(tensors)

    def unload_adapter(self, adapter: int) -> None:
        """See ``ModelRunner.unload_adapter``."""
        self._lora().unload(adapter)

    def _lora(self) -> LoraLayers:
        assert self.adapters is not None, "the runner was not made by build"
        return self.adapters


def page_bytes(shapes: Sequence[LayerShape], page_size: int, dtype: torch.dtype) -> int:
    """Memory of one page, all layers."""
    return page_size * dtype.itemsize * sum(shape.values_per_token for shape in shapes)


def build(
    loaded: LoadedModel,
    *,
    page_size: int = PAGE_SIZE,
    memory_bytes: int | None = None,
    memory_share: float = 1.0,
    memory_fraction: float | None = None,
    max_tokens: int | None = None,
    fuse: bool = True,
    kind: type[TorchRunner] | None = None,
    least: Callable[[int], int] | None = None,
) -> TorchRunner:
    """A runner over a loaded model, after it was compared with the model's own forward.

    Args:
        loaded: its model is changed: its attention goes through the seam, and with ``fuse`` modules are replaced.
        page_size: tokens of a page.
        memory_bytes: for keys and values; None takes a share of what the machine has.
        memory_share: this process's part of that share, where several serve.
        memory_fraction: of a card's memory, for all that is on it; see :func:`engine.card_memory.fraction_bytes`.
        max_tokens: no more tokens than this need a place at the same time; None knows no bound.
        fuse: replace modules by faster ones that compute the same.
        kind: the runner of another device than a CPU.
        least: of one rank of several: gets how many pages there may be, and says how many there shall be.

    Raises:
        RankFailure, RankLost: as ``least`` does.
        LoadError: the device has too little memory left for keys and values.
        ReplacementMismatch: the model is of no use any more and must be loaded again.
        ModelMismatch: the model does not fit, and why. Its attention is then its own again.
    """
    model: Any = loaded.model
    runner_of = kind or TorchRunner
    page_size = runner_of.size_of_page(page_size)
    runner_of.refuse(loaded, page_size)
    seam.refuse_by_kind(model, loaded.info.max_position_embeddings)
    own_attention = model.config.get_text_config()._attn_implementation
    tokens = seam.check_tokens(loaded.info.vocab_size, page_size, loaded.info.max_position_embeddings)
    try:
        with seam.narrow_windows(model):
            dense = seam.dense_logits(model, tokens, loaded.info.vocab_size)
            limit = check_limit(model, tokens, dense)
        register()
        model.set_attn_implementation(ATTENTION_NAME)
        shapes = seam.layer_shapes(model)
        if memory_fraction is not None and runner_of.card is not None:
            memory_bytes = card_memory.fraction_bytes(memory_fraction, memory_share, runner_of.card)
        num_pages = runner_of.pages(shapes, memory_bytes, memory_share, page_size, model.dtype)
        if max_tokens is not None:
            num_pages = min(num_pages, -(-max_tokens // page_size))
        if least is not None:
            num_pages = least(num_pages)
        runner = runner_of(loaded, shapes, page_size=page_size, num_pages=num_pages)
        with seam.narrow_windows(model):
            seam.check(runner, tokens, dense, *limit)
        trial = seam.trial_plan(tokens)
        changeable = changeable_layers(model, lambda: runner.run(trial), len(trial.spans[0].token_ids))
    except (ModelMismatch, LoadError, RankFailure, RankLost):
        model.set_attn_implementation(own_attention)
        raise
    except Exception as error:
        model.set_attn_implementation(own_attention)
        raise ModelMismatch(f"it failed in a trial run: {_reason(error)}") from error
    if fuse:
        try:
            replaced = replace_modules(model, lambda: runner.run(trial), runner.fused)
            # Another rank may have replaced some where this one has not, and would wait for it.
            if replaced or least is not None:
                with seam.narrow_windows(model):
                    seam.check(runner, tokens, dense, *limit)
        except Exception as error:
            raise ReplacementMismatch(f"with replaced modules {_reason(error)}") from error
    runner.adapters = LoraLayers(model, changeable)
    return runner


def load_runner(
    path: Path,
    *,
    dtype: str = "auto",
    device: str | None = None,
    trust_remote_code: bool = False,
    first: Callable[[LoadedModel], ModelRunner | None] = lambda _: None,
    **options: Any,
) -> ModelRunner | LoadedModel:
    """Load a model behind the packed runner; where it cannot run packed, the model as it is, and a log line says why.

    Args:
        path: see :func:`engine.loader.load`.
        dtype: the same.
        device: the same.
        trust_remote_code: the same.
        first: may give another runner for the model, which it leaves as it is, after it has compared their logits.
        options: ``page_size``, ``memory_bytes``, ``memory_share``, ``memory_fraction`` and ``max_tokens`` of
            :func:`build`.

    Raises:
        LoadError: not a servable model at all.
    """
    loaded = load(path, dtype=dtype, device=device, trust_remote_code=trust_remote_code, tried=False)
    runner = first(loaded)
    if runner is not None:
        return runner
    try_out(loaded, path.name)
    kind = runner_type(loaded.model.device)
    try:
        return build(loaded, kind=kind, **options)
    except ReplacementMismatch as mismatch:
        _log.warning("%s runs without replaced modules: %s", loaded.info.architecture, mismatch)
    except ModelMismatch as mismatch:
        _log.warning("%s runs one sequence at a time: %s", loaded.info.architecture, mismatch)
        return loaded
    return build(
        load(path, dtype=dtype, device=device, trust_remote_code=trust_remote_code), fuse=False, kind=kind, **options
    )


def _reason(error: Exception) -> str:
    return str(error).strip() or type(error).__name__
