"""Laws of the packed executor over random mixes of requests, pools, limits and times, for both kinds of runner."""

from __future__ import annotations

from dataclasses import replace

from fake_runner import VOCAB
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_play import Arrival, answer_of, ids, limits, make, play, request

from engine.drafting import MAX_ROWS, MAX_RUNNING

EOS = (7,)
LAW = settings(max_examples=80, deadline=None)
TOKENS = st.integers(0, VOCAB - 1)
BASES = st.lists(st.lists(TOKENS, min_size=1, max_size=24), min_size=1, max_size=2)

SAMPLING = st.fixed_dictionaries(
    {"max_tokens": st.integers(1, 14), "n": st.sampled_from([1, 1, 1, 2, 3, 5]), "seed": st.integers(0, 3)},
    optional={
        "temperature": st.sampled_from([0.0, 0.7, 2.0]),
        "use_beam_search": st.booleans(),
        "ignore_eos": st.booleans(),
        "repetition_penalty": st.sampled_from([0.5, 1.7]),
        "frequency_penalty": st.sampled_from([0.8]),
        "top_k": st.sampled_from([1, 3]),
        "logprobs": st.integers(0, 2),
        "stop_token_ids": st.just((3,)),
    },
)
LIMITS = limits(st.integers(1, 30), st.integers(1, 6), st.integers(1, 8))


@st.composite
def prompts(draw, bases):
    """A beginning that others may have as well, and tokens of its own."""
    base = draw(st.sampled_from(bases))
    return (*base[: draw(st.integers(0, len(base)))], *draw(st.lists(TOKENS, min_size=1, max_size=6)))


@st.composite
def schedules(draw, largest=7, cancels=True):
    """Requests, when they come, and which of them are given up."""
    bases = draw(BASES)
    arrivals = []
    for number in range(draw(st.integers(1, largest))):
        sampling = draw(SAMPLING)
        asked = request(number, draw(prompts(bases)), **sampling)
        arrival = Arrival(asked, draw(st.integers(0, 12)))
        if cancels:
            arrival.cancel_step = draw(st.none() | st.integers(0, 20))
            if not sampling.get("use_beam_search") and draw(st.booleans()):
                arrival.end_choice = (draw(st.integers(0, 20)), draw(st.integers(0, 2)))
        arrivals.append(arrival)
    return arrivals


@st.composite
def machines(draw, arrivals, rhythm=0.0, media=None):
    """An executor whose pool is often just large enough for the largest of the requests."""
    page_size = draw(st.integers(1, 5) | st.just(9) if rhythm == 0.0 else st.integers(1, 20))
    options = {"page_size": page_size, "contiguous": draw(st.booleans()), "eos": EOS, "rhythm": rhythm}
    limits, growth = draw(LIMITS), draw(st.integers(0, 12))
    probe, _ = make(num_pages=1, **options)
    largest = max(
        probe._memory.most_pages(
            len(a.request.prompt_ids),
            len(a.request.prompt_ids) + a.request.sampling.max_tokens - 1,
            a.request.sampling.n if a.request.sampling.use_beam_search else 1,
        )
        for a in arrivals
    )
    num_pages = largest + draw(st.sampled_from([0, 0, 1, 2, 5, 20, 100]))
    options["cache_pages"] = draw(st.none() | st.integers(0, num_pages))
    options["shortest_run"] = draw(st.sampled_from([1, 1, 2, 3, 8]))
    executor, fake = make(num_pages=num_pages, limits=limits, growth_tokens=growth, media=media, **options)
    return executor, fake, limits


def is_beginning(part, whole):
    """Whether what a cancelled request got is the beginning of its answer."""
    if isinstance(whole, list):
        return part in (None, whole)
    return all(tokens == whole[choice][: len(tokens)] for choice, tokens in (part or {}).items())


@LAW
@given(data=st.data())
def test_every_answer_is_the_one_alone(data):
    """Whatever company, pool, chunks, limits and removals: tokens and logprobs are those without any batch or page.

    So batched = alone, prefix hit = miss, chunk sizes do not matter, a preemption changes and repeats no token, drafts
    do neither, and n choices are those of the request's own (seed, choice). At the end no page is owned.
    """
    arrivals = data.draw(schedules())
    rhythm = data.draw(st.sampled_from([0.0, 6.0, 12.0]))
    executor, _, limits = data.draw(machines(arrivals, rhythm))
    played = play(executor, arrivals, limits.max_batch_size)
    assert played.failures == []
    for arrival in arrivals:
        name = arrival.request.request_id
        whole, got = answer_of(arrival.request, EOS, rhythm=rhythm), played.answers.get(name)
        if arrival.cancel_step is None and arrival.end_choice is None:
            assert got == whole
            assert name in played.done
        else:
            assert is_beginning(got, whole)
    assert executor.live_sequences == 0
    stats = executor.stats
    assert (stats.running, stats.waiting, stats.memory.pages_used) == (0, 0, 0)


