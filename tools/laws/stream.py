"""Judges a stream while it comes: its framing, its events, and their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from generated.base import ContractModel
from generated.models import StreamError
from tools.laws import schema, sse, usage, whole
from tools.laws.asked import Asked
from tools.laws.breach import Breach
from tools.laws.form import Forms
from tools.laws.streamed_choice import WHERE, StreamedChoice
from tools.laws.table import broken

DONE: Final = b"[DONE]"
_SAME: Final = ("id", "object", "created", "model")
Json = Mapping[str, Any]


class Stream:
    """One stream. Give it bytes as they come with ``feed``, or whole events with ``event``; then ``end``.

    A law that one member breaks again and again is told once. What is kept does not grow with the number of events,
    but for the text of the choices (``streamed_choice.MOST_TEXT``).
    """

    def __init__(self, asked: Asked, forms: Forms | None = None) -> None:
        """``forms``: those of the server, which it is held to."""
        self.asked = asked
        self.events = 0
        """Events so far, ``[DONE]`` among them."""
        self.done = False
        self.failed = False
        """An error event has come."""
        self._forms = forms if forms is not None else Forms()
        self._cutter = sse.Cutter()
        self._models: Sequence[type[ContractModel]] = [one for one in asked.wire.events if one is not StreamError]
        self._first: Json | None = None
        self._choices: dict[int, StreamedChoice] = {}
        self._role_again: bool | None = None
        """Deltas after a choice's first have the role; None until that is seen."""
        self._role_is_told = False
        self._apart: bool | None = None
        """usage comes in an event of its own; None until that is seen."""
        self._usage_seen = False
        self._prompt_tokens: int | None = None
        self._told: set[tuple[str, str | None]] = set()

    def feed(self, chunk: bytes) -> list[Breach]:
        """Take bytes of the stream, cut anywhere."""
        try:
            events = self._cutter.feed(chunk)
        except sse.EventTooLarge as error:
            return self._new([broken("stream-sse", None, str(error))])
        return [breach for event in events for breach in self.event(event)]

    def event(self, data: bytes) -> list[Breach]:
        """Take one event: its lines, without the empty one at its end."""
        try:
            payload = sse.data_of(data)
        except ValueError as error:
            return self._new([broken("stream-sse", None, str(error))])
        if payload is None:
            return []
        self.events += 1
        found = self._payload(payload)
        return self._new(found) if found else found

    def end(self, complete: bool = True) -> list[Breach]:
        """The connection has ended; ``complete``: by the server, and not because the client went away."""
        if not complete:
            return []
        left = self._cutter.left()
        found = self.event(left) if left else []
        if not self.done:
            found += self._new([broken("stream-done-last", None, "the stream ended without [DONE]")])
        return found

    def _new(self, found: list[Breach]) -> list[Breach]:
        fresh = [breach for breach in found if (breach.law, breach.field) not in self._told]
        self._told.update((breach.law, breach.field) for breach in fresh)
        return fresh

    def _payload(self, payload: bytes) -> list[Breach]:
        if self.done:
            return [broken("stream-done-last", None, f"event {self.events} comes after [DONE]")]
        if payload == DONE:
            self.done = True
            return [] if self.failed else self._at_done()
        if self.failed:
            return [broken("stream-error-last", None, f"event {self.events} comes after an error, before [DONE]")]
        try:
            value = schema.parse(payload)
        except ValueError as error:
            return [broken("stream-json", None, f"event {self.events} is not strict JSON: {error}")]
        if isinstance(value, dict) and "error" in value:
            self.failed = True
            return self._error(value)
        found = schema.faults(value, self._models, "stream-schema", f"event {self.events}: ")
        if found:
            return found
        found = schema.disorder(value, self._models, f"event {self.events}: ") + self._same(value)
        return found + self._news(value)

    def _error(self, value: Json) -> list[Breach]:
        found = schema.faults(value, [StreamError], "stream-schema", f"event {self.events}: ")
        if not found and value["error"]["type"] != value["error_type"]:
            found = [broken("stream-schema", "error_type", "error_type is not the type within error")]
        return found

    def _same(self, value: Json) -> list[Breach]:
        if self._first is None:
            self._first = {name: value[name] for name in _SAME}
            return whole.named(value, self.asked)
        for name in _SAME:
            if value[name] != self._first[name]:
                message = f"event {self.events} has another {name} than the first"
                return [broken("stream-one-answer", name, message)]
        return []

    def _news(self, value: Json) -> list[Breach]:
        choices = value["choices"]
        if not choices:
            return self._usage_apart(value)
        unknown_beams = not self.asked.sure and not self._choices and all(one["finish_reason"] for one in choices)
        if self.asked.beams or (unknown_beams and len(choices) > 1):
            return self._beams(value)
        if len(choices) > 1:
            return [broken("stream-one-choice", "choices", f"event {self.events} has {len(choices)} choices")]
        return self._one(value, choices[0])

    def _one(self, value: Json, choice: Json) -> list[Breach]:
        index, final = choice["index"], choice["finish_reason"] is not None
        if self.asked.sure and index >= self.asked.choices:
            message = f"event {self.events} has index {index}; {self.asked.choices} choices were asked for"
            return [broken("stream-index", f"{WHERE}.index", message)]
        state = self._choices.get(index)
        found: list[Breach] = []
        if state is None:
            state = self._choices[index] = StreamedChoice(index)
            found += state.opens(choice, self.asked)
            self._role_is_told |= bool(found)
        elif state.ended:
            law = "stream-one-finish" if final else "stream-nothing-after-finish"
            what = "finishes again" if final else "goes on after its finish_reason"
            return [broken(law, WHERE, f"event {self.events}: choice {index} {what}")]
        elif self.asked.chat:
            found += self._role("role" in choice["delta"])
        found += state.goes_on(choice, self.asked)
        if final:
            return found + self._placed(value) + state.ends(value, choice, self.asked)
        if "usage" in value:
            message = f"event {self.events} has usage, but choice {index} does not end there"
            found.append(broken("stream-usage-last", "usage", message))
        return found

    def _role(self, given: bool) -> list[Breach]:
        """Whether a delta after the first has the role as all others do."""
        if self._role_is_told:
            return []
        if self._role_again is None:
            self._role_again = given
            return self._forms.hold("MindIE's" if given else "OpenAI's", "a stream")
        if self._role_again == given:
            return []
        message = f"event {self.events} {'has' if given else 'lacks'} the role, other than those before it"
        return [broken("stream-role-form", f"{WHERE}.delta.role", message)]

    def _placed(self, value: Json) -> list[Breach]:
        """Whether a choice's last event has its usage, or leaves it to an event of its own."""
        given = "usage" in value
        may_be_apart = self.asked.include_usage or not self.asked.sure
        if self._apart is None and may_be_apart and not (self.asked.sure and self._role_again):
            self._apart = not given
            if self.asked.sure and not self.asked.chat:
                found = self._forms.hold("MindIE's" if given else "OpenAI's", "a stream")
                return found + (self._prompt(value["usage"]) if given else [])
        if given == bool(self._apart):
            what = "has usage, which comes apart here" if given else "ends a choice and has no usage"
            return [broken("stream-usage-last", "usage", f"event {self.events} {what}")]
        return self._prompt(value["usage"]) if given else []

    def _prompt(self, given: Json) -> list[Breach]:
        tokens = given["prompt_tokens"]
        if self._prompt_tokens is None:
            self._prompt_tokens = tokens
        if tokens == self._prompt_tokens:
            return []
        message = f"event {self.events} counts {tokens} prompt tokens, an earlier one {self._prompt_tokens}"
        return [broken("usage-one-prompt", "usage.prompt_tokens", message)]

    def _usage_apart(self, value: Json) -> list[Breach]:
        due = self._apart and not self._usage_seen and self._all_ended()
        self._usage_seen = True
        if not due or "usage" not in value:
            message = f"event {self.events} has no choices; only one may, with the usage, after all choices' ends"
            return [broken("stream-usage-last", "choices", message)]
        shown = [state.tokens for state in self._choices.values()]
        tokens = shown if self.asked.sure and self.asked.top is not None else None
        return usage.of_all(value["usage"], self.asked, tokens)

    def _beams(self, value: Json) -> list[Breach]:
        if self._choices:
            return [broken("stream-beams-in-one", None, f"event {self.events} is one more than beams come in")]
        self._choices = {index: StreamedChoice(index, ended=True) for index in range(len(value["choices"]))}
        self._apart = False
        for place, choice in enumerate(value["choices"]):
            if choice["finish_reason"] is None:
                message = f"beam {place} has no finish_reason in its only event"
                return [broken("stream-one-finish", f"choices[{place}].finish_reason", message)]
            delta = choice.get("delta", {})
            message_text = choice.get("message", {}).get("content")
            if self.asked.chat and (delta.get("content") != message_text or delta.get("role") != "assistant"):
                message = f"beam {place} has another text in message than in delta, or no role"
                return [broken("stream-beam-message", f"choices[{place}].message", message)]
        if "usage" not in value:
            return [broken("stream-usage-last", "usage", "the event of a beam search has no usage")]
        return whole.of_choices(value, self.asked)

    def _all_ended(self) -> bool:
        enough = len(self._choices) == self.asked.choices or not self.asked.sure
        return enough and all(state.ended for state in self._choices.values())

    def _at_done(self) -> list[Breach]:
        """What must have come before ``[DONE]``."""
        if self.asked.sure and self.asked.generates and len(self._choices) < self.asked.choices and not self._told:
            message = f"the stream had {len(self._choices)} choices; {self.asked.choices} were asked for"
            return [broken("choices-count", "choices", message)]
        for index, state in self._choices.items():
            if not state.ended:
                return [broken("stream-one-finish", WHERE, f"choice {index} has no finish_reason before [DONE]")]
        if self._apart and not self._usage_seen:
            return [broken("stream-usage-last", "usage", "the usage of all choices has not come before [DONE]")]
        return []
