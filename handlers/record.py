"""What is known of one HTTP request: its ids, and what becomes of it; the log and the metrics are made of this."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import getrandbits
from typing import Final

from pydantic_core import to_json
from starlette.types import Scope

from engine.generation import Generation
from engine.types import ChoiceDelta, MediaItem
from generated.base import ContractModel
from handlers.errors import Problem
from handlers.media.shown import shown_messages

RECORD: Final = "mindspec.record"
"""Key of the ASGI scope that holds the ``Record``."""

CLIENT_GONE: Final = 499
"""The status of a request whose client hung up before the answer was whole; the number is the one of nginx's log."""

_MAX_ID: Final = 256
_TRACE: Final = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_KEPT_TEXT: Final = 4096
"""Characters of an answer that are kept where the log shows them."""


@dataclass(slots=True)
class Record:
    """One request. Whoever learns something about it writes it down here."""

    method: str = "POST"
    endpoint: str = "other"
    """A path of the contract, with its parameters in braces, or "other"."""
    begun_s: float = field(default_factory=time.monotonic)
    """When its headers had come, on ``time.monotonic``'s clock."""
    uuid: str = field(default_factory=lambda: new_uuid())
    """Of this server's own making."""
    request_id: str = ""
    """The id of the answer: the client's req-id where usable, else a number of this server; empty where none is due."""
    client_id: str | None = None
    """The client's X-Request-Id where usable."""
    traceparent: str | None = None
    """As the client sent it, where valid."""
    duplicate: bool = False
    """Another request of the same id is still being answered."""

    status: int = CLIENT_GONE
    whole: bool = False
    """The last byte of the answer has been handed over."""
    gone: bool = False
    """The client hung up before."""
    problem: Problem | None = None
    """Why it failed, also after the answer had begun."""
    key_name: str | None = None
    """Whose API key it carried."""
    model: str | None = None
    """As the client named it."""
    streams: bool = False
    generation: Generation | None = None
    media: tuple[MediaItem, ...] = ()
    """Images, videos and recordings of its prompt, once they are ready for the engine."""
    media_s: float | None = None
    """What reading and decoding them took; None without any."""
    stopped: bool = False
    """Somebody has asked for its end."""
    on_stop: Callable[[], None] | None = None
    """Tells that to who prepares it for the engine."""
    prompt: str | None = None
    """What was asked; kept only where the log shows it."""
    answer: str | None = None
    """The beginning of what was answered; kept only where the log shows it."""

    @property
    def trace_id(self) -> str | None:
        """The 32 hexadecimal digits of the client's trace."""
        return None if self.traceparent is None else self.traceparent[3:35]

    @property
    def ended_status(self) -> int:
        """The status that the client got, or ``CLIENT_GONE`` where it did not wait for the end."""
        return self.status if self.whole and not self.gone else CLIENT_GONE

    @property
    def failed(self) -> bool:
        """It did not get all that it asked for."""
        return self.ended_status >= 400 or self.problem is not None

    @property
    def ttft_s(self) -> float | None:
        """From its coming to its first token."""
        first_s = None if self.generation is None else self.generation.first_s
        return None if first_s is None else max(0.0, first_s - self.begun_s)

    def stop(self) -> None:
        """End the answer where it stands; one that the engine has not got yet ends as soon as it has."""
        self.stopped = True
        if self.generation is not None:
            self.generation.stop()
        elif self.on_stop is not None:
            self.on_stop()

    def read_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Take the ids that a client gave."""
        for name, value in headers:
            if name == b"req-id":
                self.request_id = usable_id(value) or ""
            elif name == b"x-request-id":
                self.client_id = usable_id(value)
            elif name == b"traceparent":
                self.traceparent = usable_trace(value)

    def keep_text(self, deltas: list[ChoiceDelta]) -> None:
        """Keep the beginning of the answer's text, all choices in the order of their coming."""
        text = self.answer or ""
        if len(text) <= _KEPT_TEXT:
            self.answer = (text + "".join(delta.reasoning + delta.text for delta in deltas))[: _KEPT_TEXT + 1]


def prompt_text(body: ContractModel) -> str:
    """The beginning of what a body asks, as JSON; of media only where they come from."""
    messages = getattr(body, "messages", None)
    asked = shown_messages(messages) if messages else getattr(body, "prompt", None)
    return to_json(asked)[: _KEPT_TEXT + 1].decode("utf-8", "replace")


def record_of(scope: Scope) -> Record:
    """The record of a request; a new one where the application runs without its outermost layer."""
    found: Record | None = scope.get(RECORD)
    if found is None:
        found = scope[RECORD] = Record()
    return found


def new_uuid() -> str:
    """A random UUID, version 4. It identifies and need not be unguessable: the system's generator takes five times
    as long.
    """
    digits = f"{getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def usable_id(value: bytes) -> str | None:
    """An id of 1..256 printable ASCII characters, or None."""
    if not 1 <= len(value) <= _MAX_ID or not all(0x20 <= byte < 0x7F for byte in value):
        return None
    return value.decode("ascii")


def usable_trace(value: bytes) -> str | None:
    """A traceparent as W3C's Trace Context defines it, or None.

    Version 00 has four parts; later versions may have more behind them. Ids of zeros and version ff are invalid.
    """
    found = _TRACE.fullmatch(value) if len(value) <= _MAX_ID else None
    if found is None or (value.startswith(b"00") and found[2] is not None) or not value.isascii():
        return None
    return value.decode("ascii")
