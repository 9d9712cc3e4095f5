"""What the native step must refuse: one way of being wrong each, at random places and with random values."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from engine.plan import Span
from tools.fuzz.subject import Subject

_FAR = (2**15, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64, 2**64 + 1, 2**100)

WrongPlan = Callable[[random.Random, Subject], Span]
WrongBeginning = Callable[[random.Random, Subject], tuple[int, int, int]]
WrongCopy = Callable[[random.Random, Subject], tuple[list[int], list[int]]]


def outside(draw: random.Random, end: int) -> int:
    """A number below 0, or not below ``end``."""
    far = [number for number in _FAR if number >= end]
    return draw.choice([-1, end, end + 1, draw.choice(far), -draw.choice(_FAR)])


def _span(draw: random.Random, subject: Subject) -> Span:
    """A span that could be run, over pages of no matter whom."""
    size, pages = subject.runner.page_size, subject.runner.num_pages
    most = min(subject.case.positions, pages * size)
    count = draw.randint(1, min(most, draw.choice([1, 3, 100])))
    start = draw.randint(0, most - count)
    needed = -(-(start + count) // size)
    vocab = subject.runner.info.vocab_size
    ids = [draw.randrange(vocab) for _ in range(count)]
    return Span([draw.randrange(pages) for _ in range(needed)], start, ids, draw.random() < 0.5)


def _token(draw: random.Random, subject: Subject) -> Span:
    span = _span(draw, subject)
    span.token_ids[draw.randrange(len(span.token_ids))] = outside(draw, subject.runner.info.vocab_size)
    return span


def _page(draw: random.Random, subject: Subject) -> Span:
    span = _span(draw, subject)
    pages = list(span.pages)
    pages[draw.randrange(len(pages))] = outside(draw, subject.runner.num_pages)
    return replace(span, pages=pages)


def _start(draw: random.Random, subject: Subject) -> Span:
    return replace(_span(draw, subject), start=outside(draw, subject.case.positions))


def _wanted(draw: random.Random, subject: Subject) -> Span:
    """Logits of more tokens than there are, or of fewer than none."""
    span = _span(draw, subject)
    return replace(span, wanted=outside(draw, len(span.token_ids) + 1))


def _end(draw: random.Random, subject: Subject) -> Span:
    """Begins in bounds and ends beyond, with pages enough."""
    span, positions = _span(draw, subject), subject.case.positions
    count = positions - span.start + draw.randint(1, 40)
    needed = -(-(span.start + count) // subject.runner.page_size)
    pages = [draw.randrange(subject.runner.num_pages) for _ in range(needed)]
    return replace(span, pages=pages, token_ids=[0] * count)


def _short(draw: random.Random, subject: Subject) -> Span:
    span = _span(draw, subject)
    return replace(span, pages=list(span.pages)[: draw.randrange(len(span.pages))])


def _empty(draw: random.Random, subject: Subject) -> Span:
    return replace(_span(draw, subject), token_ids=[])


WRONG_PLANS: dict[str, WrongPlan] = {
    "a token id out of bounds": _token,
    "a page out of bounds": _page,
    "a start out of bounds": _start,
    "wanted rows out of bounds": _wanted,
    "an end out of bounds": _end,
    "too few pages": _short,
    "a span without tokens": _empty,
}


def _copy(draw: random.Random, subject: Subject) -> tuple[list[int], list[int]]:
    pages = list(range(subject.runner.num_pages))
    draw.shuffle(pages)
    count = draw.randint(0, len(pages) // 2)
    return pages[:count], pages[count : 2 * count]


def _wrong_source(draw: random.Random, subject: Subject) -> tuple[list[int], list[int]]:
    source, target = _copy(draw, subject)
    place = draw.randint(0, len(source))
    source.insert(place, outside(draw, subject.runner.num_pages))
    target.insert(place, draw.randrange(subject.runner.num_pages))
    return source, target


def _wrong_target(draw: random.Random, subject: Subject) -> tuple[list[int], list[int]]:
    source, target = _wrong_source(draw, subject)
    return target, source


def _unlike(draw: random.Random, subject: Subject) -> tuple[list[int], list[int]]:
    source, target = _copy(draw, subject)
    return source, [*target, draw.randrange(subject.runner.num_pages)]


def _onto_itself(draw: random.Random, subject: Subject) -> tuple[list[int], list[int]]:
    source, target = _copy(draw, subject)
    page = draw.randrange(subject.runner.num_pages)
    return [*source, page], [page, *target]


WRONG_COPIES: dict[str, WrongCopy] = {
    "a source out of bounds": _wrong_source,
    "a target out of bounds": _wrong_target,
    "lists of different lengths": _unlike,
    "a page that is source and target": _onto_itself,
}


def _beginning(draw: random.Random, subject: Subject) -> tuple[int, int, int]:
    page, other = (draw.randrange(subject.runner.num_pages) for _ in range(2))
    return page, other, draw.randint(1, subject.runner.page_size)


def _beginning_source(draw: random.Random, subject: Subject) -> tuple[int, int, int]:
    _, target, tokens = _beginning(draw, subject)
    return outside(draw, subject.runner.num_pages), target, tokens


def _beginning_target(draw: random.Random, subject: Subject) -> tuple[int, int, int]:
    source, _, tokens = _beginning(draw, subject)
    return source, outside(draw, subject.runner.num_pages), tokens


def _beginning_tokens(draw: random.Random, subject: Subject) -> tuple[int, int, int]:
    source, target, _ = _beginning(draw, subject)
    return source, target, draw.choice([0, outside(draw, subject.runner.page_size + 1)])


WRONG_BEGINNINGS: dict[str, WrongBeginning] = {
    "a beginning's source out of bounds": _beginning_source,
    "a beginning's target out of bounds": _beginning_target,
    "no beginning of so many tokens": _beginning_tokens,
}
