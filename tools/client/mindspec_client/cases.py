"""The boundary corpus as Python data; the files are ``contract/corpus.json`` and ``contract/corpus.schema.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from .contract.corpus import Case, load_corpus
from .contract.values import expand
from .endpoints import deployment, operation

PATH: Final = Path(__file__).resolve().parent / "contract" / "corpus.json"
SCHEMA_PATH: Final = PATH.with_name("corpus.schema.json")

__all__ = ["PATH", "SCHEMA_PATH", "Case", "Corpus", "corpus"]


@dataclass(frozen=True)
class Corpus:
    """All cases of one version of the contract."""

    version: str
    """The spec's version, a plus, and a hash of the cases: equal versions, equal cases."""
    cases: tuple[Case, ...]
    """As in the file: long strings and lists are ``{"repeat", "times"}``."""

    def of(self, endpoint: str, *, group: str | None = None, profile: Any = None) -> Iterator[Case]:
        """The cases of an endpoint with their bodies written out, those that are sent as they are.

        Args:
            endpoint: as everywhere in this package.
            group: only ``inside``, ``outside``, ``rule-ok`` or ``rule-bad``.
            profile: only the cases that need just this profile; None for all.
        """
        wanted = operation(endpoint).id
        for case in self.cases:
            fits = profile is None or deployment(profile) == self.deployment(case)
            if case.operation == wanted and group in (None, case.group) and fits:
                yield replace(case, body=expand(case.body))

    @staticmethod
    def deployment(case: Case) -> Any:
        """The deployment that a case is about."""
        from .contract.committed import PACKAGE

        return PACKAGE.deployment(**case.deployment)


@lru_cache(maxsize=1)
def corpus() -> Corpus:
    """The corpus of this version, read once."""
    return Corpus(json.loads(PATH.read_text(encoding="utf-8"))["version"], tuple(load_corpus(PATH)))
