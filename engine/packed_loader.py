"""Loads a model behind the executor that suits it: packed steps over one memory, else one sequence at a time."""

from __future__ import annotations

from pathlib import Path

from engine.batching import BatchLimits
from engine.executor import Executor
from engine.grammar.compiler import GrammarCompiler
from engine.packed_executor import PackedExecutor
from engine.runner import TorchExecutor
from engine.text.tokenizer import tokenizer_from_folder
from engine.torch_runner import PAGE_SIZE, TorchRunner, load_runner


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
) -> Executor:
    """Load the model at ``path`` and serve it.

    A model that transformers' attention interface cannot carry, or that is not on a CPU, runs one sequence at a time;
    a log line says why.

    Args:
        path: see :func:`engine.loader.load`, as for ``dtype``, ``device`` and ``trust_remote_code``.
        page_size: tokens of a page of keys and values.
        memory_bytes: for keys and values; None takes a share of what the machine has.
        max_batch_size: see :class:`engine.batching.BatchLimits`, as for the remaining three.

    Raises:
        LoadError: not a servable model.
    """
    limits = BatchLimits(max_batch_size, max_prefill_batch_size, max_prefill_tokens, prefill_chunk_size)
    loaded = load_runner(
        Path(path),
        dtype=dtype,
        device=device,
        trust_remote_code=trust_remote_code,
        page_size=page_size,
        memory_bytes=memory_bytes,
    )
    grammars = GrammarCompiler(lambda: tokenizer_from_folder(path), loaded.info)
    grammars.warm()
    if isinstance(loaded, TorchRunner):
        return PackedExecutor(loaded, limits, grammars=grammars)
    return TorchExecutor(loaded, grammars)
