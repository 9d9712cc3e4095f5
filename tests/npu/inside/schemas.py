"""The operators' schemas, read out of the libraries of a torch_npu that need not be importable."""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch
from stand_in import package


def operator_schemas(version: str, names: Iterable[str]) -> dict[str, torch.FunctionSchema]:
    """Per operator the schema that ``libtorch_npu.so`` registers it with.

    Raises:
        AssertionError: the library has none, or two that differ, of some name.
    """
    library = (package(version) / "torch_npu" / "lib" / "libtorch_npu.so").read_bytes()
    found = {}
    for name in names:
        texts = {text.decode() for text in re.findall(rb"\b" + name.encode() + rb"\([ -~]*\) -> [ -~]+", library)}
        assert len(texts) == 1, f"{version} has {len(texts)} schemas of {name}"
        found[name] = torch._C.parse_schema(texts.pop())
    return found
