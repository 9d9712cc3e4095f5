"""The contract of the repository's spec and searches over it, shared by the tests of the tool chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.contract.package import Judge, Package
from tools.contract.search import Search
from tools.generate.load import load
from tools.generate.shapes import Contract, read

ROOT = Path(__file__).resolve().parent.parent.parent
SPEC = ROOT / "spec" / "openapi.yaml"


@pytest.fixture(scope="session")
def contract() -> Contract:
    """The committed spec, read."""
    return read(load(SPEC))


@pytest.fixture(scope="session")
def searches(contract: Contract) -> list[Search]:
    """One search for each request model, judged by the committed generated package."""
    return [Search(contract, Judge(Package("generated"), request)) for request in contract.requests]
