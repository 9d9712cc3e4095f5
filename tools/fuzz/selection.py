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
from engine.sampling.selector import Selector, TorchSelector
from engine.types import SamplingParams
from tools.fuzz.wrong import outside

_VOCABS = (1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 65, 100, 129, 1000, 1025, 4099)
_SCALES = (0.0, 1e-3, 1.0, 4.0, 30.0, 1e37)
_CPU = torch.device("cpu")


def compare(selector: Selector, draw: random.Random) -> None:
    """The likeliest tokens, draws and logprobs of some rows are torch's; of logprobs only how near they are is known.

    Raises:
        AssertionError: they are not.
    """
    torchs = TorchSelector()
    logits = _logits(draw)
    rows, vocab = logits.shape
    healthy = logits.clone()
    healthy[~healthy.isfinite()] = -math.inf
    healthy[:, draw.randrange(vocab)] = 0.5
    for value in (math.nan, math.inf, -math.inf):
        if draw.random() < 0.3:
            logits[draw.randrange(rows), draw.randrange(vocab)] = value
    assert selector.likeliest(logits) == torchs.likeliest(logits), "another likeliest token"
    choices = [(draw.randrange(rows), _row(draw, vocab)) for _ in range(draw.randint(0, 5))]
    assert selector.tokens(healthy, choices) == torchs.tokens(healthy, choices), "another token is drawn"
    asked = [
        (draw.randrange(rows), draw.randrange(vocab), draw.choice([None, 0, 1, 5, 20, vocab, 2 * vocab]))
        for _ in range(draw.randint(0, 5))
    ]
    wanted = torchs.logprobs(healthy, [(row, token_id, top and min(top, vocab)) for row, token_id, top in asked])
    for (row, _, top), found, reference in zip(asked, selector.logprobs(healthy, asked), wanted, strict=True):
        near = 1e-5 * max(1.0, float(healthy[row].amax().abs()))
        values = [(found[0], reference[0])]
        assert (found[1] is None) == (reference[1] is None) == (top is None)
        if found[1] is not None and reference[1] is not None:
            assert len(found[1]) == len(reference[1]) == len({token_id for token_id, _ in found[1]})
            values += [(mine, its) for (_, mine), (_, its) in zip(found[1], reference[1], strict=True)]
        assert all(math.isclose(mine, its, abs_tol=near, rel_tol=1e-5) for mine, its in values), "other logprobs"


def wrong_call(selector: Selector, draw: random.Random) -> Callable[[], object]:
    """A call that must be refused."""
    logits = _logits(draw)
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


def _logits(draw: random.Random) -> Tensor:
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
