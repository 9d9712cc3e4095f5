"""Random valid requests without a test around them: the same ones for the same spec."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import InvalidArgument, Unsatisfiable

from tools.contract.strategy import valid_requests
from tools.diff.version import Version


def drawn(version: Version, operation: str, deployment: Any, count: int) -> list[dict[str, Any]]:
    """Up to so many bodies that an operation of a version accepts under one of its deployments."""
    found: list[dict[str, Any]] = []
    bodies = valid_requests(operation, deployment, contract=version.contract, package=version.package)

    @settings(
        max_examples=count, database=None, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )  # fmt: skip
    @given(bodies)
    def collect(body: dict[str, Any]) -> None:
        found.append(body)

    if count > 0:
        # Bounds that contradict each other leave nothing to draw from; the corpus has what there is.
        with suppress(InvalidArgument, Unsatisfiable):
            collect()
    return found
