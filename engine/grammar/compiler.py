"""Compiles grammars in a thread of its own, keeps the latest ones, and gives each choice its place in one."""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import torch
from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from engine.grammar.constraint import Constraint
from engine.grammar.vocabulary import grammar_vocabulary
from engine.text.tokenizer import TextTokenizer
from engine.types import GrammarError, ModelInfo, Request

_log = logging.getLogger(__name__)

COMPILED_KEPT = 64
"""Grammars that are kept compiled."""
STEP_LEXER_FUEL = 100_000
"""What one choice may spend on regular expressions in one step: about 7 ms."""
MAX_LEXER_STATES = 20_000
"""States of one choice's regular expressions, of 1 to 2 kB each."""

NO_GRAMMARS = "This engine cannot hold answers to a grammar."
_NO_BEAMS = "The beams of a search cannot be held to a grammar."
_NO_END = "This model has no end-of-sequence token, so that answers cannot be held to a grammar."
_NO_TOKENIZER = "The tokens of this model cannot be read as text, so that answers cannot be held to a grammar."
_NOT_COMPILED = "The grammar that the request asks for cannot be compiled for this model: {reason}"


class GrammarCompiler:
    """The grammars of one model. ``prepared`` and ``start`` belong to the thread that runs the rounds.

    The library lets go of the interpreter's lock while it compiles, so that rounds go on meanwhile.
    """

    def __init__(self, make_tokenizer: Callable[[], TextTokenizer], info: ModelInfo, kept: int = COMPILED_KEPT) -> None:
        """Args:
        make_tokenizer: the model's tokenizer; called when first needed.
        info: of the model.
        kept: grammars that are kept compiled.
        """
        self._make_tokenizer = make_tokenizer
        self._info = info
        self._kept = kept
        self._vocabulary: LLTokenizer | None = None
        self._compiled: OrderedDict[str, Future[LLMatcher]] = OrderedDict()
        self._compiling = ThreadPoolExecutor(1, "grammar-compiler")
        self._looking = ThreadPoolExecutor(1, "grammar-masks")

    def warm(self) -> Future[None]:
        """Read the vocabulary beside whatever the caller does now, and before the first round: it holds the
        interpreter's lock for 100 ms at a time, which would stop rounds."""
        return self._compiling.submit(self._warm)

    def _warm(self) -> None:
        with contextlib.suppress(GrammarError):  # whoever asks for a grammar is told
            self._tokens()

    def prepared(self, grammar: str) -> bool:
        """Whether a grammar (see ``Request.grammar``) is compiled; the first call for it starts that.

        Raises:
            GrammarError: it cannot be compiled.
        """
        compiled = self._compiled.get(grammar)
        if compiled is None:
            compiled = self._compiling.submit(self._compile, grammar)
            self._compiled[grammar] = compiled
            while len(self._compiled) > self._kept and next(iter(self._compiled.values())).done():
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(grammar)
        if not compiled.done():
            return False
        error = compiled.exception()
        if error is not None:
            del self._compiled[grammar]
            if isinstance(error, GrammarError):
                raise error
            _log.error("a grammar was not compiled", exc_info=error)
            raise GrammarError(_NOT_COMPILED.format(reason="the cause is in the server's log"))
        return True

    def start(self, grammar: str, *, ignore_eos: bool) -> Constraint:
        """A choice's place at the start of a grammar, which waits for one that is not compiled yet.

        Raises:
            GrammarError: it cannot be compiled.
        """
        while not self.prepared(grammar):
            wait([self._compiled[grammar]])
        matcher = self._compiled[grammar].result().deep_copy()
        info = self._info
        return Constraint(
            matcher, info.vocab_size, info.eos_token_ids, torch.device(info.device), ignore_eos=ignore_eos
        )

    def look(self, constraints: Iterable[Constraint]) -> Future[None]:
        """Begin to find the next tokens of these choices beside whatever the caller does now."""
        return self._looking.submit(_look, list(constraints))

    def _compile(self, grammar: str) -> LLMatcher:
        limits = LLParserLimits(
            step_lexer_fuel=STEP_LEXER_FUEL, max_lexer_states=MAX_LEXER_STATES, verbose_errors=False
        )
        matcher = LLMatcher(self._tokens(), grammar, log_level=0, limits=limits)
        if matcher.is_error():
            raise GrammarError(_NOT_COMPILED.format(reason=_first_line(matcher.get_error())))
        # The first look builds tables of the lexer, which the copies for the choices then have.
        matcher.compute_bitmask()
        return matcher

    def _tokens(self) -> LLTokenizer:
        if self._vocabulary is None:
            if not self._info.eos_token_ids:
                raise GrammarError(_NO_END)
            try:
                tokenizer = self._make_tokenizer()
                self._vocabulary = grammar_vocabulary(tokenizer, self._info.vocab_size, self._info.eos_token_ids)
            except (OSError, ValueError) as error:
                _log.warning("answers cannot be held to a grammar by this model: %s", error)
                raise GrammarError(_NO_TOKENIZER) from error
        return self._vocabulary


def is_prepared(grammars: GrammarCompiler | None, request: Request) -> bool:
    """``Executor.prepared`` of an executor with these grammars, or with none."""
    if request.grammar is None:
        return True
    if grammars is None:
        raise GrammarError(NO_GRAMMARS)
    if request.sampling.use_beam_search:
        raise GrammarError(_NO_BEAMS)
    return grammars.prepared(request.grammar)


def constraints_of(grammars: GrammarCompiler | None, request: Request) -> list[Constraint | None]:
    """For each choice of a request its place at the start of the request's grammar; None without one.

    Raises:
        GrammarError: there are no grammars, or this one cannot be compiled.
    """
    grammar, sampling = request.grammar, request.sampling
    if grammar is None:
        return [None] * sampling.n
    if grammars is None:
        raise GrammarError(NO_GRAMMARS)
    return [grammars.start(grammar, ignore_eos=sampling.ignore_eos) for _ in range(sampling.n)]


def _look(constraints: list[Constraint]) -> None:
    for constraint in constraints:
        constraint.look()


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:200] if text.strip() else "no reason given"
