"""What int8 weights change: the model's own forward with rounded weights, and how far logits are from others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.plan import ModelRunner, Plan, Span

LARGEST = 127
"""Of the whole numbers that a weight becomes, either way."""


@dataclass(frozen=True, slots=True)
class LogitDistance:
    """How far logits are from wanted ones, over all rows."""

    rows: int
    error: float
    """Mean absolute difference."""
    share: float
    """``error`` as a part of the wanted logits' standard deviation within a row."""
    divergence: float
    """Kullback-Leibler, from the wanted probabilities, in nats."""
    same_best: int
    """Rows whose likeliest token is the same."""


def rounded(weight: Tensor) -> Tensor:
    """A matrix ``[outputs, inputs]`` as the int8 kernel sees it: each row in multiples of its largest value / 127.

    In float32: in bfloat16 the multiples would be rounded once more.
    """
    whole = weight.to(torch.float32, copy=True)  # the one copy: a head may be larger than all else
    scale = torch.maximum(whole.amax(dim=1, keepdim=True), -whole.amin(dim=1, keepdim=True)) / LARGEST
    return whole.div_(torch.where(scale == 0, 1, scale)).round_().mul_(scale)


@contextmanager
def rounded_products(model: nn.Module) -> Iterator[None]:
    """Let a model multiply by its rounded weights for a while; the weights themselves stay as they are."""

    def product(layer: Any, inputs: Any, _: Tensor) -> Tensor:
        bias = None if layer.bias is None else layer.bias.float()
        return functional.linear(inputs[0].float(), rounded(layer.weight), bias).to(inputs[0].dtype)

    handles = [module.register_forward_hook(product) for module in model.modules() if type(module) is nn.Linear]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def logits_in_pieces(runner: ModelRunner, tokens: list[int], size: int) -> tuple[list[int], Tensor]:
    """A prompt in pieces, in the first pages of the memory: the last position of each, and ``[pieces, vocab]``."""
    pages = range(-(-len(tokens) // runner.page_size))
    ends = [*range(size, len(tokens), size), len(tokens)]
    plans = [
        Plan([Span(pages, start, tokens[start:end], True)], 0) for start, end in zip([0, *ends], ends, strict=False)
    ]
    return [end - 1 for end in ends], torch.cat([runner.run(plan) for plan in plans])


def compare(found: Tensor, wanted: Tensor) -> LogitDistance:
    """Both float32 ``[rows, vocab]``."""
    error = (found - wanted).abs().mean().item()
    spread = wanted.std(dim=-1, correction=0).mean().item()
    exact = wanted.log_softmax(dim=-1)
    divergence = (exact.exp() * (exact - found.log_softmax(dim=-1))).sum(dim=-1).mean().item()
    same = int((found.argmax(dim=-1) == wanted.argmax(dim=-1)).sum())
    return LogitDistance(len(found), error, error / max(spread, 1e-6), divergence, same)
