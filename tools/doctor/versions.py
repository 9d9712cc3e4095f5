"""Which versions of torch, torch_npu and CANN go together.

From the compatibility tables in the release notes of TorchNPU 26.0 to 26.2 and in the README of each torch_npu: a
torch_npu is built for one torch, and is tested with one CANN. Versions 26.0 to 26.2 of it (torch_npu 2.10.0 and later)
work with every CANN from 8.5 to 9.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Pair:
    """A torch_npu with the torch that it is built for and the CANN that it is released with."""

    torch: str
    torch_npu: str
    cann: str


PAIRS: Final = (
    Pair("2.13.0", "2.13.0", "9.2.0"),
    Pair("2.12.0", "2.12.0.post3", "9.2.0"),
    Pair("2.11.0", "2.11.0.post3", "9.2.0"),
    Pair("2.10.0", "2.10.0.post4", "9.1.0"),
)
"""The newest first."""
OLDEST_TORCH_NPU: Final = (2, 10)
"""What the engine's calls of operators are tested with."""
OLDEST_CANN: Final = (8, 5)
NEWEST_CANN: Final = (9, 2)


def numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (2, 10, 0) of 2.10.0.post4 and 2.10.0+cpu, (8, 3) of 8.3.RC1."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in found[0].split(".")) if found else ()


def pair_of(torch: str) -> Pair | None:
    """The pair for an installed torch."""
    return next((pair for pair in PAIRS if numbers(pair.torch) == numbers(torch)), None)
