"""The instruction sets that the native step is built for, and which of them this processor has."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

from engine.types import LoadFailureCause


class NativeUnavailable(Exception):
    """The native step cannot run here; the message is a sentence that says why."""

    load_failure_cause: LoadFailureCause = "device"


@dataclass(frozen=True, slots=True)
class Variant:
    """One build of the native step."""

    name: str
    needs: frozenset[str]
    """Feature names as Linux lists them."""
    options: tuple[str, ...]
    """For the compiler. Each is named: a library may be built on one machine and run on another."""


def _variant(name: str, needs: str, options: str) -> Variant:
    return Variant(name, frozenset(needs.split()), tuple(options.split()))


_AVX512 = "avx512f avx512bw avx512dq avx512vl fma"
_AVX512_OPTIONS = "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma"

VARIANTS = (
    _variant("avx512_bf16", f"{_AVX512} avx512_bf16 avx512_vnni", f"{_AVX512_OPTIONS} -mavx512bf16 -mavx512vnni"),
    _variant("avx512", _AVX512, _AVX512_OPTIONS),
    _variant("avx2", "avx2 fma", "-mavx2 -mfma"),
)
"""The best first. Without bfloat16 products in hardware the same source multiplies both halves of a pair in float32."""


_SANITISERS = ("-O2", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def sanitised(variant: Variant) -> Variant:
    """The same source with every read and write watched: what is wrong ends the process, with a report.

    For tests only. The process that loads such a library must have libasan loaded first (LD_PRELOAD).
    """
    options = (*variant.options, *_SANITISERS, "-DMINDSPEC_SANITISED")
    return Variant(f"{variant.name}-sanitised", variant.needs, options)


def choose(flags: frozenset[str], name: str | None = None) -> Variant:
    """The best variant for a processor with these feature names, or the one that is asked for by name.

    Raises:
        NativeUnavailable: the processor has none, or not that one.
    """
    if not sys.platform.startswith("linux") or platform.machine() not in ("x86_64", "AMD64"):
        raise NativeUnavailable(f"it is made for Linux on x86-64, and this is {sys.platform} on {platform.machine()}.")
    names = [variant.name for variant in VARIANTS]
    if name is not None and name not in names:
        raise NativeUnavailable(f"there is no variant {name!r}; there are {', '.join(names)}.")
    for variant in VARIANTS:
        if name in (None, variant.name) and variant.needs <= flags:
            return variant
    if name is not None:
        missing = next(variant.needs for variant in VARIANTS if variant.name == name) - flags
        raise NativeUnavailable(f"this processor lacks {', '.join(sorted(missing))}, which {name} needs.")
    raise NativeUnavailable("this processor has neither AVX-512 nor AVX2.")
