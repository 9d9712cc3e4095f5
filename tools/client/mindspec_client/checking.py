"""Checks a request against the contract: every breach, or the model that it makes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .contract.base import ContractModel
from .contract.bodies import judge_body
from .contract.breach import Breach
from .contract.operations import WIRE
from .contract.rules import Deployment
from .endpoints import deployment, operation

__all__ = ["Breach", "Refused", "breaches", "validate"]


class Refused(ValueError):
    """A request that the contract refuses; ``breaches`` says why."""

    def __init__(self, breaches: list[Breach]) -> None:
        self.breaches = breaches
        super().__init__("; ".join(breach.message for breach in breaches))


def breaches(
    body: Mapping[str, Any] | str | bytes, endpoint: str = "chat", *, profile: str | Iterable[str] | Deployment = ()
) -> list[Breach]:
    """Every breach of a request; an empty list where the contract accepts it.

    Args:
        body: a parsed body, or its JSON text, which is then held to strict JSON.
        endpoint: ``chat``, ``completions``, an operation id or a path.
        profile: what kind of MindIE it goes to, such as ``"deepseek,prefix_cache"``; see :func:`profiles`.

    Raises:
        ValueError: the endpoint or a name in the profile is unknown.
    """
    return _judge(body, endpoint, deployment(profile))[1]


def validate(
    body: Mapping[str, Any] | str | bytes, endpoint: str = "chat", *, profile: str | Iterable[str] | Deployment = ()
) -> ContractModel:
    """The request as a model, normalised; arguments as of :func:`breaches`.

    Raises:
        Refused: the contract refuses it; carries every breach.
        ValueError: the endpoint or a name in the profile is unknown.
    """
    model, found = _judge(body, endpoint, deployment(profile))
    if model is None:
        raise Refused(found)
    return model


def _judge(
    body: Mapping[str, Any] | str | bytes, endpoint: str, server: Deployment
) -> tuple[ContractModel | None, list[Breach]]:
    if isinstance(body, str | bytes):
        try:
            body = _read(body)
        except (ValueError, RecursionError) as error:
            return None, [Breach("json_invalid", None, f"the body is not valid JSON: {error}", "Send strict JSON.")]
    return judge_body(WIRE[operation(endpoint).id], body, server)


def _read(text: str | bytes) -> Any:
    """Strict JSON in UTF-8, as a server reads it: no key twice, no NaN, no half of a surrogate pair."""
    decoded = text.decode("utf-8") if isinstance(text, bytes) else text
    body = json.loads(decoded, object_pairs_hook=_once, parse_constant=_no_constant)
    if "\\u" in decoded:
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    return body


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        names = [name for name, _ in members]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
