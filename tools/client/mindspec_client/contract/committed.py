"""The contract of this version: its spec, read once, and the package that was generated from it. Do not edit."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Final

from .document import Document
from .package import Package
from .shapes import Contract, read

SPEC: Final = Path(__file__).resolve().parent / "spec.json"
PACKAGE: Final = Package(__name__.rpartition(".")[0])


@lru_cache(maxsize=4)
def contract_of(spec: Path = SPEC) -> Contract:
    """The contract of a spec in JSON, read once."""
    return read(Document(str(spec), json.loads(spec.read_text(encoding="utf-8"))))
