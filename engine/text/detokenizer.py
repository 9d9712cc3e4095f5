"""Incremental decoding of one choice: token ids in, text out as soon as no later token can change it.

The pieces that come out, joined, are what decoding all the ids at once gives, for every sequence of ids. Some decoders
treat the start of a text in their own way (Llama 2's drops the first space); where the choice goes on with a text that
came before it, its own start is not such a start, so that both texts joined read right.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Protocol

from engine.text.decoding import DecoderPlan

_REPLACEMENT = "\ufffd"


class TokenTable(Protocol):
    """What a detokeniser asks about single tokens; ids outside the vocabulary have no text."""

    plan: DecoderPlan
    special_ids: frozenset[int]

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that this token adds to the text."""
        ...

    def token_string(self, token_id: int) -> str | None:
        """The token as the vocabulary spells it; None for an unknown id."""
        ...


class Detokenizer(Protocol):
    """The text of one choice, token by token. Linear time in tokens and text."""

    def push(self, token_id: int, *, always_show: bool = False) -> str:
        """Take the next token and return the text that became certain.

        ``always_show`` shows a special token although special tokens are skipped.
        """
        ...

    def finish(self) -> str:
        """The rest of the text after the last token; bytes that are no whole character become U+FFFD."""
        ...

    def take_offsets(self) -> Sequence[int]:
        """For the tokens whose place became known since the last call, in order: code points before their text.

        A token that goes on with a character that earlier tokens began has the offset where that character starts.
        Only where the detokeniser was made with ``track_offsets``; else always empty.
        """
        ...


def make_detokenizer(
    table: TokenTable, *, skip_special_tokens: bool, track_offsets: bool = False, follows_text: bool = False
) -> Detokenizer:
    """The detokeniser for this vocabulary's kind of decoder.

    Args:
        table: the vocabulary.
        skip_special_tokens: special tokens have no text.
        track_offsets: for ``take_offsets``.
        follows_text: text of shown tokens stands before the first one.
    """
    hidden = table.special_ids if skip_special_tokens else frozenset[int]()
    if table.plan.byte_level:  # bytes mean the same at the start of a text and inside it
        return ByteLevelDetokenizer(table, hidden, track_offsets)
    return PieceDetokenizer(table, hidden, track_offsets, follows_text)


class ByteLevelDetokenizer:
    """For byte-level BPE: the tokens' bytes, joined, are UTF-8; only an unfinished character is held back."""

    __slots__ = ("_decoder", "_hidden", "_length", "_offsets", "_pending", "_table", "_track")

    def __init__(self, table: TokenTable, hidden: frozenset[int], track_offsets: bool) -> None:
        self._table = table
        self._track = track_offsets
        self._hidden = hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = False
        self._length = 0
        self._offsets: list[int] = []

    def push(self, token_id: int, *, always_show: bool = False) -> str:
        """See ``Detokenizer.push``."""
        hidden = token_id in self._hidden and not always_show
        raw = b"" if hidden else self._table.token_bytes(token_id)
        return self._place(raw) if self._track else self._decoder.decode(raw)

    def _place(self, raw: bytes) -> str:
        """Decode one token's bytes and note where its text starts."""
        start = self._length
        if self._pending and raw:
            # The first byte alone tells whether the token goes on with the held character or starts a new one.
            text = self._decoder.decode(raw[:1])
            goes_on = not text.startswith(_REPLACEMENT) or (text == _REPLACEMENT and 0x80 <= raw[0] <= 0xBF)
            start += 0 if goes_on else 1
            text += self._decoder.decode(raw[1:])
        else:
            text = self._decoder.decode(raw)
        if raw:
            self._pending = bool(self._decoder.getstate()[0]) if raw[-1] >= 0x80 else False
        self._offsets.append(start)
        self._length += len(text)
        return text

    def finish(self) -> str:
        """See ``Detokenizer.finish``."""
        text = self._decoder.decode(b"", True)
        self._pending = False
        self._length += len(text)
        return text

    def take_offsets(self) -> Sequence[int]:
        """See ``Detokenizer.take_offsets``; every pushed token's offset is known at once."""
        offsets, self._offsets = self._offsets, []
        return offsets


class PieceDetokenizer:
    """For tokens that spell text, with or without byte fallback.

    A run of byte tokens is one unit: valid UTF-8 as a whole, else one U+FFFD for each byte. So a run is held until a
    token that is no byte ends it.
    """

    __slots__ = (
        "_first",
        "_hidden",
        "_length",
        "_offsets",
        "_run",
        "_run_places",
        "_strip_left",
        "_stripped",
        "_table",
        "_track",
    )

    def __init__(self, table: TokenTable, hidden: frozenset[int], track_offsets: bool, follows_text: bool) -> None:
        self._table = table
        self._track = track_offsets
        self._hidden = hidden
        self._first = not follows_text
        self._length = 0
        """Code points so far, those stripped from the start included."""
        self._strip_left = 0 if follows_text else table.plan.strip_count
        self._stripped = 0
        self._run = bytearray()
        self._run_places: list[int] = []
        """For each token held with the run: how many of the run's bytes came before it."""
        self._offsets: list[int] = []

    def push(self, token_id: int, *, always_show: bool = False) -> str:
        """See ``Detokenizer.push``."""
        token = self._table.token_string(token_id)
        plan = self._table.plan
        if token is None or (token_id in self._hidden and not always_show):
            if self._run:
                self._run_places.append(len(self._run))
            elif self._track:
                self._offsets.append(self._length - self._stripped)
            return ""
        first, self._first = self._first, False
        byte = plan.fallback_byte(token)
        if byte is not None:
            self._run_places.append(len(self._run))
            self._run.append(byte)
            return ""
        text = self._end_run() if self._run else ""
        start = self._length
        text += self._add(plan.piece(token, first))
        if self._track:
            self._offsets.append(max(0, start - self._stripped))
        return text

    def finish(self) -> str:
        """See ``Detokenizer.finish``."""
        return self._end_run() if self._run else ""

    def take_offsets(self) -> Sequence[int]:
        """See ``Detokenizer.take_offsets``; tokens of a run are known when it ends."""
        offsets, self._offsets = self._offsets, []
        return offsets

    def _end_run(self) -> str:
        start = self._length
        try:
            text = self._run.decode()
            # chars_before[i]: the character that byte i belongs to, counted from the run's start.
            chars_before: list[int] = []
            for character, letter in enumerate(text):
                chars_before += [character] * len(letter.encode())
        except UnicodeDecodeError:
            text = _REPLACEMENT * len(self._run)
            chars_before = list(range(len(self._run)))
        chars_before.append(len(text))
        shown = self._add(text)
        if self._track:
            self._offsets += [max(0, start + chars_before[place] - self._stripped) for place in self._run_places]
        self._run.clear()
        self._run_places.clear()
        return shown

    def _add(self, text: str) -> str:
        """Count text that became certain, and take the stripped characters off the start of the whole."""
        self._length += len(text)
        if self._strip_left and text:
            rest = text.lstrip(self._table.plan.strip_character)
            cut = min(self._strip_left, len(text) - len(rest))
            self._strip_left = self._strip_left - cut if cut == len(text) else 0
            self._stripped += cut
            text = text[cut:]
        return text
