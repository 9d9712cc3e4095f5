"""Rewrites a schema's regular expressions so that whatever the grammar's dialect lets through, other dialects match.

JSON Schema means ECMA 262, the jsonschema library searches with Python's re, and the grammar library reads Rust's
regex. What the three read differently is written out, as the narrower of the meanings, or refused.
"""

from __future__ import annotations

import re
from typing import Final

_NEW_LINES: Final = r"\n\r\x{2028}\x{2029}"
"""What a dot leaves out in one dialect or another."""
_SPACE: Final = r" \t\n\r\x{b}\x{c}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_INNER: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": _SPACE}
"""What a shorthand means in every dialect."""
_OUTER: Final = {
    "d": r"\p{Nd}",
    "w": r"0-9A-Za-z_\x{80}-\x{10ffff}",  # the letters of all scripts one by one would cost a grammar too much
    "s": _SPACE + r"\x{1c}-\x{1f}\x{85}\x{feff}",
}
"""What it means in at least one."""
_CONTROLS: Final = {"n": 0x0A, "r": 0x0D, "t": 0x09, "f": 0x0C, "v": 0x0B}
_REPEAT: Final = re.compile(r"\{[0-9]{1,6}(,[0-9]{0,6})?\}")
_HEX: Final = {"x": re.compile(r"[0-9a-fA-F]{2}"), "u": re.compile(r"[0-9a-fA-F]{4}")}


class PatternRefused(Exception):
    """A pattern cannot be held; the message says what in it, as the end of a sentence."""


def rewritten(pattern: str) -> str:
    """The pattern in Rust's dialect, matching at most what ``pattern`` matches in ECMA's and in Python's.

    Raises:
        PatternRefused: it has a part that a grammar cannot hold, or that the dialects read differently.
    """
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternRefused(f"is no regular expression ({error})") from None
    return _Rewriter(pattern).run()


class _Rewriter:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def run(self) -> str:
        made = []
        repeated = True  # nothing to repeat yet
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character in "*+?" or _REPEAT.match(self._pattern, self._at):
                if repeated:
                    raise PatternRefused(f"repeats a repetition or nothing with {character!r}")
                made.append(self._repetition())
                repeated = True
                continue
            made.append(self._one(character))
            repeated = character in "(|^"
        return "".join(made)

    def _repetition(self) -> str:
        found = _REPEAT.match(self._pattern, self._at)
        text = found[0] if found else self._pattern[self._at]
        self._at += len(text)
        if self._pattern.startswith("?", self._at):
            self._at += 1  # lazy: the same strings match
        return text

    def _one(self, character: str) -> str:
        if character == "\\":
            return self._escape()
        if character == "[":
            return self._class()
        self._at += 1
        if character == ".":
            return f"[^{_NEW_LINES}]"
        if character == "(" and self._pattern.startswith("?", self._at):
            if not self._pattern.startswith("?:", self._at):
                raise PatternRefused("has a group that begins with (? and is not (?:")
            self._at += 2
            return "(?:"
        if character in "()|^$":
            return character
        if character in "{}":
            raise PatternRefused(f"has a {character} that is no repetition; write \\{character}")
        return _literal(ord(character))

    def _escape(self) -> str:
        """An escape outside of brackets."""
        letter = self._pattern[self._at + 1 : self._at + 2]
        if letter in _INNER:
            self._at += 2
            return f"[{_INNER[letter]}]"
        if letter.lower() in _OUTER:
            self._at += 2
            return f"[^{_OUTER[letter.lower()]}]"
        return _literal(self._escaped_code())

    def _escaped_code(self) -> int:
        """The code point of an escape that means one character."""
        letter = self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in _HEX:
            digits = _HEX[letter].match(self._pattern, self._at)
            code = int(digits[0], 16) if digits else 0xD800
            if not 0xD800 <= code <= 0xDFFF:
                self._at += len(digits[0]) if digits else 0
                return code
        elif letter.isascii() and not letter.isalnum():
            return ord(letter)
        raise PatternRefused(f"has the escape \\{letter}, which a grammar cannot hold")

    def _class(self) -> str:
        self._at += 1
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        if self._pattern.startswith("]", self._at):
            raise PatternRefused("has brackets that begin with ]; write \\]")
        made = []
        while not self._pattern.startswith("]", self._at):
            first = self._member(negated)
            ranged = self._pattern.startswith("-", self._at) and not self._pattern.startswith("-]", self._at)
            if not ranged:
                made.append(first if isinstance(first, str) else _literal(first))
                continue
            self._at += 1
            last = self._member(negated)
            if isinstance(first, str) or isinstance(last, str):
                raise PatternRefused("has a range in brackets that does not go from one character to another")
            made.append(f"{_literal(first)}-{_literal(last)}")
        self._at += 1
        return f"[{'^' if negated else ''}{''.join(made)}]"

    def _member(self, negated: bool) -> int | str:
        """A character's code point, or the text of a shorthand, narrow as a part of the whole class."""
        character = self._pattern[self._at]
        if character != "\\":
            self._at += 1
            return ord(character)
        letter = self._pattern[self._at + 1 : self._at + 2]
        if letter == "b":
            self._at += 2
            return 0x08
        if letter in _INNER:
            self._at += 2
            return (_OUTER if negated else _INNER)[letter]
        if letter.lower() in _OUTER:
            self._at += 2
            return f"[^{(_INNER if negated else _OUTER)[letter.lower()]}]"
        return self._escaped_code()


def _literal(code: int) -> str:
    """A character, spelled so that no dialect sees more in it."""
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\x{{{code:x}}}"
