"""Writes the X-Ignored-Parameters header: the members of a request that the contract does not know."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final
from urllib.parse import quote

from generated.base import ContractModel, unknown
from generated.problems import render_path
from generated.rules import Path

HEADER: Final = "X-Ignored-Parameters"
MAX_NAMES: Final = 20
MAX_BYTES: Final = 1024
ELLIPSIS: Final = "..."
_SEPARATOR: Final = ", "
_SAFE: Final = "_.-"


def header_value(body: ContractModel) -> str | None:
    """The header's value for ``body``, or None where every member was understood."""
    return written(unknown(body))


def written(paths: Iterable[Path]) -> str | None:
    """Paths such as ``messages[0].name``, separated by commas.

    All but [A-Za-z0-9_.-] is percent-encoded as UTF-8, the brackets of an index too, so decoding a name gives its
    path. At most 20 names and 1 KiB, then an ellipsis of three dots.
    """
    first = list(islice(paths, MAX_NAMES + 1))
    if not first:
        return None
    kept: list[str] = []
    size = len(ELLIPSIS)
    for path in first[:MAX_NAMES]:
        name = _encoded(path)
        size += len(name) + len(_SEPARATOR)
        if size > MAX_BYTES:
            break
        kept.append(name)
    if len(kept) < len(first):
        kept.append(ELLIPSIS)
    return _SEPARATOR.join(kept)


def _encoded(path: Path) -> str:
    # A member whose name is empty shows as two quotes: a header value that ends in a blank is refused by h11.
    return quote(render_path(path) or '""', safe=_SAFE)
