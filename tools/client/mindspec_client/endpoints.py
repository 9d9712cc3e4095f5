"""The names that callers use: endpoints of the API, and profiles of MindIE deployments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .contract.committed import contract_of
from .contract.rules import RULES, Deployment
from .contract.shapes import Operation

SHORT: Final = {"chat": "create_chat_completion", "completions": "create_completion"}
"""Short names of the two endpoints that everybody uses."""


def endpoints() -> list[str]:
    """Every name that ``endpoint`` may be: the two short ones, operation ids, paths."""
    taking = [operation for operation in contract_of().operations if operation.request]
    return [*SHORT, *(operation.id for operation in taking), *(operation.path for operation in taking)]


def operation(endpoint: str) -> Operation:
    """The operation of an endpoint.

    Raises:
        ValueError: no endpoint that takes a body has this name; the message lists those that do.
    """
    wanted = SHORT.get(endpoint, endpoint)
    for known in contract_of().operations:
        if known.request and wanted in (known.id, known.path):
            return known
    raise ValueError(f"endpoint was given {endpoint!r}; it must be one of {', '.join(endpoints())}")


def profiles() -> list[str]:
    """Every name that a profile may have: features of MindIE's engine, and families of models."""
    features = {name for rule in RULES.values() for name in rule.profile.features}
    return sorted(features | _families())


def deployment(profile: str | Iterable[str] | Deployment = ()) -> Deployment:
    """The deployment that a profile describes, such as ``"deepseek,prefix_cache"`` or ``["mtp"]``.

    Raises:
        ValueError: a name is unknown, or two families of models are named; the message says which are known.
    """
    if isinstance(profile, Deployment):
        return profile
    names = [name.strip() for name in (profile.split(",") if isinstance(profile, str) else profile)]
    names = [name for name in names if name]
    for name in names:
        if name not in profiles():
            raise ValueError(f"profile was given {name!r}; it must be made of {', '.join(profiles())}")
    families = sorted(set(names) & _families())
    if len(families) > 1:
        raise ValueError(f"profile was given the model families {' and '.join(families)}; name one of them")
    return Deployment(features=frozenset(names) - _families(), model_type=families[0] if families else "")


def _families() -> set[str]:
    return {rule.profile.model_type for rule in RULES.values() if rule.profile.model_type}
