"""A law where memory is just enough for beams between two requests, and a step has one part of a prompt."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from packed_play import Arrival, answer_of, greedy, make, play, request

from engine.batching import BatchLimits


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_beams_and_their_neighbours_all_end(data):
    """Whoever comes while beams give way and come back: all are answered as alone, and nobody waits for ever."""
    lengths = st.integers(3, 6)
    asked = [
        greedy("old", (4,), data.draw(lengths) + 2, ignore_eos=True),
        request("beams", (1, 2), n=data.draw(st.integers(2, 3)), max_tokens=data.draw(lengths), use_beam_search=True),
        greedy("late", data.draw(st.sampled_from([(3,), (1, 2, 3)])), 2, ignore_eos=True),
    ]
    options = {"page_size": data.draw(st.integers(2, 3)), "contiguous": data.draw(st.booleans()), "growth_tokens": 0}
    probe, _ = make(num_pages=1, **options)
    sampling = asked[1].sampling
    needed = max(
        probe._memory.most_pages(2, 1 + sampling.max_tokens, sampling.n),
        probe._memory.most_pages(1, asked[0].sampling.max_tokens, 1),
    )
    limits = BatchLimits(max_prefill_batch_size=1)
    executor, _ = make(num_pages=needed + data.draw(st.integers(0, 1)), limits=limits, shortest_run=1, **options)
    comes = [0, 1, data.draw(st.integers(2, 7))]
    played = play(executor, [Arrival(one, step) for one, step in zip(asked, comes, strict=True)])
    assert played.answers == {one.request_id: answer_of(one) for one in asked}
