"""Walks at random through a grammar as a model would that knows nothing, for tests of grammars without a model."""

from __future__ import annotations

import random

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from engine.grammar.vocabulary import grammar_vocabulary
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.tokenizer import BackedTokenizer

_HASTE = 60
"""After so many tokens the walk takes whatever closes something."""
_CLOSING = b'"}])>'


class Walker:
    """A vocabulary, and walks through grammars with it."""

    def __init__(self, tokenizer: BackedTokenizer | None = None) -> None:
        self.tokenizer = tokenizer or mock_tokenizer()
        self.eos = frozenset(self.tokenizer.eos_token_ids)
        self._vocabulary: LLTokenizer = grammar_vocabulary(self.tokenizer, self.tokenizer.vocab_size, self.eos)

    def matcher(self, grammar: str) -> LLMatcher:
        """At the start of a grammar that must compile."""
        matcher = LLMatcher(self._vocabulary, grammar, log_level=0)
        assert not matcher.is_error(), matcher.get_error()
        return matcher

    def accepts(self, grammar: str, text: str) -> bool:
        """Whether a text, control tokens read as such, is a whole answer under the grammar."""
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        matcher = self.matcher(grammar)
        return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()

    def walk(self, grammar: str, seed: int, most_tokens: int = 400) -> str | None:
        """The text of one walk; None where it did not come to an end, or the grammar became too complex."""
        draw = random.Random(seed)
        matcher = self.matcher(grammar)
        ids: list[int] = []
        while len(ids) < most_tokens:
            bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
            if matcher.is_error():
                return None
            allowed = np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist()
            assert allowed
            if not self.eos.isdisjoint(allowed) and (len(allowed) <= len(self.eos) or draw.random() < 0.5):
                return self.tokenizer.decode(ids, skip_special_tokens=False)
            others = [token for token in allowed if token not in self.eos]
            ends = [token for token in others if any(byte in _CLOSING for byte in self.tokenizer.token_bytes(token))]
            hasty = ends and (len(ids) > _HASTE or draw.random() < 0.3)
            token = draw.choice(ends if hasty else others)
            assert matcher.consume_token(token)
            ids.append(token)
        return None
