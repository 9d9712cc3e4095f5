"""The three planes: which address offers which path, and what a path of another address is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from starlette.types import ASGIApp, Receive, Scope, Send

from handlers.errors import Problem
from handlers.nowhere import Nowhere
from handlers.paths import PathTable

Plane = Literal["business", "management", "metrics"]
PLANES: Final[tuple[Plane, ...]] = get_args(Plane)

LISTENER: Final = "mindspec.listener"
"""Key of the ASGI scope that holds the ``Served`` of the address that a request came to; absent: all planes."""


@dataclass(frozen=True, slots=True)
class Planes:
    """Where the planes besides the business plane listen, under MindIE's names in snake case."""

    management_host: str | None = None
    """MindIE's managementIpAddress; None: the business plane's address."""
    management_port: int | None = None
    """None: the business plane's port."""
    metrics_port: int | None = None
    """On the management plane's address; None: where the management plane listens."""
    allow_all_zero: bool = False
    """Whether an address that means every network of this machine (0.0.0.0, ::) may be listened on."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a plane listens."""

    host: str
    port: int
    """0: any free one."""


def addresses(host: str, port: int, planes: Planes) -> dict[Plane, Address]:
    """Where each plane listens; equal ones are one listener. Port 0 is equal only where nothing else was asked for."""
    business = Address(host, port)
    management, metrics = business, business
    if planes.management_host is not None or planes.management_port is not None:
        management = Address(
            planes.management_host or host, port if planes.management_port is None else planes.management_port
        )
    metrics = management
    if planes.metrics_port is not None:
        metrics = Address(management.host, planes.metrics_port)
    return {"business": business, "management": management, "metrics": metrics}


@dataclass(frozen=True, slots=True)
class Served:
    """What one listener offers, and where the rest is."""

    planes: frozenset[Plane]
    urls: Mapping[Plane, str]


class ListenerApp:
    """The application as one listener sees it."""

    def __init__(self, app: ASGIApp, served: Served) -> None:
        self._app = app
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note in the scope to which listener the request came."""
        scope[LISTENER] = self._served
        await self._app(scope, receive, send)


def offers(scope: Scope, plane: Plane) -> bool:
    """Whether the address that a request came to offers a plane."""
    served: Served | None = scope.get(LISTENER)
    return served is None or plane in served.planes


class PlaneTable:
    """The plane of each path of the contract."""

    def __init__(self, routes: Mapping[str, Any], others: Mapping[str, Plane]) -> None:
        """Args:
        routes: the paths of generated/routes.yaml; the parameters of a path stand in braces.
        others: paths that are no part of the contract.
        """
        self._planes: dict[str, str] = {
            path: next(str(operation["x-plane"]) for operation in methods.values()) for path, methods in routes.items()
        }
        self._planes |= others
        self._paths = PathTable(self._planes)

    def plane_of(self, path: str) -> str | None:
        """A plane's name, "all", or None for a path that there is not."""
        known = self._paths.find(path)
        return None if known is None else self._planes[known]


class PlanesMiddleware:
    """Answers a path of another plane with 404 and that plane's address."""

    def __init__(self, app: ASGIApp, *, table: PlaneTable, nowhere: Nowhere) -> None:
        self._app = app
        self._table = table
        self._nowhere = nowhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or raise its Problem."""
        served: Served | None = scope.get(LISTENER)
        if scope["type"] == "http" and served is not None and len(served.planes) < len(PLANES):
            path = scope["path"]
            plane = self._table.plane_of(path) if self._nowhere.instead(path) is None else None
            for elsewhere in PLANES:
                if plane == elsewhere and plane not in served.planes:
                    where = f"the {plane} address of this server, {served.urls[elsewhere]}"
                    raise Problem(404, "not_found", f"{path} is offered on {where}")
        await self._app(scope, receive, send)
