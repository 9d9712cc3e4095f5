"""The native selector against torch's: random logits and choices, valid and invalid ones."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import torch
from torch import Tensor

from engine.sampling.params import DrawSettings
from engine.sampling.penalties import TokenCounts
from engine.sampling.sampler import Row
from engine.sampling.selector import Logprobs, Selector, TorchSelector
from engine.types import SamplingParams
from tools.fuzz.wrong import outside

_VOCABS = (1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 65, 100, 129, 1000, 1025, 4099)
_SCALES = (0.0, 1e-3, 1.0, 4.0, 30.0, 1e37)
_CPU = torch.device("cpu")
_TORCH = TorchSelector()
_MOST_ROWS = 6


def compare(selector: Selector, draw: random.Random, logits: Tensor) -> int:
    """Choose from some of the rows of ``logits`` ``[rows, vocab]`` in random ways: tokens are exactly torch's, logprobs
    as near as rounding allows.

    Returns:
        how many tokens were drawn.

    Raises:
        AssertionError: they are not.
    """
    logits = logits[:_MOST_ROWS].clone()
    for row in logits:
        _spoil(draw, row)
    rows, vocab = logits.shape
    found, finite = selector.likeliest(logits)
    assert (found, finite) == _TORCH.likeliest(logits), "another likeliest token than torch's"
    healthy = [index for index in range(rows) if finite[index]]
    choices = [(index, _row(draw, vocab)) for index in healthy for _ in range(draw.randint(0, 2))]
    tokens = selector.tokens(logits, choices)
    assert tokens == _TORCH.tokens(logits, choices), "another draw than torch's"
    asked = [
        (index, token_id, draw.choice([None, 0, 1, 5, 20, vocab]))
        for (index, _), drawn in zip(choices, tokens, strict=True)
        for token_id in (drawn, draw.randrange(vocab))
    ]
    pairs = zip(selector.logprobs(logits, asked), _TORCH.logprobs(logits, _bounded(asked, vocab)), strict=True)
    for (index, _, _), (mine, its) in zip(asked, pairs, strict=True):
        peak = float(logits[index].nan_to_num(0.0, 0.0, 0.0).abs().amax())
        _near(mine, its, 1e-5 * max(1.0, peak))
    return len(choices)


def _bounded(asked: list[tuple[int, int, int | None]], vocab: int) -> list[tuple[int, int, int | None]]:
    """With lists that are no longer than the vocabulary, as torch insists."""
    return [(index, token_id, top and min(top, vocab)) for index, token_id, top in asked]


def _near(mine: Logprobs, its: Logprobs, tolerance: float) -> None:
    values = [(mine[0], its[0])]
    assert (mine[1] is None) == (its[1] is None), "a list that nobody asked for, or none"
    if mine[1] is not None and its[1] is not None:
        ids = [token_id for token_id, _ in mine[1]]
        assert len(ids) == len(set(ids)) == len(its[1]), "another number of likeliest tokens"
        values += [(first, second) for (_, first), (_, second) in zip(mine[1], its[1], strict=True)]
    assert all(a == b or math.isclose(a, b, abs_tol=tolerance) for a, b in values), "other logprobs than torch's"


def _spoil(draw: random.Random, row: Tensor) -> None:
    """Leave a row as it is, or make some of its logits equal, huge, infinite or no number."""
    places = [draw.randrange(len(row)) for _ in range(3)]
    kind = draw.choice(["kept", "kept", "equal", "huge", "minus", "nan", "plus"])
    if kind == "equal":
        row[:] = row.round()
    elif kind == "huge":
        row[places] = draw.choice([3e38, -3e38, 1e5])
    elif kind == "minus":
        row[places[1:]] = -math.inf
    elif kind == "nan":
        row[places[0]] = math.nan
    elif kind == "plus":
        row[places[0]] = math.inf


def wrong_call(selector: Selector, draw: random.Random) -> Callable[[], object]:
    """A call that must be refused."""
    logits = random_logits(draw)
    rows, vocab = logits.shape
    row = _row(draw, vocab)
    # Ids of counted tokens are a tensor's, so that they fit 64 bits.
    far = draw.choice([-1, vocab, vocab + 1, 2**31, 2**63 - 1, -(2**63)])
    settings = DrawSettings.of(SamplingParams(max_tokens=1, repetition_penalty=1.5), 0)
    penalised = Row(settings, 0, TokenCounts([0, far], _CPU))
    calls: list[Callable[[], object]] = [
        lambda: selector.likeliest(logits.double()),
        lambda: selector.likeliest(logits[0]),
        lambda: selector.likeliest(torch.zeros(2, 6)[:, ::2]),
        lambda: selector.likeliest(torch.zeros(2, 0)),
        lambda: selector.tokens(logits, [(outside(draw, rows), row)]),
        lambda: selector.tokens(logits, [(0, row), (0, penalised)]),
        lambda: selector.logprobs(logits, [(outside(draw, rows), 0, 2)]),
        lambda: selector.logprobs(logits, [(0, outside(draw, vocab), None)]),
        lambda: selector.logprobs(logits, [(0, 0, draw.choice([-1, 2**31, 2**64]))]),
    ]
    return draw.choice(calls)


def random_logits(draw: random.Random) -> Tensor:
    """Float32 ``[rows, vocab]`` in a block of their own."""
    generator = torch.Generator().manual_seed(draw.randrange(2**32))
    rows, vocab = draw.choice([1, 1, 2, 5]), draw.choice(_VOCABS)
    logits = torch.randn(rows, vocab, generator=generator) * draw.choice(_SCALES)
    if draw.random() < 0.3:
        logits = logits.round()  # many are equal
    if draw.random() < 0.2:
        logits[torch.rand(rows, vocab, generator=generator) < 0.7] = -math.inf
    return logits.clone()


def _row(draw: random.Random, vocab: int) -> Row:
    sampling = SamplingParams(
        max_tokens=1,
        seed=draw.randrange(2**64),
        temperature=draw.choice([0.0, 1e-5, 0.01, 0.7, 1.0, 2.0, 50.0, 1e30]),
        top_k=draw.choice([0, 0, 1, 2, 40, 64, 65, 500, 2**31 - 1]),
        top_p=draw.choice([1.0, 1.0, 0.999, 0.9, 0.5, 1e-6]),
        repetition_penalty=draw.choice([1.0, 1.0, 0.5, 1.7, 1e30, 5e-324]),
        frequency_penalty=draw.choice([0.0, 0.0, -2.0, 0.7]),
        presence_penalty=draw.choice([0.0, 0.0, -1.5, 2.0]),
    )
    settings = DrawSettings.of(sampling, 0)
    counts = TokenCounts.start(settings, [draw.randrange(vocab) for _ in range(draw.choice([0, 3, 100]))], _CPU)
    if counts is not None:
        for _ in range(draw.choice([0, 5])):
            counts.add(draw.randrange(vocab))
    return Row(settings, draw.choice([0, 1, 4000]), counts)
