"""One request and its answer as the judge sees them: bytes in, breaches out, nothing kept that is not needed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import h11

from generated.operations import Wire
from tools.laws.answers import Answers
from tools.laws.asked import Asked
from tools.laws.breach import Breach
from tools.laws.requests import Limits, Read, Requests
from tools.laws.routes import Routes
from tools.laws.stream import Stream
from tools.laws.table import broken
from tools.proxy.report import Report, Side

MAX_ANSWER_BYTES: Final = 64 * 2**20
"""Of a whole answer; a longer one is not judged."""
MAX_KEPT_BYTES: Final = 512 * 2**20
"""Of all bodies that are not whole yet; one for which there is no room is not judged."""
MAX_HEAD_BYTES: Final = 256 * 1024
"""Of an answer's head."""
_ABOUT: Final = ("HEAD", "OPTIONS")
"""Methods that ask about a path, of which the contract says nothing."""
_BEGINNING_BYTES: Final = 400
"""Of an answer, in which its id stands if anywhere."""
_UNPACKED: Final = ("gzip", "x-gzip", "deflate")


@dataclass(slots=True)
class Bench:
    """What all exchanges are judged with."""

    requests: Requests
    answers: Answers
    report: Report
    limits: Limits
    routes: Routes = field(default_factory=Routes)
    numbered: int = 0
    """Requests so far."""
    kept_bytes: int = 0
    """Of all bodies that are not whole yet."""


