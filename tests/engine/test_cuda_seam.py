"""The GPU's runner: with a stand-in for torch's kernel on CPU tensors, and on a GPU itself where there is one."""

from __future__ import annotations

import copy
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.attention import cuda
from engine.attention.registry import LayerShape
from engine.cuda.runner import CudaRunner
from engine.forward import ModelMismatch
from engine.loader import LoadedModel
from engine.plan import Plan, Span
from engine.torch_runner import TorchRunner, build
from tests.engine import families

PAGE = 8
TOKENS = 6
PROMPTS = [[5 + 3 * index % 50 for index in range(29)], [60 - 2 * index % 55 for index in range(18)]]
PAGES = [[9, 2, 7, 11, 0], [4, 1, 8, 12, 3]]
"""In no order."""


class CpuCudaRunner(CudaRunner):
    """Takes models on the CPU, with short pages."""

    @classmethod
    def refuse(cls, loaded: LoadedModel, page_size: int) -> None:
        """Nothing is refused here."""

    @classmethod
    def size_of_page(cls, asked: int) -> int:
        """As asked."""
        return asked


def varlen_attn(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cu_seq_q: torch.Tensor, cu_seq_k: None, max_q: int,
    max_k: int, *, return_aux: Any = None, scale: float | None = None, window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False, seqused_k: torch.Tensor | None = None, block_table: torch.Tensor | None = None,
) -> Any:  # fmt: skip
    """What torch documents of its kernel, in plain torch, with its preconditions."""
    assert seqused_k is not None
    assert block_table is not None
    assert cu_seq_k is None
    assert {cu_seq_q.dtype, seqused_k.dtype, block_table.dtype} == {torch.int32}
    assert key.dim() == 4
    assert query.is_contiguous()
    assert enable_gqa == (query.shape[1] != key.shape[2])
    assert window_size[1] == 0
    ends, used = cu_seq_q.tolist(), seqused_k.tolist()
    assert max_q == max(end - begin for begin, end in pairwise(ends))
    assert max_k == max(used)
    group = query.shape[1] // key.shape[2]
    out, sums = torch.empty_like(query), query.new_empty(query.shape[:2], dtype=torch.float32)
    for place, (begin, end) in enumerate(pairwise(ends)):
        pages = block_table[place].long()
        keys, values = (pool[pages].flatten(0, 1)[: used[place]].repeat_interleave(group, 1) for pool in (key, value))
        rows = torch.arange(end - begin)[:, None] + used[place] - (end - begin)
        seen = torch.arange(used[place])[None] <= rows
        if window_size[0] >= 0:
            seen &= torch.arange(used[place])[None] >= rows - window_size[0]
        scores = torch.einsum("rhd,khd->hrk", query[begin:end].float(), keys.float()) * scale
        scores.masked_fill_(~seen, -torch.inf)
        out[begin:end] = torch.einsum("hrk,khd->rhd", scores.softmax(dim=-1), values.float()).to(query.dtype)
        sums[begin:end] = scores.logsumexp(dim=-1).T
    return out if return_aux is None else (out, sums)


@pytest.fixture(params=[name for name in families.FAMILIES if name != "gemma2"])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[TorchRunner, Any]:
    """A runner of each family over the stand-in, and what generate answers."""
    monkeypatch.setattr(cuda.varlen, "varlen_attn", varlen_attn)
    model, answers = families.build_clear(request.param, PROMPTS, TOKENS)
    runner = build(
        families.loaded(copy.deepcopy(model)), page_size=PAGE, memory_bytes=1 << 26, max_tokens=PAGE * 32,
        kind=CpuCudaRunner,
    )  # fmt: skip
    assert isinstance(runner, CudaRunner)
    return runner, answers


def _span(which: int, start: int, token_ids: list[int]) -> Span:
    return Span(PAGES[which], start, token_ids, 1)


def test_chunks_company_and_rows_answer_as_generate(case: tuple[TorchRunner, Any]) -> None:
    """A prompt in two chunks beside the other's rows, pages in no order; windows and sinks where a family has them."""
    runner, answers = case
    first = runner.run(Plan([_span(0, 0, PROMPTS[0])], 0))
    given = [[int(first[0].argmax())], []]
    runner.run(Plan([_span(0, 29, given[0][-1:]), _span(1, 0, PROMPTS[1][:11])], 1))
    logits = runner.run(Plan([_span(0, 29, given[0][-1:]), _span(1, 11, PROMPTS[1][11:])], 1))
    given[0].append(int(logits[0].argmax()))
    given[1].append(int(logits[1].argmax()))
    while len(given[1]) < TOKENS:
        rows = [_span(which, len(PROMPTS[which]) + len(given[which]) - 1, given[which][-1:]) for which in (0, 1)]
        logits = runner.run(Plan(rows, 2))
        for which in (0, 1):
            given[which].append(int(logits[which].argmax()))
    assert [given[0][:TOKENS], given[1]] == answers


def test_what_the_kernel_cannot_do_is_refused() -> None:
    """Other devices by the runner, soft caps by the step."""
    loaded = families.loaded(families.build("llama"))
    with pytest.raises(ModelMismatch, match="for cuda devices, and the model is on cpu"):
        CudaRunner.refuse(loaded, 256)
    with pytest.raises(ModelMismatch, match="caps scores softly"):
        build(families.loaded(families.build("gemma2")), page_size=PAGE, memory_bytes=1 << 26, kind=CpuCudaRunner)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_whole_precision_is_refused(dtype: torch.dtype) -> None:
    """At load, by name: the kernel computes in half precision alone."""
    with pytest.raises(ModelMismatch, match=f"computes in half precision, not in {dtype}"):
        CudaRunner.refuse(on_a_gpu(dtype), 256)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_taken(dtype: torch.dtype) -> None:
    """Both kinds."""
    CudaRunner.refuse(on_a_gpu(dtype), 256)


def on_a_gpu(dtype: torch.dtype) -> LoadedModel:
    """A model of which only the device and the dtype are looked at."""
    return families.loaded(SimpleNamespace(device=torch.device("cuda"), dtype=dtype))


def test_two_engines_on_a_gpu_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine tenths of 40 GiB beyond the first one, half of that each, in pages of 256 tokens."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (41 << 30, 64 << 30))
    shapes = [LayerShape(32, 8, 128, 128)]
    page = 2 * 256 * 8 * 128 * 2
    assert CudaRunner.pages(shapes, None, 1.0, 256, torch.bfloat16) == (36 << 30) // page
    assert CudaRunner.pages(shapes, None, 0.5, 256, torch.bfloat16) == (18 << 30) // page


def test_pages_are_what_the_kernel_reads() -> None:
    """The next multiple of 256 tokens."""
    assert [CudaRunner.size_of_page(asked) for asked in (1, 128, 256, 257)] == [256, 256, 256, 512]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("family", ["llama", "qwen3", "mistral", "gpt_oss"])
def test_a_model_on_a_gpu_passes_its_check_and_answers(family: str) -> None:
    """The load-time comparison with the dense forward, and a step of rows and chunks."""
    model = families.build(family, max_position_embeddings=2048, head_dim=64).to(torch.bfloat16).cuda()
    runner = build(families.loaded(model), page_size=128, max_tokens=4096, kind=CudaRunner)
    assert runner.page_size == 256
    logits = runner.run(Plan([Span([3], 0, PROMPTS[0], 1), Span([1], 0, PROMPTS[1], 1)], 0))
    assert logits.isfinite().all()
