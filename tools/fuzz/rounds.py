"""One round of fuzzing: a model, and so many runs of the machine over it."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from engine.native.library import Library
from tools.fuzz.machine import NativeMachine
from tools.fuzz.models import Case
from tools.fuzz.subject import make_subject

EXAMPLES = 10
"""Runs of the machine over one model."""
STEPS = 30
"""Rules in one of them."""


def run_round(case: Case, library: Library, number: int, counts: Counter[str], examples: int = EXAMPLES) -> None:
    """Try one case; what is found is shrunk to the fewest rules and raised.

    Args:
        case: the model.
        library: the native step's functions.
        number: the same one plays the same.
        counts: of what was done; added to.
        examples: runs of the machine.
    """
    options = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    kind: Any = type("Machine", (NativeMachine,), {"subject": make_subject(case, library), "counts": counts})
    try:
        run_state_machine_as_test(seed(number)(kind), settings=options)
    finally:
        del kind.subject  # its memory and threads: Hypothesis remembers every class
        gc.collect()
