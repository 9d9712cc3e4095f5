"""Takes the text of one choice apart, whole or piece by piece: thinking first, then content and tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.text.parsers import tool_family
from engine.text.reasoning import Segment, ThinkingSplitter, thinking_family
from engine.text.tools import ToolCallParser
from engine.types import AnswerForm, CallPiece


@dataclass(slots=True)
class Parts:
    """What became certain."""

    content: str = ""
    reasoning: str = ""
    calls: list[CallPiece] = field(default_factory=list)

    def add(self, more: Parts) -> None:
        """Take on what came after."""
        self.content += more.content
        self.reasoning += more.reasoning
        self.calls += more.calls


class AnswerReader:
    """One choice's text on its way into its parts. Feeding it in any pieces gives the same parts."""

    def __init__(self, form: AnswerForm) -> None:
        """Raises ValueError where the form names no family."""
        thinking = None if form.thinking is None else thinking_family(form.thinking)
        tools = None if form.tools is None else tool_family(form.tools)
        if (form.thinking is not None and thinking is None) or (form.tools is not None and tools is None):
            raise ValueError(f"{form} names no family")
        self._splitter = None if thinking is None else ThinkingSplitter(thinking, form.thinking_open)
        self._tools = None if tools is None else ToolCallParser(tools, form.tool_names)

    @property
    def inside_thinking(self) -> bool:
        """What comes next is thinking as far as is known."""
        return self._splitter is not None and self._splitter.inside

    @property
    def calls_whole(self) -> bool:
        """There are tool calls, and the text does not stand inside one."""
        return self._tools is not None and self._tools.calls > 0 and not self._tools.in_call

    def feed(self, text: str, *, hidden: bool = False) -> Parts:
        """Take the next text. ``hidden`` text is one special token that is never shown; it may be a mark."""
        if self._splitter is None:
            return self._rest([(text, hidden)], Parts())
        reasoning, rest = self._splitter.feed(text, hidden=hidden)
        return self._rest(rest, Parts(reasoning=reasoning))

    def finish(self) -> Parts:
        """What is left at the end of the text."""
        parts = Parts()
        if self._splitter is not None:
            parts.reasoning, rest = self._splitter.finish()
            self._rest(rest, parts)
        if self._tools is not None:
            content, calls = self._tools.finish()
            parts.content += content
            parts.calls += calls
        return parts

    def _rest(self, segments: list[Segment], parts: Parts) -> Parts:
        """Add to ``parts`` what is no thinking."""
        for text, hidden in segments:
            if self._tools is not None:
                content, calls = self._tools.feed(text, hidden=hidden)
                parts.content += content
                parts.calls += calls
            elif not hidden:
                parts.content += text
        return parts
