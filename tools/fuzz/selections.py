"""Selections from a step's logits, real and spoilt ones: the native selector finds the tokens that torch's finds."""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor

from engine.sampling.params import DrawSettings
from engine.sampling.penalties import TokenCounts
from engine.sampling.sampler import Row
from engine.sampling.selector import Selector, TorchSelector
from engine.types import SamplingParams

_CPU = torch.device("cpu")
_MOST_ROWS = 6
_TORCH = TorchSelector()


def compare_selections(draw: random.Random, selector: Selector, logits: Tensor) -> int:
    """Choose from up to six rows of ``logits`` ``[rows, vocab]`` in random ways; returns how many were drawn from.

    Raises:
        AssertionError: another token than torch's, or a logprob that is not within 1e-5 of torch's.
    """
    rows = logits[:_MOST_ROWS].clone()
    if not len(rows):
        return 0
    for row in rows:
        _spoil(draw, row)
    found, finite = selector.likeliest(rows)
    assert (found, finite) == _TORCH.likeliest(rows), "another likeliest token than torch's"
    asked = [(index, _row(draw, rows.shape[1])) for index in range(len(rows)) if finite[index] for _ in range(2)]
    tokens = selector.tokens(rows, asked)
    assert tokens == _TORCH.tokens(rows, asked), "another draw than torch's"
    listed = [(index, token, draw.choice([None, 0, 1, 5, 20])) for (index, _), token in zip(asked, tokens, strict=True)]
    for ours, theirs in zip(selector.logprobs(rows, listed), _TORCH.logprobs(rows, listed), strict=True):
        assert ours[0] == theirs[0] or math.isclose(ours[0], theirs[0], abs_tol=1e-5), "another logprob than torch's"
        assert [token for token, _ in ours[1] or ()] == [token for token, _ in theirs[1] or ()], "another list"
    return len(asked)


def _spoil(draw: random.Random, row: Tensor) -> None:
    """Leave a row as it is, or make some of its logits equal, huge, infinite or no number."""
    kind = draw.choice(["kept", "kept", "equal", "huge", "minus", "nan"])
    places = [draw.randrange(len(row)) for _ in range(3)]
    if kind == "equal":
        row[:] = row.round()
    elif kind == "huge":
        row[places] = draw.choice([3e38, -3e38, 1e5])
    elif kind == "minus":
        row[places[1:]] = float("-inf")
    elif kind == "nan":
        row[places[0]] = float("nan")


def _row(draw: random.Random, vocab: int) -> Row:
    sampling = SamplingParams(
        max_tokens=1,
        seed=draw.randrange(2**64),
        temperature=draw.choice([0.01, 0.7, 1.0, 2.0, 1e30]),
        top_k=draw.choice([-1, -1, 1, 5, vocab, 2**31 - 1]),
        top_p=draw.choice([1.0, 1.0, 0.95, 0.3, 1e-5]),
        repetition_penalty=draw.choice([1.0, 1.0, 1.1, 2.0, 1e-4]),
        frequency_penalty=draw.choice([0.0, 0.0, 0.5, -2.0]),
        presence_penalty=draw.choice([0.0, 0.0, 1.5]),
    )
    settings = DrawSettings.of(sampling, 0)
    seen = [draw.randrange(vocab) for _ in range(draw.randint(0, 20))]
    counts = TokenCounts.start(settings, seen[::2], _CPU)
    if counts is not None:
        for token_id in seen:
            counts.add(token_id)
    return Row(settings, draw.randrange(1000), counts)
