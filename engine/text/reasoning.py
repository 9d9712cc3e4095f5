"""Tells thinking from the rest of a choice's text, whole or piece by piece, and counts its tokens.

Thinking stands at the start of an answer, between two marks; the opening one may be the end of the prompt. Whatever
stands between them is thinking, marks of tool calls too. Line breaks next to the marks belong to the form. Thinking
that never closes lasts to the end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Literal

from engine.text.marks import open_tail

_LINE_BREAKS: Final = "\r\n"

Segment = tuple[str, bool]
"""(text, whether it is a special token that is never shown)."""


@dataclass(frozen=True)
class ThinkingFamily:
    """How a family of models marks its thinking."""

    name: str
    """What a deployment's setting calls it."""
    opening: str
    closing: str
    always: bool = False
    """An answer is thinking from its first token on, unless the prompt has closed it."""
    aliases: tuple[str, ...] = ()

    @property
    def markers(self) -> tuple[str, str]:
        """Texts that a vocabulary may have as special tokens."""
        return self.opening, self.closing

    def prompt_leaves(self, tail: str) -> bool | None:
        """Whether a prompt with this end leaves thinking open (True) or closed (False); None where it shows neither."""
        tail = tail.rstrip()
        if tail.endswith(self.opening):
            return True
        return False if tail.endswith(self.closing) else None


THINKING_FAMILIES: Final = (
    ThinkingFamily("qwen3", "<think>", "</think>", aliases=("deepseek_v3", "deepseek_v31", "glm45")),
    ThinkingFamily("deepseek_r1", "<think>", "</think>", always=True),
    ThinkingFamily("mistral", "[THINK]", "[/THINK]"),
)


def thinking_family(name: str) -> ThinkingFamily | None:
    """The family of this name or alias; None for none."""
    return next((family for family in THINKING_FAMILIES if name == family.name or name in family.aliases), None)


def thinking_family_seen_in(template: str | None) -> ThinkingFamily | None:
    """The family whose marks a chat template's text has; None where it has none."""
    if template is None:
        return None
    return next((family for family in THINKING_FAMILIES if family.closing in template), None)


class ThinkingSplitter:
    """One choice's text on its way into thinking and the rest."""

    def __init__(self, family: ThinkingFamily, prompt_open: bool | None) -> None:
        """``prompt_open``: see ``ThinkingFamily.prompt_leaves``."""
        self._family = family
        self.inside = prompt_open if prompt_open is not None else family.always
        """What comes next is thinking as far as is known."""
        self.closed_at: int | None = None
        """Characters fed before the closing mark; None while it has not come."""
        self._state: Literal["opening", "opened", "thinking", "closed", "after"] = "opening"
        self._held = ""
        self._fed = 0

    @property
    def thought(self) -> bool:
        """Some of the text was thinking, or is."""
        return self.inside or self.closed_at is not None

    def feed(self, text: str, *, hidden: bool = False) -> tuple[str, list[Segment]]:
        """The thinking that became certain, and the text after it."""
        self._fed += len(text)
        if self._state == "after":
            return "", [(text, hidden)]
        if hidden and not self._is_mark(text):
            return self._other_token(text)
        self._held += text
        return self._go_on(ended=False)

    def finish(self) -> tuple[str, list[Segment]]:
        """What is left at the end of the text."""
        return self._go_on(ended=True)

    @property
    def done(self) -> bool:
        """Thinking is over, or there was none."""
        return self._state in ("closed", "after")

    def _is_mark(self, text: str) -> bool:
        return text == self._family.closing if self.inside else text == self._family.opening

    def _other_token(self, text: str) -> tuple[str, list[Segment]]:
        """A hidden special token that is no mark of thinking: nothing inside thinking, else what follows it."""
        reasoning, rest = self._go_on(ended=True)
        if not self.inside:
            self._state = "after"
            rest.append((text, True))
        return reasoning, rest

    def _go_on(self, *, ended: bool) -> tuple[str, list[Segment]]:
        reasoning = ""
        if self._state == "opening":
            self._open(ended=ended)
        if self._state == "opened":
            self._held = self._held.lstrip(_LINE_BREAKS)
            if self._held or ended:
                self._state = "thinking"
        if self._state == "thinking":
            reasoning = self._think(ended=ended)
        if self._state == "closed":
            self._held = self._held.lstrip(_LINE_BREAKS)
            if self._held:
                self._state = "after"
        if self._state != "after":
            return reasoning, []
        rest, self._held = self._held, ""
        return reasoning, [(rest, False)] if rest else []

    def _open(self, *, ended: bool) -> None:
        opening = self._family.opening
        begun = self._held.lstrip()
        if begun.startswith(opening):
            self.inside = True
            self._held = begun[len(opening) :]
        elif opening.startswith(begun) and not ended:
            return
        self._state = "opened" if self.inside else "after"

    def _think(self, *, ended: bool) -> str:
        closing = self._family.closing
        place = self._held.find(closing)
        if place >= 0:
            self.inside = False
            self.closed_at = self._fed - len(self._held) + place
            self._state = "closed"
            reasoning, self._held = self._held[:place].rstrip(_LINE_BREAKS), self._held[place + len(closing) :]
            return reasoning
        certain = len(self._held)
        if not ended:
            certain -= open_tail(self._held, closing)
            certain = len(self._held[:certain].rstrip(_LINE_BREAKS))
        reasoning, self._held = self._held[:certain], self._held[certain:]
        return reasoning


class ThinkingCount:
    """Counts the tokens of one choice that begin before its thinking closes."""

    def __init__(self, family: ThinkingFamily, prompt_open: bool | None) -> None:
        self._splitter = ThinkingSplitter(family, prompt_open)
        self._reach = len(family.closing)
        self._pushed = 0
        self._length = 0
        self._starts: deque[int] = deque()
        """Where the last tokens begin, as far back as a closing mark can reach."""

    def push(self, text: str, *, hidden: bool = False) -> None:
        """One token and its text; ``hidden`` text is a special token that is never shown."""
        splitter = self._splitter
        if splitter.done:
            return
        self._pushed += 1
        self._starts.append(self._length)
        self._length += len(text)
        splitter.feed(text, hidden=hidden)
        if splitter.closed_at is not None:
            self._pushed -= sum(start >= splitter.closed_at for start in self._starts)
        while self._starts and self._starts[0] < self._length - self._reach:
            self._starts.popleft()

    @property
    def tokens(self) -> int:
        """Tokens of thinking, its opening mark among them; 0 where there was no thinking."""
        return self._pushed if self._splitter.thought else 0
