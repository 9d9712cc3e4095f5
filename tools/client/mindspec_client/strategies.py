"""Hypothesis strategies: requests that the contract accepts, and requests that it refuses for exactly one reason."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from .contract import invalid, strategy
from .contract.invalid import Invalid
from .contract.rules import Deployment
from .endpoints import deployment, operation

__all__ = ["Invalid", "invalid_requests", "valid_requests"]


def valid_requests(
    endpoint: str = "chat", *, profile: str | Iterable[str] | Deployment = ()
) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies that an endpoint accepts under a profile.

    Raises:
        ValueError: the endpoint or a name in the profile is unknown.
    """
    return _valid(operation(endpoint).id, deployment(profile))


def invalid_requests(
    endpoint: str = "chat", *, profile: str | Iterable[str] | Deployment = ()
) -> st.SearchStrategy[Invalid]:
    """Bodies with one field outside its limits or one rule broken, and with nothing else wrong.

    Beside ``body`` each has the ``code`` and ``param`` of the refusal that is due, and ``valid``, the accepted request
    that differs from it in this one point.

    Raises:
        ValueError: the endpoint or a name in the profile is unknown.
    """
    return _invalid(operation(endpoint).id, deployment(profile))


# Making one takes up to a second: every rule's witnesses are searched for.
@lru_cache(maxsize=32)
def _valid(operation_id: str, server: Deployment) -> st.SearchStrategy[dict[str, Any]]:
    return strategy.valid_requests(operation_id, server)


@lru_cache(maxsize=32)
def _invalid(operation_id: str, server: Deployment) -> st.SearchStrategy[Invalid]:
    return invalid.invalid_requests(operation_id, server)
