"""CEL conditions of a script, compiled by the generator's own compiler for the request models of the spec."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from generated import rules
from generated.rules import Deployment
from handlers.sampling import AnyRequest
from tools.generate.load import load
from tools.mock.conditions import ENDPOINTS, BadCondition, Condition

if TYPE_CHECKING:
    from tools.generate.shapes import Contract

_HELPERS: Final = ("matches", "lower_ascii", "distinct")
"""Functions of the rules' module that compiled conditions call."""
_NEEDED: Final = "CEL conditions need the package cel-python; install mindspec[script], or use fields"


def cel_condition(cel: str, endpoint: str | None, server: Deployment) -> Condition:
    """Holds where the expression is true; a request on which it fails, as where a member is absent, does not fit.

    Without an endpoint it is compiled for both, and holds for the requests of those that have its members.

    Raises:
        BadCondition: it cannot be compiled, or cel-python is not there.
    """
    try:
        from tools.generate.cel import CelError, compile_rule
    except ImportError:
        raise BadCondition(_NEEDED) from None
    compiled: dict[type[AnyRequest], CodeType] = {}
    reason = ""
    for name, model in ENDPOINTS:
        if endpoint not in (None, name):
            continue
        try:
            source = compile_rule(cel, _contract(), model.__name__).source
            compiled[model] = compile(source, "<cel>", "eval")
        except CelError as error:
            reason = reason or str(error)
        except (RecursionError, SyntaxError, MemoryError):
            reason = "it nests too deep to be compiled"
    if not compiled:
        raise BadCondition(reason)
    known: dict[str, Any] = {name: getattr(rules, name) for name in _HELPERS}

    def holds(body: AnyRequest) -> bool:
        code = compiled.get(type(body))
        try:
            return code is not None and bool(eval(code, {**known, "self": body, "server": server}))
        except (TypeError, AttributeError, KeyError, IndexError, ValueError):
            return False

    return holds


@lru_cache(maxsize=1)
def _contract() -> Contract:
    from tools.generate.shapes import read

    beside = Path(__file__).resolve().parents[2] / "spec" / "openapi.yaml"
    return read(load(beside if beside.is_file() else Path(str(files("generated") / "spec" / "openapi.yaml"))))
