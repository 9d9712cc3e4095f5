"""Whether a scripted answer is one that a request's grammar would have let the model write."""

from __future__ import annotations

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from engine.grammar.vocabulary import grammar_vocabulary
from engine.text.tokenizer import TextTokenizer


class Grammars:
    """Reads answers under grammars. The vocabulary is read when the first is asked for."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._vocabulary: LLTokenizer | None = None

    def allow(self, grammar: str, text: str) -> bool:
        """Whether the text is a whole answer under a grammar, see ``Request.grammar``."""
        tokenizer = self._tokenizer
        if self._vocabulary is None:
            self._vocabulary = grammar_vocabulary(tokenizer, tokenizer.vocab_size, tokenizer.eos_token_ids)
        matcher = LLMatcher(self._vocabulary, grammar, log_level=0, limits=LLParserLimits(verbose_errors=False))
        ids = tokenizer.encode(text, add_special_tokens=False)
        return all(matcher.consume_token(token_id) for token_id in ids) and bool(matcher.is_accepting())
