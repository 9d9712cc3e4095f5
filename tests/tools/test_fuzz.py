"""The fuzzer of the native step: a short run under the sanitisers, and faults that it has to find."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.loader import cpu_flags
from engine.native.build import find_compiler, with_library
from engine.native.library import Library
from engine.native.runner import NativeRunner
from engine.native.variants import NativeUnavailable, choose
from tools.fuzz.models import Case, draw_case
from tools.fuzz.rounds import run_round
from tools.fuzz.sanitised import runtime
from tools.fuzz.wrong import outside

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The step as it is served."""
    _need_native()
    return with_library(choose(cpu_flags()), Library, cache=tmp_path_factory.mktemp("native"))


def _need_native() -> None:
    try:
        choose(cpu_flags())
    except NativeUnavailable as reason:
        pytest.skip(f"native step: {reason}")
    if find_compiler() is None:
        pytest.skip("this machine has no C++ compiler")


def small(**changes: Any) -> Case:
    """A small model with room for three long sequences."""
    config = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "vocab_size": 33,
        "max_position_embeddings": 100,
        "initializer_range": 0.2,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }
    return replace(Case("llama", config, 1, 32, 12, 1), **changes)


def test_a_short_run_under_the_sanitisers_finds_nothing(tmp_path: Path) -> None:
    """Every read and write of the C++ side is watched, and every law is checked after every step."""
    _need_native()
    if runtime() is None:
        pytest.skip("the compiler has no libasan")
    command = [sys.executable, "-m", "tools.fuzz", "--rounds", "2", "--seed", "7", "--cache", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    last = done.stdout.splitlines()[-1]
    assert last.startswith("nothing found in 2 rounds")
    for what in ("careless", "compared", "forks", "refused", "rows"):
        assert what in last


def _other_bits_in_company(real: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: NativeRunner, plan: Any) -> Any:
        return real(self, plan) + (1e-6 if len(plan.spans) > 1 else 0.0)

    return run


def _writes_another_page(real: Callable[..., Any]) -> Callable[..., Any]:
    def copy_pages(self: NativeRunner, source: Any, target: Any) -> None:
        real(self, source, target)
        self.pages.tensor()[:: self.bytes_per_page] += 1

    return copy_pages


def _refuses_nothing(real: Callable[..., Any]) -> Callable[..., Any]:
    def copy_pages(self: NativeRunner, source: Any, target: Any) -> None:
        with contextlib.suppress(ValueError):
            real(self, source, target)

    return copy_pages


@pytest.mark.parametrize(
    ("method", "fault", "said"),
    [
        ("run", _other_bits_in_company, "a row has other bits alone than in company"),
        ("copy_pages", _writes_another_page, "were changed, which nobody wrote"),
        ("copy_pages", _refuses_nothing, "taken for valid"),
    ],
)
def test_a_fault_is_found(
    method: str, fault: Any, said: str, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that breaks a law without touching memory that is not its own."""
    monkeypatch.setattr(NativeRunner, method, fault(getattr(NativeRunner, method)))
    with pytest.raises(AssertionError, match=said):
        run_round(small(), library, 0, Counter(), examples=30)


@pytest.mark.parametrize("weights", ["bf16", "int8"])
def test_all_that_is_right_is_taken(weights: Any, library: Library) -> None:
    """The machine itself asks for nothing that is refused."""
    counts: Counter[str] = Counter()
    run_round(small(weights=weights), library, 0, counts, examples=5)
    assert counts["rows"] > 0


def test_wrong_values_are_wrong() -> None:
    """Below 0 or not below the end, up to those that no integer of the machine holds."""
    draw = random.Random(0)
    found = [outside(draw, 100) for _ in range(500)]
    assert not any(0 <= value < 100 for value in found)
    assert {-1, 100, 101, 2**31, 2**64, -(2**63)} <= set(found)


def test_the_same_number_draws_the_same_case() -> None:
    """So that a round that found something can be played again."""
    first, again, other = (draw_case(random.Random(f"7 {number}")) for number in (3, 3, 4))
    assert first == again != other