class Exchange:
    """Judges one request, and the answer to it."""

    def __init__(self, bench: Bench, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        bench.numbered += 1
        self.number = bench.numbered
        self._bench = bench
        self._method = method.decode("latin-1")
        self._target = target.decode("latin-1")
        self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        found = None if self._method in _ABOUT else bench.routes.find(self._method, self._target)
        self._wire: Wire | None = found if isinstance(found, Wire) else None
        self._asked: Asked | None = None if self._wire is None else Asked(self._wire)
        self._body = bytearray()
        self._no_room = False
        self.asked_whole = False
        """The request has come to its end."""
        self.answered = False
        """The answer has."""
        self._began = False
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._parser.send(h11.Request(method=method, target=b"/", headers=[(b"Host", b"x")]))
        self._parser.send(h11.EndOfMessage())
        self._status = 0
        self._stream: Stream | None = None
        self._answer: bytearray | None = None
        self._unpack: zlib._Decompress | None = None
        self._beginning = b""
        self._id: str | None = next((value for name, value in self._headers.items() if name.lower() == "req-id"), None)

    # --- the request

    def body(self, data: bytes) -> None:
        """More of the request's body."""
        if self._wire is not None and len(self._body) <= self._bench.limits.body_bytes and self._has_room(data):
            self._body += data

    def _has_room(self, data: bytes) -> bool:
        """Whether more may be kept; what has been kept is let go where it may not."""
        bench = self._bench
        if bench.kept_bytes + len(data) <= MAX_KEPT_BYTES:
            bench.kept_bytes += len(data)
            return True
        self.leave()
        self._no_room = True
        bench.report.counts["bodies not judged, since too much is kept"] += 1
        return False

    def leave(self) -> None:
        """Nothing of this is judged any more."""
        self._bench.kept_bytes -= len(self._body) + len(self._answer or b"")
        self._body.clear()
        self._wire = self._asked = self._stream = self._answer = None

    def end(self, time_s: float) -> None:
        """The request is whole."""
        self.asked_whole = True
        self._bench.report.counts["requests"] += 1
        if self._method in _ABOUT or self._no_room:
            return
        read: Read = self._bench.requests.read(self._method, self._target, bytes(self._body), self._headers)
        self._bench.kept_bytes -= len(self._body)
        self._body.clear()
        self._tell(time_s, "client", read.breaches)
        if not self._began:
            self._asked = read.asked

    # --- the answer

    def take(self, data: bytes, time_s: float) -> bytes:
        """Bytes of the answer; returns those that are behind its end."""
        self._parser.receive_data(data)
        try:
            return self._events(time_s)
        except h11.RemoteProtocolError as error:
            self.answered = True
            self._tell(time_s, "server", [broken("answer-http", None, f"the answer is no HTTP/1.1: {error}")])
            return b""

    def server_closed(self, time_s: float) -> None:
        """There is no more of the answer, because the server ended the connection."""
        if self.answered or not self.asked_whole:
            return
        if not self._began:
            message = "the server ended the connection without an answer"
            self._tell(time_s, "server", [broken("answer-whole", None, message)])
            return
        self._parser.receive_data(b"")
        try:
            self._events(time_s)
        except h11.RemoteProtocolError:
            law = "answer-whole" if self._stream is None or self._stream.done else "stream-done-last"
            message = "the server ended the connection in the middle of the answer"
            self._tell(time_s, "server", [broken(law, None, message)])

    def _events(self, time_s: float) -> bytes:
        while not self.answered:
            event = self._parser.next_event()
            if isinstance(event, h11.Response):
                self._head(event, time_s)
            elif isinstance(event, h11.Data):
                self._data(bytes(event.data), time_s)
            elif isinstance(event, h11.EndOfMessage):
                self._whole(time_s)
                return self._parser.trailing_data[0]
            elif not isinstance(event, h11.InformationalResponse):
                return b""
        return b""

    def _head(self, event: h11.Response, time_s: float) -> None:
        self._began = True
        self._status = event.status_code
        asked = self._asked
        if asked is None:
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        self._tell(time_s, "server", self._bench.answers.head(asked, self._status, headers))
        if not self._packed(headers):
            return
        media = headers.get("content-type", "").partition(";")[0].strip().lower()
        if self._status < 300 and media == "text/event-stream":
            self._stream = self._bench.answers.stream(asked)
            self._bench.report.counts["streams"] += 1
        else:
            self._answer = bytearray()

    def _packed(self, headers: Mapping[str, str]) -> bool:
        """Whether the body can be read; begins to unpack one that is packed."""
        coding = headers.get("content-encoding", "identity").strip().lower()
        if coding in _UNPACKED:
            self._unpack = zlib.decompressobj(47)  # gzip or zlib, whichever it is
        elif coding not in ("", "identity"):
            self._bench.report.counts["answers not judged, since they are packed"] += 1
            return False
        return True

    def _data(self, data: bytes, time_s: float) -> None:
        if self._stream is None and self._answer is None:
            return
        if self._unpack is not None:
            try:
                data = self._unpack.decompress(data, MAX_ANSWER_BYTES)
                if self._unpack.unconsumed_tail:
                    self._too_long()
                    return
            except zlib.error as error:
                self._give_up(
                    time_s, [broken("answer-http", "Content-Encoding", f"the body cannot be unpacked: {error}")]
                )
                return
        if self._stream is not None:
            before = self._stream.events
            found = self._stream.feed(data)
            self._bench.report.counts["events"] += self._stream.events - before
            self._look_for_id(data)
            self._tell(time_s, "server", found)
        elif self._answer is not None and self._has_room(data):
            self._answer += data
            if len(self._answer) > MAX_ANSWER_BYTES:
                self._too_long()

    def _too_long(self) -> None:
        self._bench.report.counts["answers not judged, since they are too long"] += 1
        self.leave()

    def _look_for_id(self, data: bytes) -> None:
        """Find the answer's id in its first bytes."""
        if self._id is None and len(self._beginning) < _BEGINNING_BYTES:
            self._beginning += data[:_BEGINNING_BYTES]
            self._id = _id_in(self._beginning.decode("utf-8", "replace"))

    def _give_up(self, time_s: float, found: list[Breach]) -> None:
        self.leave()
        self._tell(time_s, "server", found)

    def _whole(self, time_s: float) -> None:
        self.answered = True
        if self._asked is not None:
            self._bench.report.counts["answers"] += 1
        if self._stream is not None:
            self._tell(time_s, "server", self._stream.end())
        elif self._answer is not None and self._asked is not None:
            body = bytes(self._answer)
            self._bench.kept_bytes -= len(body)
            self._answer = None
            self._look_for_id(body)
            self._tell(time_s, "server", self._bench.answers.body(self._asked, self._status, body))

    def _tell(self, time_s: float, side: Side, found: list[Breach]) -> None:
        if found:
            self._bench.report.tell(time_s, self.number, self._id, side, found)


def _id_in(beginning: str) -> str | None:
    """The answer's id, at the beginning of a whole answer or of its first event."""
    place = beginning.find('"id":')
    try:
        found, _ = json.JSONDecoder().raw_decode(beginning[place + 5 :].lstrip()) if place >= 0 else (None, 0)
    except ValueError:
        return None
    return found[:256] if isinstance(found, str) else None
