"""Steps that use every operator: prompts in chunks, prefix hits, decode rows, windows, sinks, top-k and top-p."""

from __future__ import annotations

from typing import Any

import families
import torch
from int8_models import quantise

from engine.plan import Plan, Span
from engine.sampling.params import DrawSettings
from engine.sampling.sampler import Row
from engine.types import SamplingParams

POSITIONS = 1024
PROMPT = [3 + (7 * index + index * index // 9) % 60 for index in range(300)]
INT8 = "qwen2 with int8 weights"
FAMILIES = ("llama", "qwen3", "mistral", "gpt_oss", "deepseek_v3", INT8)


def model(family: str, dtype: torch.dtype = torch.bfloat16) -> Any:
    """A small model whose windows are wider than a page."""
    if family == INT8:
        return quantise(model("qwen2", dtype))
    changes: dict[str, Any] = {"max_position_embeddings": POSITIONS}
    if "sliding_window" in families.FAMILIES[family]:
        changes["sliding_window"] = 150
    return families.build(family, **changes).to(dtype)


def plans() -> list[Plan]:
    """A prompt at once, in chunks with company, behind a shared page, and rows one by one; pages in no order."""
    one, two, three = [9, 2, 7, 11], [4, 1, 8, 12], [9, 5, 6, 13]
    return [
        Plan([Span(one, 0, PROMPT[:200], 1)], 0),
        Plan([Span(one, 200, PROMPT[200:201], 1), Span(two, 0, PROMPT[:170], 0)], 1),
        Plan([Span(one, 201, [5], 1), Span(two, 170, PROMPT[170:299], 1), Span(three, 128, PROMPT[128:140], 1)], 1),
        Plan([Span(one, 202, [6], 1), Span(two, 299, PROMPT[299:300], 1), Span(three, 140, PROMPT[140:141], 1)], 3),
    ]


def rows() -> list[tuple[int, Row]]:
    """What draws from the three rows of the last step: greedy, by rank, by mass, by both."""
    fields: list[tuple[int, dict[str, Any]]] = [
        (0, {"temperature": 0.0}),
        (0, {"top_k": 5, "seed": 1}),
        (1, {"top_p": 0.7, "seed": 2, "logprobs": 3}),
        (2, {"top_k": 9, "top_p": 0.8, "seed": 3}),
    ]
    return [(at, Row(DrawSettings.of(SamplingParams(max_tokens=9, **given), 0), 0, None)) for at, given in fields]


def run(runner: Any) -> tuple[list[torch.Tensor], list[int]]:
    """The logits of all steps, and the tokens that are drawn from the last."""
    logits = [runner.run(plan) for plan in plans()]
    return logits, [draw.token_id for draw in runner.selector.look(logits[-1], rows()).draws]
