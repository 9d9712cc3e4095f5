"""Names the members of a request that the contract does not know, for the X-Ignored-Parameters header."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final
from urllib.parse import quote

from pydantic import BaseModel

HEADER: Final = "X-Ignored-Parameters"
MAX_NAMES = 20
MAX_BYTES = 1024
ELLIPSIS: Final = "..."
_SAFE: Final = "_.-"


def header_value(body: BaseModel) -> str | None:
    """The header's value for ``body``, or None where every member was understood.

    Paths look like ``messages[0].name``. Member names are percent-encoded as UTF-8 outside [A-Za-z0-9_.-]; the
    brackets of an index are ours. At most 20 names and 1 KiB, then an ellipsis of three dots.
    """
    names = list(islice(_unknown(body, ""), MAX_NAMES + 1))
    if not names:
        return None
    kept: list[str] = []
    size = 0
    for name in names[:MAX_NAMES]:
        size += len(name) + 2  # the separator too
        if size + len(ELLIPSIS) > MAX_BYTES:
            break
        kept.append(name)
    if len(kept) < len(names):
        kept.append(ELLIPSIS)
    return ", ".join(kept)


def _unknown(model: BaseModel, prefix: str) -> Iterator[str]:
    """Paths of unknown members, the model's own first; free-form objects are plain dicts and are not entered."""
    for key in model.__pydantic_extra__ or ():
        yield prefix + quote(key, safe=_SAFE)
    for key in model.model_fields_set:
        yield from _inside(model.__dict__.get(key), prefix + key)


def _inside(value: object, path: str) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from _unknown(value, path + ".")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, BaseModel):
                yield from _unknown(item, f"{path}[{index}].")
