"""What the engine's rounds mean as text: one request's step outputs in, choice deltas and statistics out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.text.answer import AnswerReader, Parts
from engine.text.reasoning import ThinkingCount, thinking_family
from engine.text.stops import StopStrings
from engine.text.tokenizer import TextTokenizer
from engine.types import (
    AnswerForm,
    AnswerReason,
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
            if len(progress.deltas) > len({delta.index for delta in progress.deltas}):
                progress.deltas = merge_deltas([progress.deltas])
        is_beam_round = self._request.sampling.use_beam_search and output.beams is None
        self._count_rounds(output.batch_size, 1 if is_beam_round else self._generated - len(self.stats.batch_size))
        if self.finished:
            self._trim_rounds()
        return progress

    def stop(self) -> list[ChoiceDelta]:
        """End every open choice where it stands, with the text that was held back; each stops as if it had ended."""
        open_choices = [choice for choice in map(self._choice, range(len(self._choices))) if not choice.finished]
        self._open = 0
        deltas = [choice.stop() for choice in open_choices]
        self._trim_rounds()
        return deltas

    def _choice(self, index: int) -> _ChoiceText:
        choice = self._choices[index]
        if choice is None:
            choice = self._choices[index] = _ChoiceText(
                index, self._request, self._tokenizer, self._stops, self._follows_text
            )
        return choice

    def _push(self, index: int, token: StepToken) -> ChoiceDelta | None:
        choice = self._choice(index)
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
    """One choice: its detokeniser, its stop strings, the parts of its text, and the tokens without a known place."""

    __slots__ = (
        "_count",
        "_detokenizer",
        "_fed",
        "_include_stop",
        "_index",
        "_length",
        "_logprobs",
        "_marker_texts",
        "_marks",
        "_matcher",
        "_read",
        "_reader",
        "_single_call",
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
        form = request.form or _NO_FORM
        thinking = None if form.thinking is None else thinking_family(form.thinking)
        self._count = None if thinking is None else ThinkingCount(thinking, form.thinking_open)
        self._reader = AnswerReader(form) if (thinking or form.tools) and not form.count_only else None
        self._single_call = form.single_call
        self._marker_texts = dict(form.markers) if request.skip_special_tokens else {}
        self._marks: deque[tuple[int, str]] = deque()
        """(code points before it, text) of each hidden mark that the reader has yet to get."""
        self._length = 0
        """Code points decoded so far."""
        self._fed = 0
        """Code points that the stop matcher let through."""
        self._read = 0
        """Code points that the reader got."""
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
        new = ""
        if not hidden:
            new = self._detokenizer.push(token.token_id, always_show=by_stop_token)
            mark = "" if by_stop_token else self._marker_texts.get(token.token_id, "")
            if mark and self._reader is not None:
                self._marks.append((self._length + len(new), mark))
            if self._count is not None:
                self._count.push(mark or new, hidden=bool(mark))
        if token.finish_reason is not None:
            new += self._detokenizer.finish()
        return self._told(new, token, hidden, token.finish_reason)

    def stop(self) -> ChoiceDelta:
        """End the choice although no more tokens come: what was held back is text now."""
        delta = self._told(self._detokenizer.finish(), None, False, "stop")
        assert delta is not None  # a last one is always told
        return delta

    def _told(self, new: str, token: StepToken | None, hidden: bool, ends: FinishReason | None) -> ChoiceDelta | None:
        """The delta of new text: with a token, or at the end without one."""
        self._length += len(new)
        text, stop_string = self._cut(new, last=ends is not None)
        placed = self._place(token, hidden, end=self._fed if stop_string is not None else None)
        reason: AnswerReason | None = "stop" if stop_string is not None else ends
        parts: Parts | None = None
        if self._reader is not None:
            parts, reason = self._take_apart(self._reader, text, stop_string, reason)
            text = parts.content
        self.finished = reason is not None
        self.reported += len(placed)
        if not (text or placed or self.finished or (parts and (parts.reasoning or parts.calls))):
            return None
        delta = ChoiceDelta(
            index=self._index,
            text=text,
            token_count=len(placed),
            tokens=[self._token_text(step, offset) for step, offset in placed] if self._logprobs else [],
            finish_reason=reason,
            stop_reason=(token.stop_token_id if token else None) if stop_string is None else stop_string,
            logprob_sum=sum(step.logprob or 0.0 for step, _ in placed),
        )
        if parts is not None:
            delta.reasoning, delta.calls = parts.reasoning, parts.calls
        if self._count is not None and self.finished:
            delta.reasoning_tokens = min(self._count.tokens, self.reported)
        return delta

    def _take_apart(
        self, reader: AnswerReader, text: str, stop_string: str | None, reason: AnswerReason | None
    ) -> tuple[Parts, AnswerReason | None]:
        """The parts that became certain with this text, and why the choice ended, if it has."""
        parts = Parts()
        while self._marks and self._marks[0][0] <= self._read + len(text):
            place, mark = self._marks.popleft()
            before, text = text[: place - self._read], text[place - self._read :]
            parts.add(reader.feed(before))
            parts.add(reader.feed(mark, hidden=True))
            self._read = place
        parts.add(reader.feed(text))
        self._read += len(text)
        if stop_string is not None and not self._include_stop and reader.inside_thinking:
            parts.add(reader.feed(stop_string))  # the contract keeps it there
        if reason is None and self._single_call and reader.calls_whole:
            return parts, "tool_calls"
        if reason is not None:
            rest = reader.finish()
            parts.add(rest)
            # Text that was held back until the budget cut it off may have been the beginning of another call.
            if reader.calls_whole and not (reason == "length" and rest.content.strip()):
                reason = "tool_calls"
        return parts, reason

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

    def _place(self, token: StepToken | None, hidden: bool, end: int | None) -> Sequence[tuple[StepToken, int]]:
        """The tokens whose offset is known now; those that start at ``end``, where a stop string ended, are dropped."""
        if self._unplaced is None:
            return () if token is None else ((token, 0),)
        if token is not None:
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


_NO_FORM: Final = AnswerForm()


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
        reasoning="".join(part.reasoning for part in parts),
        calls=[piece for part in parts for piece in part.calls],
        reasoning_tokens=parts[-1].reasoning_tokens,
    )
