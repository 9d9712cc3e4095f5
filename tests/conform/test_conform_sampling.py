"""Laws about a model's numbers: a toy model keeps them, and each is broken by the fault that it is about."""

from __future__ import annotations

import pytest
from toy_model import FAULTS, ToyModel

from tools.conform.asking import Ask, Target
from tools.conform.budget import Budget
from tools.conform.law import Law
from tools.conform.runner import tried
from tools.conform.sides import SIDES, Side


def findings(law: Law, fault: str) -> list[str]:
    """What a law finds in the toy model with a fault."""
    ask = Ask(ToyModel(fault), Target("toy"), Budget(10_000, 10**7))
    return [finding.message for finding in tried(law, ask)]


@pytest.mark.parametrize("side", SIDES, ids=lambda side: side.name)
@pytest.mark.parametrize("law", FAULTS)
def test_a_law_of_numbers_finds_its_fault(law: str, side: Side, laws: dict[str, Law]) -> None:
    """The clean model keeps the law; the model with the fault breaks it."""
    judged = laws[f"{law}.{side.name}"]
    assert findings(judged, "") == []
    assert findings(judged, FAULTS[law]) != []


def test_every_other_sampling_law_is_kept_by_the_toy_model(laws: dict[str, Law]) -> None:
    """Logprobs before sampling fields, filters that are off, greedy that nothing changes."""
    for name in (
        "sampling.greedy-fixed",
        "sampling.top-k-off",
        "sampling.first-token",
        "logprobs.raw",
        "logprobs.raw-later",
    ):
        for side in SIDES:
            assert findings(laws[f"{name}.{side.name}"], "") == [], name
