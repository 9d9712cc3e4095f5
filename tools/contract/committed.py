"""The committed contract: the spec of this tree, read once, and the package that was generated from it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from tools.contract.package import Package
from tools.generate.load import load
from tools.generate.shapes import Contract, read

SPEC: Final = Path(__file__).resolve().parent.parent.parent / "spec" / "openapi.yaml"
PACKAGE: Final = Package("generated")


@lru_cache(maxsize=4)
def contract_of(spec: Path = SPEC) -> Contract:
    """The contract of a spec file, read once."""
    return read(load(spec))
