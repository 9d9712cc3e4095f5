"""HTTP/1.1 on one connection: uvicorn's protocol, with deadlines, and with an answer for whatever is refused."""

from __future__ import annotations

import asyncio
import sys
import time
from http import HTTPStatus
from typing import Any, Final

import h11
from pydantic_core import to_json
from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from handlers.errors import Problem
from handlers.limits import headers_too_large
from handlers.link_transport import LinkTransport
from handlers.links import Links
from handlers.record import new_uuid

CLOSE: Final = "mindspec.close"
"""The extension of an ASGI scope whose ``now`` ends the connection, whatever has been said on it."""
_CLOSE: Final = {"Connection": "close"}
_HEAD: Final = "head"
_LAST_LINGER_S: Final = 0.5
"""How long connections are read when the server ends."""


class LinkProtocol(H11Protocol):
    """One connection.

    What comes before a request is known is answered here; what is wrong with a body that is being read becomes a
    Problem where the application reads it, so that it is logged and counted as any other.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        links: Links,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._links = links
        self._limits = links.context.limits
        self._application = self.app
        self.app = self._serve
        self._served = False
        self._over = False
        """Nothing that comes is looked at any more."""
        self._broken: Problem | None = None
        """What is wrong with the body that is being read."""
        self._phase: object = None
        """What has a deadline: ``_HEAD``, or the request whose body is to come."""
        self._phase_ends_s = 0.0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve, unless there are too many."""
        assert isinstance(transport, asyncio.Transport)
        limits = self._limits
        link = self._link = LinkTransport(
            transport, self.loop, write_timeout_s=limits.write_timeout_s, linger_s=self._linger_s
        )
        link.limit_send_buffer(limits.send_buffer_bytes)
        super().connection_made(link)
        self.flow = self._flow = _HeldTime(link)
        if self._links.stopping:
            self._refuse(self._links.stopped)
        elif self._links.full:
            self._refuse(self._links.overfull)
        else:
            self._links.served += 1
            self._served = True
            self._time(_HEAD, limits.header_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._link.lost()
        self._time(None)
        self._links.served -= self._served
        self._links.forget(self._link)
        self._served = False
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Read on, within the deadlines."""
        if not self._over:
            super().data_received(data)
            self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for what is no HTTP: answer in the contract's form."""
        error = sys.exception()
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            problem = headers_too_large(self._limits.max_header_bytes)
        else:
            problem = Problem(400, "malformed_http", "This is not an HTTP/1.1 request that can be read", headers=_CLOSE)
        self._fail(problem)

    def shutdown(self) -> None:
        """Called by uvicorn when the server ends: let the answer finish; a connection without a request is told."""
        if self._over:
            return
        if self._idle:
            # A kept connection expects no answer, but its next request may be on its way.
            self._refuse(self._links.stopped, counted=self._phase is _HEAD)
        else:
            super().shutdown()

    @property
    def _idle(self) -> bool:
        """No request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        """Find out what is being waited for."""
        if self._over or self.transport.is_closing():
            self._time(None)
            return
        their = self.conn.their_state
        if their is h11.SEND_BODY:
            self._time(self.cycle, self._limits.body_timeout_s)
        elif their is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            self._time(_HEAD, self._limits.header_timeout_s)
        else:
            self._time(None)

    def _time(self, phase: object, timeout_s: float = 0.0) -> None:
        """Begin a phase, unless it has begun already."""
        if phase is self._phase:
            return
        self._phase = phase
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if phase is not None:
            self._phase_ends_s = time.monotonic() - self._flow.held_s + timeout_s
            self._deadline = self.loop.call_later(timeout_s, self._check_deadline)

    def _check_deadline(self) -> None:
        left_s = self._phase_ends_s + self._flow.held_s - time.monotonic()
        if left_s > 0:  # the server itself did not read for a while
            self._deadline = self.loop.call_later(max(left_s, 0.01), self._check_deadline)
            return
        self._deadline = None
        if self._phase is _HEAD:
            limit_s, what = self._limits.header_timeout_s, "headers of a request (its setting headerTimeout)"
        else:
            limit_s, what = self._limits.body_timeout_s, "body of the request (its setting bodyTimeout)"
        message = f"The server waited {limit_s:g} s for the {what}, and it is not whole"
        self._fail(Problem(408, "request_timeout", message, headers=_CLOSE))

    def _fail(self, problem: Problem) -> None:
        """Answer what has come so far, if it has no answer yet, and read no more."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or (cycle.response_complete and self._phase is not cycle):
            self._refuse(problem)
        elif cycle.response_started:
            # It has its answer, whatever else comes.
            self._end()
            cycle.keep_alive = False
            if cycle.response_complete:
                self.transport.close()
        else:
            self._end()
            self._broken = problem
            cycle.keep_alive = False
            cycle.message_event.set()

    def _refuse(self, problem: Problem, *, counted: bool = True) -> None:
        """Answer without the application, and close."""
        self._end()
        self._links.tell(self._link)
        context = self._links.context
        body = to_json(problem.body(openai_form=context.openai_form()))
        status = HTTPStatus(problem.status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "RequestUUID": new_uuid()}
        lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
        lines += [f"{name}: {value}" for name, value in {**headers, **problem.headers, **_CLOSE}.items()]
        lines += [f"{name.decode()}: {value.decode()}" for name, value in self.server_state.default_headers]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        if counted:
            context.refused(problem.status)
        self.transport.close()

    def _end(self) -> None:
        self._over = True
        self._time(None)
        self._unset_keepalive_if_required()

    def _linger_s(self) -> float:
        """How long to read on at the end: not at all after a request that has come whole."""
        if not self._over and self.conn.their_state not in (h11.SEND_BODY, h11.ERROR):
            return 0.0
        return min(_LAST_LINGER_S, self._limits.linger_s) if self._links.stopping else self._limits.linger_s

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, told of what is wrong with its body."""

        async def checked() -> Message:
            message = None if self._broken is not None else await receive()
            if self._broken is not None:
                raise self._broken
            assert message is not None
            return message

        scope.setdefault("extensions", {})[CLOSE] = {"now": self._link.close_now}
        await self._application(scope, checked, send)


class _HeldTime(FlowControl):
    """Counts the time in which the server did not read."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._held_s = 0.0
        self._held_from_s: float | None = None

    @property
    def held_s(self) -> float:
        """Up to now."""
        since_s = 0.0 if self._held_from_s is None else time.monotonic() - self._held_from_s
        return self._held_s + since_s

    def pause_reading(self) -> None:
        """Called by uvicorn."""
        if self._held_from_s is None:
            self._held_from_s = time.monotonic()
        super().pause_reading()

    def resume_reading(self) -> None:
        """Called by uvicorn."""
        self._held_s = self.held_s
        self._held_from_s = None
        super().resume_reading()
