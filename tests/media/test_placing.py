"""Laws of prompts with media: what stands where, whatever the order of text and media."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.types import MediaKind
from handlers.errors import Problem
from handlers.media.parts import MediaPart, PreparedMedia
from handlers.media.placing import Placing
from handlers.settings import Limits

TOKENS: tuple[tuple[MediaKind, int], ...] = (("image", 100), ("video", 101), ("audio", 102))
TOKEN_OF = dict(TOKENS)
KIND_OF = {token: kind for kind, token in TOKENS}

prompts = st.lists(st.integers(0, 9) | st.sampled_from(sorted(KIND_OF)), max_size=30)


def prepared(ids: list[int], sizes: list[int]) -> list[PreparedMedia]:
    """A medium for each placeholder, all images first, as some templates put them."""
    kinds = sorted((KIND_OF[token] for token in ids if token in KIND_OF), key=["image", "video", "audio"].index)
    return [
        PreparedMedia(MediaPart(kind, f"part[{index}]", "x"), size, bytes([index]), f"/{index}")
        for index, (kind, size) in enumerate(zip(kinds, sizes, strict=False))
    ]


def placing(ids: list[int], media: list[PreparedMedia], most: int = 10**6) -> Placing:
    """For a deployment that takes so many tokens."""
    return Placing(ids, [each.part for each in media], TOKENS, Limits(most + 1, most, most))


@given(prompts, st.lists(st.integers(1, 50), min_size=30, max_size=30))
def test_every_medium_stands_once_in_a_prompt_that_keeps_its_text(ids: list[int], sizes: list[int]) -> None:
    """Runs of one placeholder, in the prompt's order, apart from each other; of a kind in the order of the parts."""
    media = prepared(ids, sizes)
    made = placing(ids, media)
    for each in media:
        made.add(each)
    found, items = made.placed()

    assert all(found[item.start : item.start + item.tokens] == [TOKEN_OF[item.kind]] * item.tokens for item in items)
    assert all(before.start + before.tokens <= after.start for before, after in pairwise(items))
    assert [token for token in found if token not in KIND_OF] == [token for token in ids if token not in KIND_OF]
    assert len(found) == len(ids) + sum(item.tokens - 1 for item in items)
    for kind in TOKEN_OF:
        shown = [(item.content_hash, item.tokens, item.features) for item in items if item.kind == kind]
        assert shown == [(each.content_hash, each.tokens, each.features) for each in media if each.part.kind == kind]


@given(prompts, st.lists(st.integers(1, 50), min_size=30, max_size=30), st.integers(0, 200))
def test_the_first_medium_beyond_the_limit_is_the_one_that_is_named(
    ids: list[int], sizes: list[int], most: int
) -> None:
    """All before it fit with the text; with none beyond, nothing is refused."""
    media = prepared(ids, sizes)
    text = sum(token not in KIND_OF for token in ids)
    sums = [text + sum(each.tokens for each in media[: index + 1]) for index in range(len(media))]
    beyond = next((index for index, total in enumerate(sums) if total > most), None)
    made = placing(ids, media, most)
    for each in media[:beyond]:
        made.add(each)
    if beyond is not None:
        with pytest.raises(Problem) as caught:
            made.add(media[beyond])
        assert (caught.value.status, caught.value.code, caught.value.param) == (
            424,
            "prompt_too_long",
            f"part[{beyond}]",
        )
