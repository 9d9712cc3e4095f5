"""Which operation of the contract a request is for."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote, urlsplit

from generated.operations import WIRE, Wire
from handlers.paths import PathTable
from tools.laws.breach import Breach
from tools.laws.table import broken

MOST_PREFIX: Final = 8
"""Leading parts of a path that may belong to a base address, such as those of ``/openai/deployments/v1``."""


class Routes:
    """The contract's operations by method and path."""

    def __init__(self) -> None:
        self._by_path: dict[str, dict[str, Wire]] = {}
        for wire in WIRE.values():
            self._by_path.setdefault(wire.path, {})[wire.method] = wire
        self._table = PathTable(self._by_path)

    def find(self, method: str, target: str) -> Wire | Breach | None:
        """The operation of a path or address; a Breach where the path takes other methods; None where it is unknown.

        A base address may stand before the path of an operation that takes a body. What a browser asks before a
        request (OPTIONS) is for no operation.
        """
        if method.upper() == "OPTIONS":
            return None
        path = path_of(target)
        known = self._table.find(path)
        for _ in range(MOST_PREFIX):
            if known is not None:
                break
            path = "/" + path.lstrip("/").partition("/")[2]
            known = self._table.find(path)
            if known is not None and "POST" not in self._by_path[known]:
                known = None
        if known is None:
            return None
        methods = self._by_path[known]
        if method.upper() in methods:
            return methods[method.upper()]
        return broken("method_not_allowed", None, f"{known} was asked with {method}; it takes {', '.join(methods)}")


def path_of(target: str) -> str:
    """The path of a path or address, as the server sees it; ``/`` where it is neither."""
    try:
        return unquote(urlsplit(target).path) or "/"
    except ValueError:
        return "/"


def host_of(target: str) -> str:
    """The host and port of an address; empty for a path."""
    try:
        return urlsplit(target).netloc
    except ValueError:
        return ""
