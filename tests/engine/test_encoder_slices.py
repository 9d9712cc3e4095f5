"""A forward in slices: it stops before the module behind which its time would be over, and goes on there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from engine.attention.encoder import PAUSE, PIECE_PRODUCTS, encoder_attention
from engine.multimodal.slices import Encoding


class Clock:
    """Moves when it is told to."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


class Model(nn.Module):
    """Ten modules of two kinds in turns, each of which takes 10 ms of a clock and adds 1."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        self.ran = 0
        self.parts = nn.ModuleList(nn.Dropout(0.0) if index % 2 else nn.Identity() for index in range(10))

    def forward(self, rows):
        for part in self.parts:
            rows = part(rows)
            self.clock.now_s += 0.01
            self.ran += 1
            rows = rows + 1
        return rows


def begun(model, clock, **options):
    """The forward of three zeros in slices."""
    return Encoding(lambda: model(torch.zeros(3)), list(model.parts), 1, clock, **options)


@pytest.mark.parametrize(("budget_s", "slices"), [(0.025, 5), (0.015, 10), (0.005, 10), (1.0, 1), (0.0, 11)])
def test_a_slice_ends_before_the_module_that_would_pass_it(budget_s, slices):
    """Two modules of 10 ms in 25 ms, one where the time is for less than one or the next one's kind is not known yet;
    and the result is that at once."""
    clock = Clock()
    model = Model(clock)
    encoding = begun(model, clock)
    count, longest = 0, 0.0
    while True:
        before = clock.now_s
        ended = encoding.go_on(budget_s)
        count, longest = count + 1, max(longest, clock.now_s - before)
        if ended:
            break
    assert count == slices
    assert longest <= max(budget_s, 0.01) + 1e-9
    assert torch.equal(encoding.result(), torch.full((3,), 10.0))


@pytest.mark.parametrize("slices", [0, 1])
def test_cancelled_it_ends_where_it_stands(slices):
    """No module runs any more, the thread is gone, and the modules have no hooks left."""
    clock = Clock()
    model = Model(clock)
    encoding = begun(model, clock)
    for _ in range(slices):
        encoding.go_on(0.015)
    encoding.cancel()
    encoding.cancel()
    assert model.ran == slices
    encoding._thread.join(timeout=60) if slices else None
    assert not encoding._thread.is_alive()
    assert not any(part._forward_pre_hooks for part in model.parts)


def test_what_the_model_raises_comes_with_the_result():
    """The thread hands it over instead of dying with it."""
    clock = Clock()
    encoding = Encoding(lambda: torch.zeros(2) @ torch.zeros(3), [], 1, clock)
    assert encoding.go_on(1.0)
    with pytest.raises(RuntimeError):
        encoding.result()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Linear(1024, 1024), (2, 150, 1024)), (nn.Conv3d(3, 1000, (2, 14, 14), (2, 14, 14)), (300, 3, 2, 14, 14))],
)
def test_a_layer_stops_between_pieces_of_its_rows(layer, shape):
    """A million products a row: 64 rows are a piece, so 300 rows are five of them, and give what they give at once."""
    rows = torch.randn(*shape)
    wanted = layer(rows)
    encoding = Encoding(lambda: layer(rows), [layer], 1)
    slices = 1
    while not encoding.go_on(0.0):
        slices += 1
    assert slices == 6
    torch.testing.assert_close(encoding.result(), wanted)
    assert "forward" not in vars(layer)


def test_attention_stops_between_pieces_of_its_rows():
    """163,840 products a row: 305 of 2,560 rows are a piece; and the module has its own stop before them."""
    module = nn.Identity()
    query, key, value = torch.randn(3, 1, 4, 640, 64)
    query = query.repeat(1, 1, 4, 1)  # [1, 4, 2560, 64]
    wanted = nn.functional.scaled_dot_product_attention(query, key, value, scale=0.2).transpose(1, 2)
    encoding = Encoding(lambda: encoder_attention(module(module), query, key, value, scaling=0.2)[0], [module], 1)
    slices = 1
    while not encoding.go_on(0.0):
        slices += 1
    assert slices == 1 + 1 + -(-2560 // (PIECE_PRODUCTS // (4 * 640 * 64)))
    torch.testing.assert_close(encoding.result(), wanted)
    assert PAUSE not in vars(module)
