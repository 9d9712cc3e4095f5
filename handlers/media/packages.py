"""The packages that read media, which a deployment for text only does not need."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

PACKAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PIL": "pillow",
        "av": "av",
        "soundfile": "soundfile",
        "soxr": "soxr",
        "httpcore": "httpcore",
        "torchvision": "torchvision",
    }
)
"""What is imported, and the package that has it: those of the extra `media`."""


def missing_packages() -> list[str]:
    """Those that are not installed; none is imported for that."""
    return [package for module, package in PACKAGES.items() if find_spec(module) is None]
