"""Modules are replaced by fused ones where those compute the same, and only there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from engine.fused import layers, replace
from engine.fused.huge_pages import _joined, use_huge_pages
from engine.fused.products import Product, packs
from engine.torch_runner import build
from tests.engine import families


def _replaced(family: str) -> Counter[str]:
    model = families.build(family)
    build(families.loaded(model), page_size=8, max_tokens=400)
    return Counter(type(module).__name__ for module in model.modules())


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_whole_layers_of_llama_like_models_are_replaced(family: str) -> None:
    """Both layers, the last norm and the output layer; no module of the model's own does arithmetic any more."""
    kinds = _replaced(family)
    assert kinds["DecoderLayer"] == 2
    assert kinds["Linear"] == 0
    assert not [kind for kind in kinds if kind.endswith("RMSNorm")]


@pytest.mark.parametrize("family", ["gemma2", "phi3", "glm4", "deepseek_v3", "gpt_oss"])
def test_products_of_other_models_are_replaced(family: str) -> None:
    """Their layers stay, with products inside."""
    kinds = _replaced(family)
    assert kinds["DecoderLayer"] == 0
    assert kinds["Product"] >= 9
    assert kinds["Linear"] == 0


def test_a_replacement_that_computes_something_else_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A norm with a large epsilon; the rest is replaced all the same."""

    class Wrong(layers.Norm):
        def __init__(self, norm: Any) -> None:
            super().__init__(norm)
            self._least = torch.tensor(10.0)

    monkeypatch.setattr(replace, "Norm", Wrong)
    kinds = _replaced("phi3")
    assert kinds["Wrong"] == 0
    assert kinds["Phi3RMSNorm"] == 5
    assert kinds["Linear"] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias", [False, True])
def test_a_product_joins_linear_layers(dtype: torch.dtype, bias: bool) -> None:
    """Outputs side by side, whether one of them has a bias or none; and a sum in the same call."""
    torch.manual_seed(0)
    parts = [nn.Linear(24, 16, bias=bias, dtype=dtype), nn.Linear(24, 8, bias=False, dtype=dtype)]
    rows, other = torch.randn(5, 24, dtype=dtype), torch.randn(5, 24, dtype=dtype)
    with torch.inference_mode():
        product = Product(parts)
        wanted = torch.cat([part(rows) for part in parts], dim=-1)
        tolerance = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.03, "rtol": 0.03}
        torch.testing.assert_close(product(rows), wanted, **tolerance)
        torch.testing.assert_close(product(rows[None])[0], wanted, **tolerance)
        torch.testing.assert_close(product.plus(rows, other), wanted + other, **tolerance)
    assert product.is_packed == packs(dtype)


def test_float64_products_stay_plain() -> None:
    """oneDNN has none."""
    assert not packs(torch.float64)
    part = nn.Linear(4, 3, dtype=torch.float64)
    rows = torch.randn(2, 4, dtype=torch.float64)
    assert torch.equal(Product([part])(rows), part(rows))


def test_pieces_of_memory_that_nearly_touch_are_one() -> None:
    """Huge pages span several small matrices, but no distant ones."""
    assert _joined([(1_000_000, 500), (0, 100), (200, 50)]) == [(0, 250), (1_000_000, 1_000_500)]


def test_memory_without_a_whole_huge_page_is_left_alone() -> None:
    """Nothing is asked of the system."""
    assert use_huge_pages([(4096, 1 << 20)]) == 0
