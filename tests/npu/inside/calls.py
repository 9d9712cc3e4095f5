"""Writes down every call of a torch_npu operator that the engine makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch_npu
from kernels import KERNELS


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One call."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


@contextmanager
def recorded() -> Iterator[list[OperatorCall]]:
    """The calls made inside."""
    calls: list[OperatorCall] = []

    def wrap(name: str, original: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            calls.append(OperatorCall(name, arguments, keywords))
            return original(*arguments, **keywords)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in KERNELS:
            patch.setattr(torch_npu, name, wrap(name, getattr(torch_npu, name)))
        yield calls
