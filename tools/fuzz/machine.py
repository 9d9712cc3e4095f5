"""Sequences that come, grow in company, fork and go over one runner; after every step its laws are checked."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from torch import Tensor

from engine.plan import Plan, Span
from tools.fuzz import selection
from tools.fuzz.subject import Subject
from tools.fuzz.wrong import WRONG_BEGINNINGS, WRONG_COPIES, WRONG_PLANS

MAX_ROWS = 640
"""Rows of one step: more than one pass of the native step holds."""
LARGE_TOTAL = 2000
"""Tokens of all sequences together."""


@dataclass(slots=True)
class Sequence:
    """Tokens whose keys and values lie in pages; the first ``shared`` pages belong to others as well."""

    pages: list[int]
    token_ids: list[int] = field(default_factory=list)
    shared: int = 0
    logits: Tensor | None = None
    """After each of the last tokens, ``[wanted, vocab]``; None where they were not wanted."""


class NativeMachine(RuleBasedStateMachine):
    """Subclasses say which subject is tried, and count what was done.

    A new ability of the native step gets a rule here: it does something valid with sequences that exist, and holds the
    outcome against ``subject.alone``. What it must refuse goes into ``tools/fuzz/wrong.py``.
    """

    subject: Subject
    counts: Counter[str]

    def __init__(self) -> None:
        """Begin with all pages free, whatever an earlier run left in them."""
        super().__init__()
        self.sequences: list[Sequence] = []
        self.free = list(range(self.subject.runner.num_pages))

    @rule(data=st.data(), count=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
    def step(self, data: st.DataObject, count: int, seed: int) -> None:
        """Rows of some sequences, old and new: only their pages change, and all wanted logits are numbers."""
        draw = random.Random(seed)
        grown = self._grown(draw, count, data.draw(st.sampled_from([1, 1, 3, 40, MAX_ROWS])))
        assume(grown)
        before = self.subject.memory.clone()
        logits = self.subject.runner.run(Plan([span for _, span in grown], 0))
        self.counts["rows"] += sum(len(span.token_ids) for _, span in grown)
        written, taken = set(), 0
        for sequence, span in grown:
            size = self.subject.runner.page_size
            end = span.start + len(span.token_ids)
            written.update(sequence.pages[span.start // size : -(-end // size)])
            sequence.token_ids += span.token_ids
            sequence.logits = logits[taken : taken + span.wanted].clone() if span.wanted else None
            taken += span.wanted
        assert len(logits) == taken, "not as many logits as were wanted"
        assert logits.isfinite().all(), "a logit is no finite number"
        self._only_changed(before, written)
        if len(logits):
            self.counts["selections"] += selection.compare(self.subject.runner.selector, draw, logits)
        if sum(len(sequence.token_ids) for sequence in self.sequences) > LARGE_TOTAL:
            self._drop(0)

    @precondition(lambda self: any(sequence.logits is not None for sequence in self.sequences))
    @rule(seed=st.integers(0, 2**32 - 1))
    def compare(self, seed: int) -> None:
        """A sequence's logits are the bits that it has alone, in other pieces, in other pages, token by token."""
        draw = random.Random(seed)
        sequence = draw.choice([one for one in self.sequences if one.logits is not None])
        assert sequence.logits is not None
        wanted = len(sequence.logits)
        # Those after single tokens are what drafts are judged by.
        left = len(sequence.token_ids) - wanted + 1
        pieces: list[int] = []
        most = draw.choice([1, 5, 33, MAX_ROWS])
        while left and len(pieces) < 40:
            pieces.append(draw.randint(1, min(most, left)))
            left -= pieces[-1]
        pieces += ([left] if left else []) + [1] * (wanted - 1)
        found = self.subject.alone(sequence.token_ids, pieces)[-wanted:]
        self.counts["compared"] += wanted
        assert torch.equal(found, sequence.logits), "a row has other bits alone than in company"

    @precondition(lambda self: self.sequences and self.free)
    @rule(seed=st.integers(0, 2**32 - 1))
    def fork(self, seed: int) -> None:
        """All or the first tokens: full pages are shared, the one with the last token is copied, no other changes."""
        draw = random.Random(seed)
        parent = draw.choice(self.sequences)
        whole = len(parent.token_ids)
        kept = draw.choice([whole, draw.randint(1, whole)])
        shared = kept // self.subject.runner.page_size
        logits = parent.logits if kept == whole else None
        child = Sequence(parent.pages[:shared], parent.token_ids[:kept], shared, logits)
        if kept % self.subject.runner.page_size:
            child.pages.append(self.free.pop(draw.randrange(len(self.free))))
            before = self.subject.memory.clone()
            source, target = parent.pages[shared], child.pages[-1]
            if part := draw.random() < 0.5:
                self.subject.runner.copy_beginning(source, target, kept % self.subject.runner.page_size)
            else:
                self.subject.runner.copy_pages([source], [target])
            self._only_changed(before, {target})
            assert part or torch.equal(self.subject.memory[target], before[source]), "a copy differs"
        # Its prefix stays as long as it does: the parent may not go, nor write there, which it never does.
        self.sequences.append(child)
        self.counts["forks"] += 1

    @precondition(lambda self: self.sequences)
    @rule(seed=st.integers(0, 2**32 - 1))
    def go_back(self, seed: int) -> None:
        """The last tokens of a sequence are taken back, as refused drafts are; the next ones are written over them."""
        draw = random.Random(seed)
        sequence = draw.choice(self.sequences)
        others = {page for other in self.sequences if other is not sequence for page in other.pages}
        shared = sum(page in others for page in sequence.pages)
        least = max(1, shared * self.subject.runner.page_size)
        kept = draw.randint(least, max(least, len(sequence.token_ids)))
        if kept < len(sequence.token_ids):
            del sequence.token_ids[kept:]
            sequence.logits = None
            self.counts["taken back"] += 1

    @precondition(lambda self: self.sequences)
    @rule(place=st.integers(0, 100))
    def drop(self, place: int) -> None:
        """A sequence goes, and leaves what it wrote in its pages."""
        self._drop(place % len(self.sequences))

    @rule(byte=st.sampled_from([0, 0x7F, 0x80, 0xFF]))
    def spoil(self, byte: int) -> None:
        """Free pages may hold anything, also what is no number."""
        self.subject.memory[self.free] = byte

    @rule(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(WRONG_PLANS)))
    def wrong_step(self, seed: int, kind: str) -> None:
        """What is out of bounds is a ValueError, wherever it stands in the plan, and nothing is computed."""
        draw = random.Random(seed)
        spans = [span for _, span in self._grown(draw, draw.randint(0, 3), 20, dry=True)]
        wrong = WRONG_PLANS[kind](draw, self.subject)
        spans.insert(draw.randint(0, len(spans)), wrong)
        self._refused(kind, lambda: self.subject.runner.run(Plan(spans, 0)))

    @rule(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(WRONG_COPIES)))
    def wrong_copy(self, seed: int, kind: str) -> None:
        """Likewise."""
        source, target = WRONG_COPIES[kind](random.Random(seed), self.subject)
        self._refused(kind, lambda: self.subject.runner.copy_pages(source, target))

    @rule(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(WRONG_BEGINNINGS)))
    def wrong_beginning(self, seed: int, kind: str) -> None:
        """Likewise."""
        source, target, tokens = WRONG_BEGINNINGS[kind](random.Random(seed), self.subject)
        self._refused(kind, lambda: self.subject.runner.copy_beginning(source, target, tokens))

    @precondition(lambda self: self.free)
    @rule(seed=st.integers(0, 2**32 - 1))
    def careless_step(self, seed: int) -> None:
        """In bounds but without sense (pages named twice, positions that nobody wrote): only these pages change."""
        draw = random.Random(seed)
        size, positions = self.subject.runner.page_size, self.subject.case.positions
        spans = []
        for _ in range(draw.randint(1, 40)):
            start = draw.randrange(positions)
            count = min(draw.choice([1, 1, 2, 50]), positions - start)
            pages = [draw.choice(self.free) for _ in range(-(-(start + count) // size) + draw.randint(0, 2))]
            spans.append(Span(pages, start, self._tokens(draw, count), draw.choice([0, 1, draw.randint(0, count)])))
        before = self.subject.memory.clone()
        logits = self.subject.runner.run(Plan(spans, 0))
        assert logits.shape == (sum(span.wanted for span in spans), self.subject.runner.info.vocab_size)
        self._only_changed(before, set(self.free))
        self.counts["careless"] += 1

    @rule(seed=st.integers(0, 2**32 - 1))
    def select(self, seed: int) -> None:
        """Tokens found in logits of other sizes than the model's are torch's, too."""
        draw = random.Random(seed)
        logits = selection.random_logits(draw)
        self.counts["selections"] += selection.compare(self.subject.runner.selector, draw, logits)

    @rule(seed=st.integers(0, 2**32 - 1))
    def wrong_selection(self, seed: int) -> None:
        """What is out of bounds there is refused as well."""
        self._refused("a selection", selection.wrong_call(self.subject.runner.selector, random.Random(seed)))

    @rule()
    def nothing(self) -> None:
        """A plan without rows."""
        assert self.subject.runner.run(Plan([], 0)).shape == (0, self.subject.runner.info.vocab_size)

    def _grown(self, draw: random.Random, count: int, most: int, *, dry: bool = False) -> list[tuple[Sequence, Span]]:
        """Spans for up to ``count`` sequences that have room, each of up to ``most`` tokens; MAX_ROWS in all."""
        size, positions = self.subject.runner.page_size, self.subject.case.positions
        candidates: list[Sequence] = draw.sample(self.sequences, min(len(self.sequences), count))
        candidates += [Sequence([]) for _ in range(count - len(candidates) + draw.randint(0, 1))]
        free = list(self.free)
        draw.shuffle(free)
        found, left = [], MAX_ROWS
        for sequence in candidates:
            start = len(sequence.token_ids)
            room = (len(sequence.pages) + len(free)) * size - start
            tokens = min(draw.randint(1, most), room, positions - start, left)
            if tokens < 1:
                continue
            left -= tokens
            pages = list(sequence.pages)
            while len(pages) * size < start + tokens:
                pages.append(free.pop())
            wanted = draw.choice([0, 1, 1, min(tokens, draw.choice([2, 5, 20]))])
            further = [10**9] * draw.choice([0, 0, 1])
            span = Span([*pages, *further], start, self._tokens(draw, tokens), wanted)
            found.append((sequence, span))
            if not dry:
                sequence.pages = pages
                if not start:
                    self.sequences.append(sequence)
        if not dry:
            self.free = free
        return found

    def _tokens(self, draw: random.Random, count: int) -> list[int]:
        vocab = self.subject.runner.info.vocab_size
        return [draw.choice([0, vocab - 1, draw.randrange(vocab)]) for _ in range(count)]

    def _drop(self, place: int) -> None:
        gone = self.sequences.pop(place)
        kept = {page for sequence in self.sequences for page in sequence.pages}
        self.free += [page for page in gone.pages if page not in kept]

    def _only_changed(self, before: Tensor, pages: set[int]) -> None:
        changed = (self.subject.memory != before).any(dim=1).nonzero().flatten().tolist()
        assert set(changed) <= pages, f"pages {sorted(set(changed) - pages)} were changed, which nobody wrote"

    def _refused(self, kind: str, call: Any) -> None:
        before = self.subject.memory.clone()
        try:
            call()
        except (ValueError, MemoryError):
            self.counts["refused"] += 1
        else:
            raise AssertionError(f"{kind}: taken for valid")
        assert torch.equal(self.subject.memory, before), f"{kind}: refused, but pages were changed"
