"""One choice of a stream while it grows: its text, its tool calls, its log probabilities, and whether it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools.laws import logprobs, said, usage, whole
from tools.laws.asked import Asked
from tools.laws.breach import Breach
from tools.laws.said import Call, Said
from tools.laws.table import broken

MOST_TEXT: Final = 4 * 2**20
"""Characters of a choice that are kept for the laws of its whole text; a longer one is not judged by them."""

WHERE: Final = "choices[0]"
"""Where the choice of an event stands."""
Json = Mapping[str, Any]


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    arguments: list[str]


@dataclass(slots=True)
class StreamedChoice:
    """A choice and what of it has come."""

    index: int
    ended: bool = False
    tokens: int = 0
    """Tokens that logprobs have shown."""
    _pieces: list[str] = field(default_factory=list)
    _characters: int = 0
    _grows: bool = True
    """Each delta so far began with the one before it, as with full_text."""
    _last: str = ""
    _lengths: list[int] = field(default_factory=list)
    _calls: list[_Call] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)
    _token_texts: list[str] = field(default_factory=list)

    def opens(self, choice: Json, asked: Asked) -> list[Breach]:
        """Judge the first event of this choice."""
        if not asked.chat:
            if choice["text"] == "" and choice["logprobs"] is None and choice["finish_reason"] is None:
                message = f"choice {self.index} begins with an event without text"
                return [broken("stream-text-first", f"{WHERE}.text", message)]
            return []
        delta = choice["delta"]
        rest = delta.get("reasoning_content") or delta.get("tool_calls")
        if delta.get("role") == "assistant" and delta.get("content") == "" and not rest:
            return []
        message = f"choice {self.index} does not open with the role and empty content"
        return [broken("stream-role-first", f"{WHERE}.delta", message)]

    def goes_on(self, choice: Json, asked: Asked) -> list[Breach]:
        """Take what an event has of this choice."""
        value = choice["logprobs"]
        found = []
        if value is not None or asked.top is not None:
            found += whole.of_logprobs(value, asked, f"{WHERE}.logprobs", may_be_null=True)
            self._show(value)
        if not asked.chat:
            self._add(choice["text"])
            return found
        delta = choice["delta"]
        self._add(delta.get("content") or "", empty="content" not in delta)
        for piece in delta.get("tool_calls") or ():
            found += self._call(piece)
        return found

    def ends(self, event: Json, choice: Json, asked: Asked) -> list[Breach]:
        """Judge the whole choice at its last event, with its usage where that is there."""
        self.ended = True
        text = self._text(event.get("full_text"))
        found = []
        if "full_text" in event and not (self._grows and event["full_text"] == self._last):
            message = "full_text is not the text of the last delta, or an earlier delta is no beginning of it"
            found.append(broken("stream-full-text", "full_text", message))
        calls = [Call(call.id, call.name, "".join(call.arguments)) for call in self._calls]
        reason = choice.get("stop_reason")
        found += said.breaches(Said(WHERE, text, calls, choice["finish_reason"], reason), asked)
        if asked.sure and asked.top is not None and not asked.chat and text is not None:
            found += logprobs.offsets(text, self._token_texts, self._offsets, 0, f"{WHERE}.logprobs")
        if "usage" in event:
            shown = self.tokens if asked.sure and asked.top is not None else None
            found += usage.of_one(event["usage"], asked, shown)
        return found

    def _add(self, text: str, *, empty: bool = False) -> None:
        """Keep a piece of text. While every piece begins with the one before, only the last is kept, and lengths."""
        if empty or self._characters > MOST_TEXT:
            return
        if self._grows and text.startswith(self._last):
            self._last = text
            self._lengths.append(len(text))
            self._characters = len(text)
        else:
            if self._grows:
                self._grows = False
                self._pieces = [self._last[:length] for length in self._lengths]
                self._characters = sum(self._lengths)
                self._lengths = []
            self._pieces.append(text)
            self._characters += len(text)

    def _text(self, full_text: str | None) -> str | None:
        if self._characters > MOST_TEXT:
            return None
        if full_text is not None:
            return full_text
        return "".join([self._last[:length] for length in self._lengths] if self._grows else self._pieces)

    def _show(self, value: Json | None) -> None:
        self.tokens += whole.count(value)
        if value is not None and "tokens" in value and self._characters <= MOST_TEXT:
            self._token_texts += value["tokens"]
            self._offsets += value["text_offset"]

    def _call(self, piece: Json) -> list[Breach]:
        """Take a piece of a tool call."""
        where, place, function = f"{WHERE}.delta.tool_calls", piece["index"], piece["function"]
        if place < len(self._calls):
            call = self._calls[place]
            changed = piece.get("id", call.id) != call.id or function.get("name", call.name) != call.name
            call.arguments.append(function.get("arguments", ""))
            if not changed and place == len(self._calls) - 1:
                return []
            what = "has another id or name than before" if changed else "goes on after the next call has begun"
            return [broken("stream-call-goes-on", where, f"tool call {place} of choice {self.index} {what}")]
        lacking = [name for name in ("id", "type") if name not in piece] + [
            "name" for _ in range("name" not in function)
        ]
        out_of_turn = place != len(self._calls)
        self._calls.append(_Call(piece.get("id", ""), function.get("name", ""), [function.get("arguments", "")]))
        if not lacking and not out_of_turn:
            return []
        what = f"begins without {', '.join(lacking)}" if lacking else f"begins before call {len(self._calls) - 1}"
        return [broken("stream-call-starts", where, f"tool call {place} of choice {self.index} {what}")]
