"""A model's tokens as the grammar library reads them: their bytes, which of them are control tokens, and how text
becomes tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

from llguidance import LLTokenizer, TokenizerWrapper

from engine.text.tokenizer import TextTokenizer

_BEFORE = ("", "\n", ":")
"""Texts put before what is encoded: tokenizers that begin every text with a space must not do so in the middle."""


def grammar_vocabulary(tokenizer: TextTokenizer, vocab_size: int, eos_token_ids: Iterable[int]) -> LLTokenizer:
    """The vocabulary of a model.

    Control tokens, and whatever ends an answer, are no text here: only a grammar that names one by its number allows
    it. Added tokens that are not special are the text that they show.

    Args:
        vocab_size: rows of the logits; ids beyond the tokenizer's have no text and are never allowed.
        eos_token_ids: at least one.

    Raises:
        ValueError: the tokens do not fit the logits, or there is no end-of-sequence token among them.
    """
    ends = [token_id for token_id in eos_token_ids if 0 <= token_id < vocab_size]
    return LLTokenizer(
        TokenizerWrapper(_Tokens(tokenizer, vocab_size, tokenizer.special_ids.union(ends))),
        n_vocab=vocab_size,
        eos_token=ends,
    )


class _Tokens:
    """What TokenizerWrapper asks for."""

    bos_token_id = None

    def __init__(self, tokenizer: TextTokenizer, vocab_size: int, special: frozenset[int]) -> None:
        self.eos_token_id = 0  # stands in: the real ones are given beside this
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in range(vocab_size)]
        self.special_token_ids = sorted(token_id for token_id in special if token_id < vocab_size)
        self._special = special
        self._tokenizer = tokenizer
        self._longest = max(map(len, self.tokens))
        self._ids = {token: token_id for token_id, token in enumerate(self.tokens) if token and token_id not in special}

    def __call__(self, text: str | bytes) -> list[int]:
        """Token ids whose bytes are exactly the text's."""
        wanted = text if isinstance(text, bytes) else text.encode()
        text = wanted.decode(errors="replace")
        for before in _BEFORE:
            ids = self._tokenizer.encode(before + text, add_special_tokens=False)
            skipped, start = 0, b""
            while len(start) < len(before) and skipped < len(ids):
                start += self.tokens[ids[skipped]]
                skipped += 1
            ids = ids[skipped:]
            if self._special.isdisjoint(ids) and b"".join(self.tokens[token_id] for token_id in ids) == wanted:
                return ids
        return self._longest_first(wanted)

    def _longest_first(self, text: bytes) -> list[int]:
        """The longest token at each place; stops where no token fits."""
        ids, place = [], 0
        while place < len(text):
            for length in range(min(self._longest, len(text) - place), 0, -1):
                token_id = self._ids.get(text[place : place + length])
                if token_id is not None:
                    ids.append(token_id)
                    place += length
                    break
            else:
                return ids
        return ids
