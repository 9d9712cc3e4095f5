"""The layer that asks for an API key, before anything of a request is looked at."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from handlers.api_keys import bearer
from handlers.errors import Problem
from handlers.record import record_of
from handlers.service import Service

_CHALLENGE: Final = 'Bearer realm="mindspec"'
_MISSING: Final = "This server needs an API key; send it in the header Authorization, as Bearer and the key"
_WRONG: Final = "The API key of this request is none of this server's"


class AccessMiddleware:
    """Answers requests without a key with 401, and notes whose key the others have. Their bodies are not read."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request; other scope types pass untouched."""
        keys = self._service.keys
        if scope["type"] != "http" or not keys.needed:
            await self._app(scope, receive, send)
            return
        record = record_of(scope)
        given = bearer(scope["headers"])
        # Also for a missing key, and on open paths: the same work for all.
        record.key_name = keys.owner_of(given)
        if record.key_name is not None or keys.is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        record.problem = refusal(given)
        response = record.problem.response(openai_form=self._service.openai_form)
        await response(scope, receive, send)


def refusal(given: bytes) -> Problem:
    """The answer to a request whose key is missing or unknown."""
    if not given:
        return Problem(401, "missing_api_key", _MISSING, headers={"WWW-Authenticate": _CHALLENGE})
    challenge = f'{_CHALLENGE}, error="invalid_token"'
    return Problem(401, "invalid_api_key", _WRONG, headers={"WWW-Authenticate": challenge})
