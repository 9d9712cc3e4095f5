"""Builds one step: which sequences run how many tokens, decode rows first, then prefill chunks under a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.plan import Plan, Span
from engine.sequences import Group, KVSequence


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a step may become."""

    max_batch_size: int = 200
    """Sequences that run at the same time. Beams wider than this run alone; choices beyond it run later."""
    max_prefill_batch_size: int = 50
    """Prefill chunks of one step."""
    max_prefill_tokens: int = 8192
    """Prefill tokens of one step."""
    prefill_chunk_size: int | None = None
    """Tokens of one chunk at most; None: as many as the step's budget leaves."""
    mixed_prefill_tokens: int = 512
    """Prefill tokens of a step that has decode rows: so many tokens' time a running answer waits at most for others'
    prompts between two of its tokens."""
    apart: bool = False
    """Prompts and answers run in steps of their own, which take turns; otherwise a step has both."""
    max_partial_prefills: int | None = None
    """Prompts of one step that go on in later ones; None: any number."""
    max_long_partial_prefills: int | None = None
    """Long ones among them; more of these let the next ones pass. None: any number."""
    long_prefill_tokens: int = 1024
    """A prompt of more tokens than this is a long one; the others have half of a step's budget to themselves."""
    draft_tokens: int = 0
    """Drafts of a decode row at most; 0: none. Only runners with ``same_bits`` get any."""

    def __post_init__(self) -> None:
        sizes = (self.max_batch_size, self.max_prefill_batch_size, self.max_prefill_tokens, self.mixed_prefill_tokens,
                 self.prefill_chunk_size, self.max_partial_prefills, self.max_long_partial_prefills,
                 self.long_prefill_tokens)  # fmt: skip
        if min(size for size in sizes if size is not None) < 1:
            raise ValueError("every batch limit is at least 1")
        if self.draft_tokens < 0:
            raise ValueError("the draft tokens are at least 0")


@dataclass(slots=True)
class Part:
    """One span of a step, and whose it is."""

    group: Group
    sequence: KVSequence
    span: Span
    drafts: tuple[int, ...] = ()
    """The last tokens of the span, where these are guesses."""
    accepted: int = 0
    """So many of them, from the first one, were then drawn."""


@dataclass(slots=True)
class Step:
    """What runs next."""

    plan: Plan
    parts: list[Part]
    """One per span, in span order."""


def build_step(running: Sequence[Group], limits: BatchLimits, after_prefills: bool = False) -> Step:
    """The next step of the running groups, which come oldest first and have their pages.

    First one token of each sequence that lacks just its newest; then chunks of those that lack more, the oldest
    first, until ``max_prefill_batch_size`` chunks or the budget are used up. The budget is ``max_prefill_tokens``, or
    ``mixed_prefill_tokens`` when that is less and there is a decode row; as it is at least 1, the oldest prefill goes
    on in every step. Long prompts leave up to half of it to the others, so that nobody waits for all of a long prompt
    that came before. A prompt with media goes on as far as their embeddings are there. Where prefills run ``apart``,
    one of the two is left out if there are both.

    Args:
        running: the groups.
        limits: how large the step may become.
        after_prefills: the step before had prefills, so that it is the decode rows' turn where they run apart.
    """
    parts: list[Part] = []
    prefills: list[Group] = []
    for group in running:
        media = group.state.media
        if not group.ready or (media is not None and group.sequences[0].computed < media.end):
            if media is None or any(_computable(group, sequence) > 0 for sequence in group.sequences):
                prefills.append(group)
            continue
        for sequence in group.sequences:
            span = Span(sequence.pages, sequence.computed, [sequence.tokens[-1]], True, group.state.adapter)
            if media is not None:
                span.shift = media.shift(sequence.computed)
            parts.append(Part(group, sequence, span))
    budget = min(limits.max_prefill_tokens, limits.mixed_prefill_tokens) if parts else limits.max_prefill_tokens
    if limits.apart and parts and prefills:
        if after_prefills:
            prefills = []
        else:
            parts = []
    decode_count = len(parts)
    if prefills:
        _add_chunks(parts, prefills, limits, budget)
    return Step(Plan([part.span for part in parts], decode_count), parts)


def _add_chunks(parts: list[Part], prefills: list[Group], limits: BatchLimits, budget: int) -> None:
    chunks = limits.max_prefill_batch_size
    largest = limits.prefill_chunk_size or budget
    partial = partial_long = 0
    waiting = [
        _computable(group, sequence)
        for group in prefills
        for sequence in group.sequences
        if len(sequence.tokens) <= limits.long_prefill_tokens
    ]
    reserved = min(budget // 2, sum(waiting))
    for group in prefills:
        for sequence in group.sequences:
            left = sequence.left - group.in_step  # beams leave their newest tokens for one common decode step
            long = len(sequence.tokens) > limits.long_prefill_tokens
            count = min(_computable(group, sequence), largest, budget - reserved if long else budget)
            if count <= 0:
                continue
            if count < left:
                if partial == limits.max_partial_prefills or (
                    long and partial_long == limits.max_long_partial_prefills
                ):
                    continue
                partial, partial_long = partial + 1, partial_long + long
            end = sequence.computed + count
            # A prompt that is run again for its beams needs no logits: they have their tokens already.
            wanted = end == len(sequence.tokens) and group.resume is None
            chunk = sequence.tokens[sequence.computed : end]
            span = Span(sequence.pages, sequence.computed, chunk, wanted, group.state.adapter)
            if group.state.media is not None:
                span.media = group.state.media.rows(sequence.computed, end)
            parts.append(Part(group, sequence, span))
            budget -= count
            chunks -= 1
            if not long:
                reserved = max(0, reserved - count)
            if not budget or not chunks:
                return


def _computable(group: Group, sequence: KVSequence) -> int:
    """Tokens that can be run now: those before the first image, say, that waits for the encoder."""
    left, media = sequence.left - group.in_step, group.state.media
    return left if media is None else min(left, media.ready_end(sequence.computed) - sequence.computed)
