"""Turns the raw bytes of a request into its generated model, exactly once, or into the first failure."""

from __future__ import annotations

import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from pydantic import ValidationError
from starlette.types import Receive, Scope

from generated import models, problems
from generated.base import ContractModel
from generated.rules import Deployment
from handlers import ignored, strict_json
from handlers.errors import refused

BODY: Final = "mindspec.body"
"""Key of the ASGI scope that holds the validated model."""
BODY_BYTES: Final = "mindspec.body_bytes"
"""Key of the ASGI scope that holds the size of the body."""
IGNORED: Final = "mindspec.ignored"
"""Key of the ASGI scope that holds the X-Ignored-Parameters value, where there is one."""

_LARGE_BYTES: Final = 100_000


class Rules(Protocol):
    """What validation asks of the running service; read anew for each request, since both may be reloaded."""

    @property
    def json_limits(self) -> strict_json.JsonLimits:
        """How large the structure of a body may be."""
        ...

    @property
    def deployment(self) -> Deployment:
        """The deployment profile that the contract's rules ask about."""
        ...


def validate(raw: bytes, model: type[ContractModel], rules: Rules) -> ContractModel:
    """Check ``raw`` in the contract's order: shape, JSON, fields, rules.

    Raises:
        Problem: 422 with the first failure.
    """
    strict_json.check_shape(raw, rules.json_limits)
    with _no_collection(len(raw)):
        parsed = strict_json.parse(raw)
        try:
            return model.model_validate(parsed, context=rules.deployment)
        except ValidationError as error:
            found = problems.explain(error, parsed, model.__name__, rules.deployment)
            raise refused(found.code, found.message, found.param) from None


@contextmanager
def _no_collection(size: int) -> Generator[None, None, None]:
    """Pause the garbage collector while a large body becomes objects, none of which is garbage yet.

    Looking at a growing million of them again and again took three fifths of the time for 4 MB of small objects.
    """
    if size < _LARGE_BYTES or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class BodyValidator:
    """Connexion's body validator for one schema: reads the body, leaves the model in the ASGI scope.

    Built once per schema. The body is not replayed: handlers take the model, never the bytes.
    """

    def __init__(self, model: type[ContractModel], rules: Rules) -> None:
        self._model = model
        self._rules = rules

    async def wrap_receive(self, receive: Receive, *, scope: Scope) -> tuple[Receive, Scope]:
        """Read and validate; what is returned receives only the client's disconnect."""
        message = await receive()
        raw: bytes = message.get("body", b"")
        if message.get("more_body"):
            chunks = [raw]
            while message.get("more_body"):
                message = await receive()
                chunks.append(message.get("body", b""))
            raw = b"".join(chunks)
        body = validate(raw, self._model, self._rules)
        scope[BODY] = body
        scope[BODY_BYTES] = len(raw)
        scope[IGNORED] = ignored.header_value(body)
        return receive, scope


class BodyValidators:
    """The ``validator_map`` entry for JSON bodies: hands Connexion the validator that a schema's x-model names."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._built: dict[str, BodyValidator] = {}

    def __call__(self, *, schema: Mapping[str, Any], **_: object) -> BodyValidator:
        """Connexion calls this once per request with the operation's schema."""
        name: str = schema["x-model"]
        found = self._built.get(name)
        if found is None:
            model: type[ContractModel] = getattr(models, name)
            found = self._built[name] = BodyValidator(model, self._rules)
        return found
