"""Laws of prompts with media: any company, pool, chunks, slices and caches, and each answer is the one alone."""

from __future__ import annotations

import pytest
from fake_encoder import CONTENTS, make_desk, seen_by_model, with_media, write_contents
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_play import answer_of, play
from test_packed_laws import EOS, TOKENS, is_beginning, machines, schedules

PARTS = st.lists(st.integers(0, len(CONTENTS) - 1) | st.lists(TOKENS, min_size=1, max_size=3), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The encoder's input of every content."""
    return write_contents(tmp_path_factory.mktemp("features"))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_answer_with_media_is_the_one_alone(data, files):
    """Prompts that begin alike, with the same or other contents, beside text; preempted, forked, cut and cancelled.

    No answer has a page of another content, a token's places, or an embedding that is not its own; and with any memory
    for embeddings all of them are answered.
    """
    arrivals = data.draw(schedules())
    common = data.draw(PARTS)
    parts = {}
    for arrival in arrivals:
        own = [list(arrival.request.prompt_ids)] if data.draw(st.integers(0, 3)) == 0 else data.draw(PARTS)
        begun = common[: data.draw(st.integers(0, len(common)))]
        parts[arrival.request.request_id] = [*begun, *own, *([[5]] if data.draw(st.booleans()) else [])]
        arrival.request = with_media(arrival.request, parts[arrival.request.request_id], files)
    desk = make_desk(
        slice_s=data.draw(st.sampled_from([0.001, 0.005, 0.1])),
        cache_bytes=data.draw(st.sampled_from([0, 30, 60, 1000])),
    )
    executor, _, limits = data.draw(machines(arrivals, media=desk))
    played = play(executor, arrivals, limits.max_batch_size)
    assert played.failures == []
    for arrival in arrivals:
        name = arrival.request.request_id
        whole, got = answer_of(arrival.request, EOS, seen=seen_by_model(parts[name])), played.answers.get(name)
        if arrival.cancel_step is None and arrival.end_choice is None:
            assert got == whole
            assert name in played.done
        else:
            assert is_beginning(got, whole)
    assert executor.stats.memory.pages_used == 0
    assert executor.stats.media.embedding_bytes <= max(desk._kept.limit_bytes, 48)
