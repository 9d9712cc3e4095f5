"""Whether a changed keyword narrows or widens what a value may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from tools.generate.shapes import allowed_texts, refused_keys, refused_values

Limits = Mapping[str, Any]
BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LEAST: Final = ("minLength", "minItems")
_MOST: Final = ("maxLength", "maxItems")


def narrows(keyword: str, kind: str, old: Limits, new: Limits) -> bool:
    """Whether the new limits may refuse, by this keyword, something that the old ones allow.

    Args:
        keyword: one that differs between the two.
        kind: the JSON type that the limits are of.
    """
    if keyword in BOUNDS:
        (low, high), (new_low, new_high) = interval(kind, old), interval(kind, new)
        return new_low > low or new_high < high
    if keyword in _LEAST:
        return bool(new.get(keyword, 0) > old.get(keyword, 0))
    if keyword in _MOST:
        return bool(new.get(keyword, math.inf) < old.get(keyword, math.inf))
    if keyword in ("enum", "const"):
        before, after = _values(old), _values(new)
        return after is not None and (before is None or not before <= after)
    if keyword == "not":
        return not set(refused_values(new)) <= set(refused_values(old))
    if keyword == "propertyNames":
        return not set(refused_keys(new)) <= set(refused_keys(old))
    if keyword in ("x-ignore-case", "x-free-form"):
        return bool(old.get(keyword)) and not new.get(keyword)
    if keyword == "x-unbounded":
        return False  # a remark on bounds that are not there
    return keyword in new  # a pattern; one that is another may refuse anything


def interval(kind: str, limits: Limits) -> tuple[tuple[float, int], tuple[float, int]]:
    """The lowest and the highest number, each with a mark that orders open ends beyond closed ones."""
    lows = [(float("-inf"), 0)]
    highs = [(float("inf"), 0)]
    step = 1 if kind == "integer" else 0
    if "minimum" in limits:
        lows.append((limits["minimum"], 0))
    if "exclusiveMinimum" in limits:
        lows.append((limits["exclusiveMinimum"] + step, 1 - step))
    if "maximum" in limits:
        highs.append((limits["maximum"], 0))
    if "exclusiveMaximum" in limits:
        highs.append((limits["exclusiveMaximum"] - step, step - 1))
    return max(lows), min(highs)


def _values(limits: Limits) -> set[Any] | None:
    """The only values that there are; None where any may be sent."""
    if isinstance(limits.get("const"), bool):
        return {limits["const"]}
    return set(allowed_texts(limits)) or None