@LAW
@given(data=st.data())
def test_steps_keep_their_limits(data):
    """Decode rows come first; chunks, their number and their tokens stay within the limits; so do the sequences.

    Each decode row has so many drafts at most, and beside more than 4 of them there is none.
    """
    arrivals = data.draw(schedules(cancels=False))
    executor, fake, limits = data.draw(machines(arrivals, data.draw(st.sampled_from([0.0, 12.0]))))
    play(executor, arrivals, limits.max_batch_size)
    widest = max(a.request.sampling.n if a.request.sampling.use_beam_search else 1 for a in arrivals)
    for starts, counts, decode_count in fake.plans:
        chunks = counts[decode_count:]
        most = limits.draft_tokens if decode_count <= MAX_RUNNING else 0
        assert all(1 <= count <= 1 + most for count in counts[:decode_count])
        assert sum(counts[:decode_count]) <= max(MAX_ROWS, decode_count)
        assert 0 not in starts[:decode_count]
        assert sum(chunks) <= limits.max_prefill_tokens
        assert not decode_count or sum(chunks) <= limits.mixed_prefill_tokens
        assert all(count <= (limits.prefill_chunk_size or count) for count in chunks)
        assert len(chunks) <= limits.max_prefill_batch_size
        assert len(counts) <= max(limits.max_batch_size, widest)


@LAW
@given(data=st.data())
def test_nobody_is_overtaken(data):
    """Requests without a common beginning get their first part of a step in order of arrival."""
    arrivals = data.draw(schedules(cancels=False))
    arrivals = [
        replace(a, request=replace(a.request, prompt_ids=(number, *a.request.prompt_ids)))
        for number, a in enumerate(arrivals)
    ]
    executor, _, limits = data.draw(machines(arrivals))
    played = play(executor, arrivals, limits.max_batch_size)
    in_order = [played.first_part[a.request.request_id] for a in sorted(arrivals, key=lambda a: a.step)]
    assert in_order == sorted(in_order)


@LAW
@given(data=st.data())
def test_a_failed_step_frees_everything(data):
    """After an exception in the middle of anything the books hold, no page is owned, and new answers are right."""
    arrivals = data.draw(schedules(cancels=False))
    executor, fake, limits = data.draw(machines(arrivals))
    fake.fail_in = data.draw(st.integers(1, 12))
    played = play(executor, arrivals, limits.max_batch_size)
    failed = {failure.request_id for failure in played.failures}
    assert failed.isdisjoint(played.done)
    for arrival in arrivals:
        name = arrival.request.request_id
        assert (name in failed) != (name in played.done)
        whole = answer_of(arrival.request, EOS)
        assert is_beginning(played.answers.get(name), whole)
        assert name in failed or played.answers[name] == whole
    assert executor.stats.memory.pages_used == 0


@LAW
@given(data=st.data())
def test_a_beam_of_width_one_is_the_likeliest_after_penalties(data):
    """The same tokens as top_k 1 with the same penalties."""
    bases = data.draw(BASES)
    sampling = {
        "max_tokens": data.draw(st.integers(1, 14)),
        "repetition_penalty": data.draw(st.sampled_from([0.5, 1.0, 1.7])),
        "presence_penalty": data.draw(st.sampled_from([0.0, 0.9])),
    }
    prompt = data.draw(prompts(bases))
    arrivals = [
        Arrival(request("beam", prompt, use_beam_search=True, **sampling)),
        Arrival(request("greedy", prompt, top_k=1, **sampling)),
    ]
    executor, _, limits = data.draw(machines(arrivals))
    played = play(executor, arrivals, limits.max_batch_size)
    assert ids(played.answers["beam"][0].tokens) == ids(played.answers["greedy"][0])


@LAW
@given(data=st.data())
def test_ranking_one_choice_is_plain(data):
    """best_of 1 asks for logprobs to rank by, which changes no token."""
    prompt = data.draw(prompts(data.draw(BASES)))
    arrivals = [
        Arrival(request("plain", prompt, max_tokens=9, seed=5)),
        Arrival(request("ranked", prompt, max_tokens=9, seed=5, rank_by_logprob=True)),
    ]
    executor, _, limits = data.draw(machines(arrivals))
    played = play(executor, arrivals, limits.max_batch_size)
    assert ids(played.answers["plain"][0]) == ids(played.answers["ranked"][0])
