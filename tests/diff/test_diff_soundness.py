"""The diff never calls compatible what requests or answers, drawn without it, judge otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from soundness import SPEC, Tally, findings
from spec_mutations import KINDS

BASE = Path(__file__).resolve().parent / "base.yaml"


@pytest.mark.parametrize(
    ("spec", "mutations", "requests", "drawn"), [(BASE, 40, 150, 10), (SPEC, 3, 150, 10)], ids=["small", "own"]
)
def test_no_mutation_is_called_compatible_that_changes_a_verdict(
    spec: Path, mutations: int, requests: int, drawn: int
) -> None:
    """Random changes of every kind of a small spec, some of the contract's own; most breaks are shown by an example."""
    tally, wrong = Tally(), []
    for finding in findings(4, mutations, requests, drawn, spec):
        if tally.add(finding) == "UNSOUND":
            wrong.append((finding.mutation.what, finding.unsound, finding.first))
    print(tally)
    assert wrong == []
    assert tally.shown >= 0.9 * tally.said
    assert len(tally.kinds) == min(len(KINDS), mutations)
