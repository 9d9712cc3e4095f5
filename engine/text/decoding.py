"""How a tokenizer.json turns tokens into text: its decoder chain, read into a plan that can be run token by token."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

LocalStep = Callable[[str, bool], str]
"""(a token's string, whether it is the first shown token) -> its text."""

_BYTE_TOKEN = re.compile(r"<0x([0-9a-fA-F]{2})>")

# What a WordPiece decoder with cleanup rewrites inside the text of one token, in this order.
_WORD_PIECE_CLEANUP = (
    *((f" {mark}", mark) for mark in ".?!,"),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    *((f" '{ending}", f"'{ending}") for ending in ("s", "ve", "re")),
)


class UnsupportedDecoderError(ValueError):
    """A tokenizer.json asks for a decoder that cannot be run token by token here; the message names it."""


@dataclass(frozen=True)
class DecoderPlan:
    """One decoder chain. Either byte-level (tokens spell bytes) or pieces (tokens spell text)."""

    byte_level: bool
    local_steps: tuple[LocalStep, ...] = ()
    """Applied to each token's string on its own."""
    byte_fallback: bool = False
    """Tokens such as ``<0xE4>`` are single bytes; a run of them is text only as a whole."""
    strip_character: str = ""
    strip_count: int = 0
    """So many of that character are taken off the start of the whole text."""

    def piece(self, token: str, first: bool) -> str:
        """The text of one token; ``first`` says that no shown token came before it."""
        for step in self.local_steps:
            token = step(token, first)
        return token

    def fallback_byte(self, token: str) -> int | None:
        """The byte that a byte-fallback token stands for, else None."""
        if not self.byte_fallback:
            return None
        match = _BYTE_TOKEN.fullmatch(self.piece(token, False))
        return int(match[1], 16) if match else None

    def token_bytes(self, token: str) -> bytes:
        """The bytes that one token adds to the text, wherever it stands but at the very start."""
        if self.byte_level:
            return spelled_bytes(token)
        byte = self.fallback_byte(token)
        return self.piece(token, False).encode() if byte is None else bytes((byte,))


def _byte_symbols() -> dict[str, int]:
    """The printable symbols that byte-level BPE writes bytes with (GPT-2's table): printable Latin-1 stands for
    itself, the other bytes in order for U+0100 and on."""
    symbols: dict[str, int] = {}
    moved = 0
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE:
            symbols[chr(byte)] = byte
        else:
            symbols[chr(0x100 + moved)] = byte
            moved += 1
    return symbols


BYTE_OF_SYMBOL: Mapping[str, int] = _byte_symbols()


def spelled_bytes(token: str) -> bytes:
    """The bytes of a byte-level token. One with a symbol outside the table (an added token) stands for itself."""
    try:
        return bytes([BYTE_OF_SYMBOL[symbol] for symbol in token])
    except KeyError:
        return token.encode()


def read_decoder(config: Mapping[str, Any] | None) -> DecoderPlan:
    """The plan for the ``decoder`` member of a tokenizer.json.

    Raises:
        UnsupportedDecoderError: the chain has a part, or an order of parts, that this module does not know.
    """
    parts = _flatten(config)
    if [part["type"] for part in parts] == ["ByteLevel"]:
        return DecoderPlan(byte_level=True)
    if not parts:
        return DecoderPlan(byte_level=False, local_steps=(_with_space_before,))
    local: list[LocalStep] = []
    byte_fallback = fused = False
    strip_character, strip_count = "", 0
    for part in parts:
        kind = part["type"]
        if fused:
            if kind != "Strip" or part["stop"] or strip_count:
                raise UnsupportedDecoderError(f"the tokenizer's decoder has {kind} after Fuse, which is not supported")
            strip_character, strip_count = part["content"], part["start"]
        elif kind == "Fuse":
            fused = True
        elif byte_fallback:
            raise UnsupportedDecoderError(f"the tokenizer's decoder has {kind} after ByteFallback: not supported")
        elif kind == "ByteFallback":
            byte_fallback = True
        else:
            local.append(_local_step(part))
    return DecoderPlan(
        byte_level=False,
        local_steps=tuple(local),
        byte_fallback=byte_fallback,
        strip_character=strip_character,
        strip_count=strip_count,
    )


def _flatten(config: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    if config is None:
        return []
    if config["type"] != "Sequence":
        return [config]
    return [part for inner in config["decoders"] for part in _flatten(inner)]


def _local_step(part: Mapping[str, Any]) -> LocalStep:
    kind = part["type"]
    if kind == "Replace" and "String" in part["pattern"]:
        old, new = part["pattern"]["String"], part["content"]
        return lambda token, first: token.replace(old, new)
    if kind == "Strip":
        return _strip(part["content"], part["start"], part["stop"])
    if kind == "Metaspace":
        return _metaspace(part["replacement"], part["prepend_scheme"] != "never")
    if kind == "WordPiece":
        return _word_piece(part["prefix"], part["cleanup"])
    raise UnsupportedDecoderError(f"the tokenizer's decoder {kind} is not supported")


def _with_space_before(token: str, first: bool) -> str:
    """Without any decoder the tokens are joined with spaces."""
    return token if first else " " + token


def _strip(character: str, start: int, stop: int) -> LocalStep:
    def step(token: str, first: bool) -> str:
        left = min(start, len(token) - len(token.lstrip(character)))
        right = min(stop, len(token) - len(token.rstrip(character)))
        return token[left : max(left, len(token) - right)]

    return step


def _metaspace(replacement: str, drops_first: bool) -> LocalStep:
    def step(token: str, first: bool) -> str:
        return token.replace(replacement, "" if first and drops_first else " ")

    return step


def _word_piece(prefix: str, cleanup: bool) -> LocalStep:
    def step(token: str, first: bool) -> str:
        if not first:
            token = token.removeprefix(prefix) if token.startswith(prefix) else " " + token
        if cleanup:
            for old, new in _WORD_PIECE_CLEANUP:
                token = token.replace(old, new)
        return token

    return step
