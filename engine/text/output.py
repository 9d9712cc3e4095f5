"""What the engine's rounds mean as text: one request's step outputs in, choice deltas and statistics out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.text.stops import StopStrings
from engine.text.tokenizer import TextTokenizer
from engine.types import (
    ChoiceDelta,
    FinishReason,
    Request,
    Stats,
    StepOutput,
    StepToken,
    TokenCandidate,
    TokenText,
)


@dataclass(slots=True)
class Progress:
    """What one round brought for one request."""

    deltas: list[ChoiceDelta]
    """At most one per choice, in choice order."""
    ended_by_text: list[int]
    """Choices that a stop string ended while the engine still runs them; the engine must be told."""


class RequestText:
    """The text, tokens and statistics of one request while it runs."""

    def __init__(self, request: Request, tokenizer: TextTokenizer) -> None:
        self.stats = Stats(prompt_tokens=len(request.prompt_ids))
        self._request = request
        self._tokenizer = tokenizer
        self._stops = StopStrings(request.stop) if request.stop else None
        self._follows_text = request.continues_prompt and _shows_text(request, tokenizer)
        self._choices: list[_ChoiceText | None] = [None] * request.sampling.n
        self._open = request.sampling.n
        self._generated = 0
        """Tokens of the longest choice, reported or not."""
        self._waited_us = 0
        self._elapsed_us = 0
        """Both since the last token of the longest choice."""

    @property
    def finished(self) -> bool:
        """Every choice has its finish reason."""
        return self._open == 0

    @property
    def open_choices(self) -> int:
        """Choices without a finish reason."""
        return self._open

    def take(self, output: StepOutput) -> Progress:
        """Account for one round. Tokens of choices that ended already are dropped."""
        self._waited_us += output.queue_wait_us
        self._elapsed_us += output.queue_wait_us + output.step_us
        if output.cached_tokens:
            self.stats.cached_tokens = output.cached_tokens
        progress = Progress([], [])
        if output.beams is not None:
            for index, beam in enumerate(output.beams[: len(self._choices)]):
                deltas = [delta for token in beam.tokens if (delta := self._push(index, token))]
                progress.deltas += merge_deltas([deltas])
        else:
            for token in output.tokens:
                delta = self._push(token.choice, token)
                if delta is not None:
                    progress.deltas.append(delta)
                    if delta.finish_reason is not None and token.finish_reason is None:
                        progress.ended_by_text.append(token.choice)
        is_beam_round = self._request.sampling.use_beam_search and output.beams is None
        self._count_rounds(output.batch_size, 1 if is_beam_round else self._generated - len(self.stats.batch_size))
        if self.finished:
            self._trim_rounds()
        return progress

    def _push(self, index: int, token: StepToken) -> ChoiceDelta | None:
        choice = self._choices[index]
        if choice is None:
            choice = self._choices[index] = _ChoiceText(
                index, self._request, self._tokenizer, self._stops, self._follows_text
            )
        if choice.finished:
            return None
        delta = choice.push(token)
        self._generated = max(self._generated, choice.generated)
        self._open -= choice.finished
        return delta

    def _count_rounds(self, batch_size: int, tokens: int) -> None:
        """Enter a round that made the longest choice ``tokens`` longer; several tokens share its time evenly."""
        if tokens <= 0:
            return
        self.stats.batch_size += [batch_size] * tokens
        self.stats.queue_wait_us += [self._waited_us] + [0] * (tokens - 1)
        self.stats.round_ms += [self._elapsed_us / 1000 / tokens] * tokens
        self._waited_us = self._elapsed_us = 0

    def _trim_rounds(self) -> None:
        longest = max(choice.reported for choice in self._choices if choice is not None)
        for series in (self.stats.batch_size, self.stats.queue_wait_us, self.stats.round_ms):
            del series[longest:]


class _ChoiceText:
    """One choice: its detokeniser, its stop strings, and the tokens whose place in the text is not known yet."""

    __slots__ = (
        "_detokenizer",
        "_fed",
        "_include_stop",
        "_index",
        "_length",
        "_logprobs",
        "_matcher",
        "_tokenizer",
        "_unplaced",
        "finished",
        "generated",
        "reported",
    )

    def __init__(
        self, index: int, request: Request, tokenizer: TextTokenizer, stops: StopStrings | None, follows_text: bool
    ) -> None:
        self._index = index
        self._tokenizer = tokenizer
        self._logprobs = request.sampling.logprobs is not None
        self._include_stop = request.include_stop_str_in_output
        self._matcher = stops.matcher() if stops else None
        places_matter = self._logprobs or self._matcher is not None
        self._detokenizer = tokenizer.detokenizer(
            skip_special_tokens=request.skip_special_tokens, track_offsets=places_matter, follows_text=follows_text
        )
        self._unplaced: deque[StepToken] | None = deque() if places_matter else None
        self._length = 0
        """Code points decoded so far."""
        self._fed = 0
        """Code points that the stop matcher let through."""
        self.finished = False
        self.generated = 0
        self.reported = 0

    def push(self, token: StepToken) -> ChoiceDelta | None:
        """Take the next token; None when there is nothing to tell yet."""
        self.generated += 1
        ends = token.finish_reason == "stop"
        by_stop_token = ends and token.stop_token_id is not None
        # The text of an end-of-sequence token is never shown; that of a stop token only where stops are included.
        hidden = ends and not (by_stop_token and self._include_stop)
        new = "" if hidden else self._detokenizer.push(token.token_id, always_show=by_stop_token)
        if token.finish_reason is not None:
            new += self._detokenizer.finish()
        self._length += len(new)
        text, stop_string = self._cut(new, last=token.finish_reason is not None)
        placed = self._place(token, hidden, end=self._fed if stop_string is not None else None)
        finish_reason: FinishReason | None = "stop" if stop_string is not None else token.finish_reason
        self.finished = finish_reason is not None
        self.reported += len(placed)
        if not (text or placed or self.finished):
            return None
        return ChoiceDelta(
            index=self._index,
            text=text,
            token_count=len(placed),
            tokens=[self._token_text(step, offset) for step, offset in placed] if self._logprobs else [],
            finish_reason=finish_reason,
            stop_reason=token.stop_token_id if stop_string is None else stop_string,
            logprob_sum=sum(step.logprob or 0.0 for step, _ in placed),
        )

    def _cut(self, new: str, last: bool) -> tuple[str, str | None]:
        """The text that may go out now, and the stop string that ends it."""
        if self._matcher is None:
            return new, None
        text, stop_string = self._matcher.feed(new)
        if last and stop_string is None:
            text += self._matcher.finish()
        self._fed += len(text)
        if stop_string is not None and not self._include_stop:
            text = text[: len(text) - len(stop_string)]
        return text, stop_string

    def _place(self, token: StepToken, hidden: bool, end: int | None) -> Sequence[tuple[StepToken, int]]:
        """The tokens whose offset is known now; those that start at ``end``, where a stop string ended, are dropped."""
        if self._unplaced is None:
            return ((token, 0),)
        self._unplaced.append(token)
        offsets = list(self._detokenizer.take_offsets())
        if hidden:
            offsets.append(self._length)
        placed = [(self._unplaced.popleft(), offset) for offset in offsets]
        return placed if end is None else [(step, offset) for step, offset in placed if offset < end]

    def _token_text(self, step: StepToken, offset: int) -> TokenText:
        top = [self._candidate(token_id, logprob) for token_id, logprob in step.top or ()]
        return TokenText(self._candidate(step.token_id, step.logprob or 0.0), top, offset)

    def _candidate(self, token_id: int, logprob: float) -> TokenCandidate:
        raw = self._tokenizer.token_bytes(token_id)
        return TokenCandidate(token_id, self._tokenizer.token_text(token_id), raw, logprob)


def _shows_text(request: Request, tokenizer: TextTokenizer) -> bool:
    """Whether the prompt has any text under the request's own rule for special tokens."""
    hidden = tokenizer.special_ids if request.skip_special_tokens else frozenset[int]()
    return any(token_id not in hidden and tokenizer.token_bytes(token_id) for token_id in request.prompt_ids)


def merge_deltas(rounds: Iterable[Sequence[ChoiceDelta]]) -> list[ChoiceDelta]:
    """Several rounds' deltas of one request as one round: one delta per choice, in choice order."""
    by_choice: dict[int, list[ChoiceDelta]] = {}
    for deltas in rounds:
        for delta in deltas:
            by_choice.setdefault(delta.index, []).append(delta)
    return [_merge(by_choice[index]) for index in sorted(by_choice)]


def _merge(parts: list[ChoiceDelta]) -> ChoiceDelta:
    if len(parts) == 1:
        return parts[0]
    return ChoiceDelta(
        index=parts[0].index,
        text="".join(part.text for part in parts),
        token_count=sum(part.token_count for part in parts),
        tokens=[token for part in parts for token in part.tokens],
        finish_reason=parts[-1].finish_reason,
        stop_reason=parts[-1].stop_reason,
        logprob_sum=sum(part.logprob_sum for part in parts),
    )
