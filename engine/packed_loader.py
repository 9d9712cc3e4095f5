"""Loads a model behind the executor that suits it: packed steps over one memory, else one sequence at a time."""

from __future__ import annotations

from pathlib import Path

from engine.batching import BatchLimits
from engine.executor import Executor
from engine.grammar.compiler import GrammarCompiler
from engine.loader import load
from engine.machine_memory import cache_bytes
from engine.packed_executor import PackedExecutor
from engine.runner import TorchExecutor
from engine.text.tokenizer import tokenizer_from_folder
from engine.torch_runner import PAGE_SIZE, TorchRunner, load_runner
from engine.types import ModelInfo


def load_executor(
    path: str,
    *,
    dtype: str = "auto",
    device: str | None = None,
    trust_remote_code: bool = False,
    page_size: int = PAGE_SIZE,
    memory_bytes: int | None = None,
    max_batch_size: int = 200,
    max_prefill_batch_size: int = 50,
    max_prefill_tokens: int = 8192,
    prefill_chunk_size: int | None = None,
    deterministic: bool = False,
) -> Executor:
    """Load the model at ``path`` and serve it.

    A model that transformers' attention interface cannot carry, or that is not on a CPU, runs one sequence at a time;
    a log line says why.

    Args:
        path: see :func:`engine.loader.load`, as for ``dtype``, ``device`` and ``trust_remote_code``.
        page_size: tokens of a page of keys and values.
        memory_bytes: for keys and values; None takes a share of what the machine has.
        max_batch_size: see :class:`engine.batching.BatchLimits`, as for the next three.
        deterministic: run each sequence in forwards of its own, so that its numbers do not depend on its company or on
            what is cached: equal requests with equal seeds get equal answers, bit by bit.

    Raises:
        LoadError: not a servable model.
    """
    if deterministic:
        alone = load(Path(path), dtype=dtype, device=device, trust_remote_code=trust_remote_code)
        return TorchExecutor(alone, memory_bytes, _grammars(path, alone.info))
    limits = BatchLimits(max_batch_size, max_prefill_batch_size, max_prefill_tokens, prefill_chunk_size)
    loaded = load_runner(
        Path(path),
        dtype=dtype,
        device=device,
        trust_remote_code=trust_remote_code,
        page_size=page_size,
        memory_bytes=memory_bytes,
    )
    grammars = _grammars(path, loaded.info)
    if not isinstance(loaded, TorchRunner):
        return TorchExecutor(loaded, memory_bytes, grammars)
    soft_limit = cache_bytes(memory_bytes, loaded.num_pages * loaded.bytes_per_page)
    return PackedExecutor(loaded, limits, cache_bytes=soft_limit, grammars=grammars)


def _grammars(path: str, info: ModelInfo) -> GrammarCompiler:
    return GrammarCompiler(lambda: tokenizer_from_folder(path), info)
