"""A deterministic executor without weights: its text depends on prompt, adapter, seed, choice and position alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from engine.executor import ReadAdapter, RequestRound
from engine.mock_beams import MockBeams
from engine.mock_model import MockModel, Voice
from engine.mock_orders import MockOrders
from engine.stats import ExecutorStats
from engine.text.byte_tokenizer import mock_tokenizer
from engine.text.tokenizer import TextTokenizer
from engine.types import FinishReason, GrammarError, ModelInfo, Request, StepToken

Replies = Callable[[str], str | None]
"""From a prompt's text to what is written, control tokens as text; None for made-up text."""

TOLD_TO_FAIL = "This mock was told to fail here."
"""Why a request fails whose orders say so."""


class MockFailure(RuntimeError):
    """The failure that ``fail_at`` provokes."""


@dataclass(slots=True)
class _Running:
    request: Request
    orders: MockOrders
    voices: dict[int, Voice]
    """Of choices that have not ended; empty for beams."""
    beams: MockBeams | None
    due_s: float = 0.0
    """When its next token may come, on the executor's clock."""
    rounds: int = 0

    @property
    def width(self) -> int:
        """Live sequences."""
        return len(self.voices) if self.beams is None else self.beams.width


class MockExecutor:
    """An ``Executor`` whose model is ``MockModel``. Every choice ends by itself unless ``ignore_eos``."""

    def __init__(
        self,
        tokenizer: TextTokenizer | None = None,
        *,
        max_position_embeddings: int = 131072,
        step_delay_s: float = 0.0,
        fail_at: int | None = None,
        replies: Replies | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        tokenizer: whose ids to make; the built-in byte-level one by default.
        step_delay_s: seconds that every round sleeps.
        fail_at: the round, counted from 1 since the last failure, that raises; None for never.
        replies: what to write, for a script.
        clock_s: what the pace of a request is measured with.
        """
        self._replies = replies
        self._tokenizer = tokenizer or mock_tokenizer()
        self._model = MockModel(self._tokenizer)
        self.info = ModelInfo(
            vocab_size=self._tokenizer.vocab_size,
            max_position_embeddings=max_position_embeddings,
            eos_token_ids=self._tokenizer.eos_token_ids,
            dtype="none",
            device="none",
            architecture="Mock",
        )
        self.step_delay_s = step_delay_s
        self.fail_at = fail_at
        self._clock_s = clock_s
        self._rounds = 0
        self._eos_ids = frozenset(self._tokenizer.eos_token_ids)
        self._requests: dict[str, _Running] = {}
        self._orders: dict[str, MockOrders] = {}
        self._admitted = 0
        self._live = 0
        self.sequences_run = 0

    @property
    def live_sequences(self) -> int:
        """Live choices, and the width of each beam request."""
        return self._live

    @property
    def stats(self) -> ExecutorStats:
        """Every admitted sequence runs in every round; there are no pages."""
        return ExecutorStats(self.live_sequences)

    def refuse(self, request: Request) -> str | None:
        """Never: it needs no memory."""
        return None

    def prepared(self, request: Request) -> bool:
        """Always. Raises GrammarError for a grammar: the mock is told a text under it instead."""
        if request.grammar is not None:
            raise GrammarError("The mock cannot hold answers to a grammar.")
        return True

    def can_admit(self, request: Request) -> bool:
        """Always."""
        return True

    def order(self, request_id: str, orders: MockOrders) -> None:
        """Give orders for a request that is added later, or never."""
        self._orders[request_id] = orders

    def forget(self, request_id: str) -> None:
        """Drop the orders of a request that is not added."""
        self._orders.pop(request_id, None)

    @property
    def wait_s(self) -> float:
        """How long until an admitted request may go on; 0 where one may already, or where there is none."""
        due_s = min((running.due_s for running in self._requests.values()), default=0.0)
        return max(0.0, due_s - self._clock_s()) if due_s else 0.0

    def add(self, request: Request) -> None:
        """Admit a request. Raises ValueError when its id is admitted already."""
        if request.request_id in self._requests:
            raise ValueError(f"request {request.request_id!r} is admitted already")
        orders = self._orders.pop(request.request_id, None) or MockOrders()
        sampling = request.sampling
        self._admitted += 1
        seed = sampling.seed ^ self._admitted << 32 if orders.seed_ignored else sampling.seed
        voices = self._model.voices(request, self._told(request, orders), orders, seed)
        beams = None
        if sampling.use_beam_search:
            voice = voices.pop(0)
            ends = len(sampling.stop_token_ids) + (0 if sampling.ignore_eos else len(self._eos_ids))
            beams = MockBeams(self._model, sampling, voice, partial(self._finish, request, voice), 1 + ends)
        running = _Running(request, orders, voices, beams)
        if orders.ttft_s:
            running.due_s = self._clock_s() + orders.ttft_s
        self._requests[request.request_id] = running
        self._live += sampling.n

    def _told(self, request: Request, orders: MockOrders) -> list[int] | None:
        """The tokens that the mock was told to write for this request, if it was."""
        text = orders.text if orders.text is not None else request.forced_text
        if text is None and self._replies is not None:
            text = self._replies(self._tokenizer.decode(request.prompt_ids, skip_special_tokens=False))
        return None if text is None else self._tokenizer.encode(text, add_special_tokens=False)

    def remove(self, request_id: str) -> None:
        """Drop a request; an unknown id is fine."""
        running = self._requests.pop(request_id, None)
        if running is not None:
            self._live -= running.width

    def remove_choice(self, request_id: str, choice: int) -> bool:
        """End one choice; an unknown one is fine, and so is a beam request."""
        running = self._requests.get(request_id)
        if running is None or running.beams is not None or running.voices.pop(choice, None) is None:
            return running is not None
        self._live -= 1
        if not running.voices:
            del self._requests[request_id]
        return bool(running.voices)

    def read_adapter(self, folder: str, max_rank: int | None) -> ReadAdapter:
        """Nothing is read: a name is enough to answer otherwise."""
        return {}

    def load_adapter(self, number: int, name: str, read: ReadAdapter) -> None:
        """Nothing is kept."""

    def unload_adapter(self, number: int) -> None:
        """Nothing was kept."""

    def step(self) -> list[RequestRound]:
        """Run one round of the requests that are due; see ``Executor.step``. Raises MockFailure where ``fail_at`` says
        so."""
        if self.step_delay_s:
            time.sleep(self.step_delay_s)
        self._rounds += 1
        self.sequences_run = 0
        if self.fail_at is not None and self._rounds >= self.fail_at:
            self._rounds = 0
            raise MockFailure("this mock was told to fail")
        now_s = self._clock_s()
        rounds = []
        for request_id, running in list(self._requests.items()):
            if running.due_s > now_s:
                continue
            self.sequences_run += running.width
            round_ = self._round(request_id, running)
            rounds.append(round_)
            if round_.done:
                self.remove(request_id)
            elif running.orders.token_s:
                running.due_s = now_s + running.orders.token_s
            else:
                running.due_s = 0.0
        return rounds

    def _round(self, request_id: str, running: _Running) -> RequestRound:
        """A token of each choice or beam."""
        orders = running.orders
        if running.rounds == orders.fail_after:
            return RequestRound(request_id, [], None, True, failure=TOLD_TO_FAIL)
        running.rounds += 1
        cached = min(orders.cached_tokens, len(running.request.prompt_ids) - 1) if running.rounds == 1 else 0
        if running.beams is not None:
            done = running.beams.advance()
            return RequestRound(request_id, [], running.beams.hypotheses() if done else None, done, cached)
        request = running.request
        tokens = [self._next(choice, voice, request) for choice, voice in running.voices.items()]
        for token in tokens:
            if token.finish_reason is not None:
                del running.voices[token.choice]
                self._live -= 1
        return RequestRound(request_id, tokens, None, not running.voices, cached)

    def _next(self, choice: int, voice: Voice, request: Request) -> StepToken:
        sampling = request.sampling
        token_id = self._model.next_token(voice, sampling)
        logprob, top = None, None
        if sampling.logprobs is not None or sampling.rank_by_logprob:
            logprob, top = self._model.logprobs(voice, token_id, sampling.logprobs)
        self._model.take(voice, token_id)
        finish_reason, stop_token_id = self._finish(request, voice, token_id, voice.position)
        return StepToken(choice, token_id, logprob, top, finish_reason, stop_token_id)

    def _finish(
        self, request: Request, voice: Voice, token_id: int, position: int
    ) -> tuple[FinishReason | None, int | None]:
        sampling = request.sampling
        if token_id in self._eos_ids and not sampling.ignore_eos:
            return "stop", None
        if token_id in sampling.stop_token_ids:
            return "stop", token_id
        return ("length", None) if position >= voice.most else (None, None)


def make_executor(
    *, max_position_embeddings: int = 131072, step_delay_s: float = 0.0, fail_at: int | None = None
) -> MockExecutor:
    """For ``engine.process``: a MockExecutor in a process of its own."""
    return MockExecutor(max_position_embeddings=max_position_embeddings, step_delay_s=step_delay_s, fail_at=fail_at)
