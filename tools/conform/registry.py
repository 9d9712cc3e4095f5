"""All laws, in the order of the report, and which of them a run is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from tools.conform.cases import Cases
from tools.conform.law import Law
from tools.conform.laws import (
    bytes as bytes_,
)
from tools.conform.laws import (
    calls,
    choices,
    corpus,
    counting,
    faults,
    forms,
    grids,
    length,
    limits,
    probabilities,
    same,
    sampling,
    seeds,
    service,
    stop_ids,
    stops,
)


def all_laws(cases: Cases) -> list[Law]:
    """Every law for one deployment; ids are unique."""
    fixed = (service, bytes_, limits, forms, length, same, seeds, stops, stop_ids, choices, probabilities, sampling)
    found = [law for module in (*fixed, counting, calls, faults) for law in module.LAWS]
    return [*found, *corpus.Corpus(cases).laws(), *grids.laws(cases)]


def chosen(laws: Sequence[Law], only: Sequence[str], skip: Sequence[str]) -> list[Law]:
    """Those that a pattern of ``only`` names (any, where there is none) and no pattern of ``skip``.

    A pattern is an id or its beginning up to a dot, and may hold ``*``. Raises ValueError for one that names no law.
    """
    for pattern in (*only, *skip):
        if not any(_fits(law, pattern) for law in laws):
            raise ValueError(f"no law is called {pattern!r}; --frozen-list shows all")
    wanted = [law for law in laws if not only or any(_fits(law, pattern) for pattern in only)]
    return [law for law in wanted if not any(_fits(law, pattern) for pattern in skip)]


def _fits(law: Law, pattern: str) -> bool:
    return law.id == pattern or fnmatchcase(law.id, f"{pattern}.*") or fnmatchcase(law.id, pattern)


def listed(laws: Sequence[Law]) -> str:
    """One line a law, and a digest of them all: two lists with one digest hold the same laws."""
    lines = [f"{law.id}\t{law.sentence}\t{law.source}" for law in laws]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return "\n".join([*lines, f"{len(lines)} laws, digest {digest}"])
