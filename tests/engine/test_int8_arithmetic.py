"""W8A8 with dynamic scales: the arithmetic that NPUs are held to."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from int8_models import rounded
from torch import nn

from engine.fused.int8_products import Int8Product, joined
from engine.fused.products import Product
from engine.quantised.arithmetic import int8_product, quantise_rows
from engine.quantised.linear import Int8Linear

NUMBERS = st.floats(-1e4, 1e4, width=32)


def layer(outputs: int, inputs: int, *, bias: bool, seed: int = 0) -> Int8Linear:
    """A random layer."""
    generator = torch.Generator().manual_seed(seed)
    made = Int8Linear(inputs, outputs, bias=bias)
    made.weight.data, made.weight_scale.data = rounded(torch.randn(outputs, inputs, generator=generator))
    if made.bias is not None:
        made.bias.data = torch.randn(outputs, generator=generator)
    return made


def test_the_largest_number_of_a_row_becomes_127() -> None:
    """Scales are max / 127, one a row; halves go to the even number."""
    quantised, scales = quantise_rows(torch.tensor([[254.0, -1.0, 3.0, 5.0], [-0.127, 0.05, 0.0, 0.001]]))
    assert quantised.tolist() == [[127, 0, 2, 2], [-127, 50, 0, 1]]
    torch.testing.assert_close(scales, torch.tensor([2.0, 0.001]))


@given(st.lists(NUMBERS, min_size=1, max_size=30))
def test_a_row_is_rounded_by_half_a_scale_at_most(row: list[float]) -> None:
    """Whatever is in it, but for numbers so small that 127 of them are not told apart: their scale is 0 or coarse."""
    quantised, scales = quantise_rows(torch.tensor([row]))
    errors = (quantised[0] * scales[0] - torch.tensor(row)).abs()
    assert (errors <= scales[0] * 0.5001 + 1e-42).all()
    assert scales[0] == torch.tensor(row).abs().amax() / 127


def test_a_row_of_zeros_stays_zero() -> None:
    """Its scale is 0, by which nothing is divided."""
    assert int8_product(torch.zeros(1, 3), torch.ones(3, 2, dtype=torch.int8), torch.ones(2), None).tolist() == [[0, 0]]


@pytest.mark.parametrize("strange", [math.inf, -math.inf, math.nan])
def test_a_row_that_is_not_finite_gives_no_number(strange: float) -> None:
    """So that its request fails, and no other."""
    rows = torch.tensor([[1.0, strange], [1.0, 2.0]])
    out = int8_product(rows, torch.ones(2, 3, dtype=torch.int8), torch.ones(3), None)
    assert out.isfinite().tolist() == [[False] * 3, [True] * 3]


def test_int8_numbers_are_summed_exactly() -> None:
    """20,000 products of 127 and 127 are 322,580,000, where float32 counts in steps of 32; one is 32 * 127 less."""
    rows = torch.full((1, 20_000), 127.0)
    weight = torch.full((20_000, 1), 127, dtype=torch.int8)
    weight[0] = 95
    assert int8_product(rows, weight, torch.ones(1), None).tolist() == [[322_575_936.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_product_errs_by_no_more_than_rounding_can(dtype: torch.dtype) -> None:
    """Against the same weights as floats: half a scale of the row for each weight, and the output's own rounding."""
    made = layer(40, 96, bias=True)
    rows = torch.randn(7, 96, generator=torch.Generator().manual_seed(1)).to(dtype)
    weight = made.weight.double() * made.weight_scale
    assert made.bias is not None
    whole = rows.double() @ weight.T + made.bias
    _, scales = quantise_rows(rows)
    bound = 0.5 * scales[:, None].double() * weight.abs().sum(dim=1) + 2 * torch.finfo(dtype).eps * whole.abs()
    found = made(rows)
    assert found.dtype == dtype
    assert ((found.double() - whole).abs() <= bound).all()


@pytest.mark.parametrize("biases", [(False, False), (True, False), (True, True)])
def test_joined_layers_give_what_each_gives(biases: tuple[bool, bool]) -> None:
    """The rows are rounded once; not a bit is different."""
    parts = [layer(5, 8, bias=biases[0]), layer(3, 8, bias=biases[1], seed=1)]
    product = joined(parts)
    assert type(product) is Int8Product
    rows = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(2))
    assert torch.equal(product(rows), torch.cat([part(rows) for part in parts], dim=-1))
    other = torch.ones(2, 3, 8)
    assert torch.equal(product.plus(rows, other), product(rows) + other)


def test_layers_that_are_not_quantised_join_as_ever() -> None:
    """The product of floats."""
    assert type(joined([nn.Linear(4, 2), nn.Linear(4, 3)])) is Product
