"""From step outputs to deltas: text, stops, logprob places, exact counts and statistics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_tokenizers import families

from engine.text.output import RequestText, merge_deltas
from engine.types import BeamHypothesis, ChoiceDelta, Request, SamplingParams, StepOutput, StepToken

FAMILIES = families()
MOCK = FAMILIES["byte-level"]
EOS = MOCK.eos_token_ids[-1]
TURN_START = next(iter(MOCK.special_ids - set(MOCK.eos_token_ids)))


def request(*, stop=(), include=False, skip=True, **sampling):
    """A request whose sampling does not matter here but for its counts."""
    return Request(
        "r",
        (1, 2, 3),
        SamplingParams(max_tokens=100, **sampling),
        stop=tuple(stop),
        include_stop_str_in_output=include,
        skip_special_tokens=skip,
    )


def run(ids, req=None, *, last=None, tokenizer=MOCK):
    """(joined delta, every delta, RequestText) of one choice; ``last`` holds fields of the last token."""
    text = RequestText(req or request(), tokenizer)
    deltas = []
    for position, token_id in enumerate(ids):
        token = StepToken(0, token_id, -0.5, ((token_id, -0.5), (65, -2.0)))
        if position == len(ids) - 1:
            for name, value in (last or {"finish_reason": "length"}).items():
                setattr(token, name, value)
        deltas += text.take(StepOutput("r", 1, 10, 1000, [token])).deltas
    (joined,) = merge_deltas([[delta] for delta in deltas])
    return joined, deltas, text


SPLIT_TEXT = st.text(alphabet="ab 中文é😀🚀\n", max_size=30)
STOPS = st.lists(st.text(alphabet="ab 中é😀", min_size=1, max_size=3), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(text=SPLIT_TEXT.filter(bool), stops=STOPS, include=st.booleans(), data=st.data())
def test_streamed_text_with_stops_equals_the_rule_on_the_whole_text(text, stops, include, data):
    """However a text is split into tokens, inside characters too, it comes out cut at the first stop."""
    # Either the tokenizer's own split, or single bytes.
    ids = MOCK.encode(text, add_special_tokens=False) if data.draw(st.booleans()) else list(text.encode())
    joined, _, _ = run(ids, request(stop=stops, include=include))
    ends = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if ends:
        end, _, stop = min(ends)
        assert joined.text == (text[:end] if include else text[: end - len(stop)])
        assert (joined.finish_reason, joined.stop_reason) == ("stop", stop)
    else:
        assert (joined.text, joined.finish_reason, joined.stop_reason) == (text, "length", None)


@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(0, MOCK.vocab_size - 1), min_size=1, max_size=20), skip=st.booleans())
def test_without_stops_the_deltas_are_the_whole_decode(ids, skip):
    """Text equals decoding all ids at once, and every token is counted once."""
    joined, _, _ = run(ids, request(skip=skip))
    assert joined.text == MOCK.decode(ids, skip_special_tokens=skip)
    assert joined.token_count == len(ids)


LLAMA2 = FAMILIES["llama2"]
THE, A, START = (
    next(number for number in range(LLAMA2.vocab_size) if LLAMA2.token_string(number) == token)
    for token in ("▁the", "▁a", "<s>")
)


@pytest.mark.parametrize(
    ("prompt", "continues", "skip", "shown"),
    [
        ((START, THE), True, True, " a the"),  # a continuation: "the" + " a the" is what both decode to
        ((START, THE), False, True, "a the"),  # a message of its own
        ((START,), True, True, "a the"),  # the prompt has no text, so this is the start of one
        ((START,), True, False, " a the"),  # "<s>" is text here
    ],
)
def test_the_first_space_stays_where_the_text_goes_on_with_the_prompts(prompt, continues, skip, shown):
    """Llama 2's decoder drops the first space of a text; prompt and continuation are one text, a message is not."""
    sent = replace(request(skip=skip), prompt_ids=prompt, continues_prompt=continues)
    joined, _, _ = run([A, THE], sent, tokenizer=LLAMA2)
    assert joined.text == shown
    if continues:
        whole = LLAMA2.decode([*prompt, A, THE], skip_special_tokens=skip)
        assert LLAMA2.decode(prompt, skip_special_tokens=skip) + joined.text == whole


def test_a_stop_string_ends_the_choice_and_tells_the_engine():
    """The token that completes "ND" is the last one; the engine still runs the choice and must be told."""
    text = RequestText(request(stop=["ND"]), MOCK)
    progress = [text.take(StepOutput("r", 1, 0, 0, [StepToken(0, byte)])) for byte in b"END of"]
    assert [part.ended_by_text for part in progress] == [[], [], [0], [], [], []]
    (joined,) = merge_deltas(part.deltas for part in progress)
    assert (joined.text, joined.token_count, joined.finish_reason, joined.stop_reason) == ("E", 3, "stop", "ND")


def test_tokens_that_the_engine_made_after_the_stop_are_dropped():
    """A late token of an ended choice changes neither text nor counts nor statistics."""
    _, _, text = run(b"aXb", request(stop=["X"]))
    assert text.finished
    assert text.take(StepOutput("r", 1, 0, 0, [StepToken(0, 66)])).deltas == []
    assert len(text.stats.batch_size) == 2


def test_held_text_is_released_at_the_end():
    """A tail that looked like a stop string is text when the budget is spent."""
    joined, deltas, _ = run(b"xEN", request(stop=["END"]))
    assert [delta.text for delta in deltas] == ["x", "", "EN"]
    assert (joined.text, joined.finish_reason) == ("xEN", "length")


def test_unrelated_text_is_not_held():
    """With a long stop string, text that cannot begin it comes out with its own token."""
    _, deltas, _ = run(b"hello", request(stop=["E" * 1000]))
    assert [delta.text for delta in deltas] == ["h", "e", "l", "l", "o"]


@pytest.mark.parametrize("skip", [True, False])
def test_the_text_of_the_ending_eos_is_never_shown(skip):
    """It is counted as a token, and finish_reason is stop without a stop_reason."""
    joined, _, _ = run([72, 105, EOS], request(skip=skip), last={"finish_reason": "stop"})
    assert (joined.text, joined.token_count, joined.finish_reason, joined.stop_reason) == ("Hi", 3, "stop", None)


@pytest.mark.parametrize(("skip", "shown"), [(True, "ab"), (False, "a<|im_end|>b")])
def test_ignored_eos_text_follows_skip_special_tokens(skip, shown):
    """With ignore_eos the token does not end the choice and is text like any special token."""
    joined, _, _ = run([97, EOS, 98], request(skip=skip, ignore_eos=True))
    assert joined.text == shown


@pytest.mark.parametrize(
    ("include", "token_id", "shown"),
    [(False, 33, "Hi"), (True, 33, "Hi!"), (False, TURN_START, "Hi"), (True, TURN_START, "Hi<|im_start|>")],
)
def test_stop_token_text_is_shown_only_where_stops_are_included(include, token_id, shown):
    """With include_stop_str_in_output even a special stop token's text is kept, though special tokens are skipped."""
    last = {"finish_reason": "stop", "stop_token_id": token_id}
    joined, _, _ = run([72, 105, token_id], request(include=include, stop_token_ids=(token_id,)), last=last)
    assert (joined.text, joined.token_count, joined.stop_reason) == (shown, 3, token_id)


def test_include_without_any_stop_does_nothing():
    """The terminating EOS stays hidden."""
    joined, _, _ = run([72, EOS], request(include=True), last={"finish_reason": "stop"})
    assert joined.text == "H"


def test_unfinished_bytes_before_the_end_are_flushed():
    """Two bytes of 中 before the EOS become U+FFFD."""
    joined, _, _ = run([97, 0xE4, 0xB8, EOS], last={"finish_reason": "stop"})
    assert joined.text == "a\ufffd"


def test_logprob_tokens_and_their_offsets():
    """Every token is reported once, with texts, raw bytes and the code point offset of its character."""
    joined, _, _ = run([97, *"中".encode(), 98, EOS], request(logprobs=2), last={"finish_reason": "stop"})
    assert [token.text_offset for token in joined.tokens] == [0, 1, 1, 1, 2, 3]
    assert [token.token.text for token in joined.tokens] == ["a", "\ufffd", "\ufffd", "\ufffd", "b", "<|im_end|>"]
    assert joined.tokens[1].token.raw == b"\xe4"
    assert [(top.text, top.logprob) for top in joined.tokens[0].top] == [("a", -0.5), ("A", -2.0)]
    assert joined.token_count == len(joined.tokens) == 6
    assert joined.logprob_sum == pytest.approx(-3.0)


def test_without_logprobs_no_tokens_are_reported():
    """The counts are there all the same, and the sum that ranks choices."""
    joined, _, _ = run(b"ab", request(rank_by_logprob=True))
    assert (joined.tokens, joined.token_count, joined.logprob_sum) == ([], 2, -1.0)


def test_tokens_past_the_stop_are_not_reported():
    """A run of byte tokens is text only when it ends: those after the stop string's end are not part of the answer."""
    tokenizer = FAMILIES["gemma"]
    spelled = {tokenizer.token_string(number): number for number in range(tokenizer.vocab_size)}
    ids = [spelled["b"], *(spelled[f"<0x{byte:02X}>"] for byte in "é中中".encode()), spelled["b"]]
    joined, _, text = run(ids, request(stop=["é中"], logprobs=0), tokenizer=tokenizer)
    assert (joined.text, joined.token_count, len(joined.tokens)) == ("b", 6, 6)
    assert len(text.stats.batch_size) == 6


@settings(max_examples=100, deadline=None)
@given(
    family=st.sampled_from(sorted(FAMILIES)),
    data=st.data(),
    stops=st.lists(st.sampled_from(["b", " a", "\ufffd", "中", "é", "\ufffdb"]), max_size=2),
)
def test_counts_tokens_and_rounds_agree(family, data, stops):
    """In every family: token_count adds up to the reported tokens, and each statistic has one entry a token."""
    tokenizer = FAMILIES[family]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), min_size=1, max_size=15))
    joined, _, text = run(ids, request(stop=stops, logprobs=1), tokenizer=tokenizer)
    assert joined.token_count == len(joined.tokens) <= len(ids)
    assert joined.finish_reason is not None
    stats = text.stats
    assert len(stats.batch_size) == len(stats.queue_wait_us) == len(stats.round_ms) == joined.token_count


def test_statistics_follow_the_longest_choice():
    """Two choices of one and three tokens: three rounds, with the round's batch size, its wait and its whole time."""
    text = RequestText(request(n=2), MOCK)
    text.take(
        StepOutput("r", 5, 700, 3000, [StepToken(0, 65, finish_reason="stop"), StepToken(1, 65)], cached_tokens=2)
    )
    text.take(StepOutput("r", 4, 20, 1000, [StepToken(1, 65)]))
    text.take(StepOutput("r", 3, 30, 2000, [StepToken(1, 65, finish_reason="length")]))
    assert text.stats.batch_size == [5, 4, 3]
    assert text.stats.queue_wait_us == [700, 20, 30]
    assert text.stats.round_ms == [3.7, 1.02, 2.03]
    assert (text.stats.prompt_tokens, text.stats.cached_tokens) == (3, 2)
    assert text.finished


def test_a_round_without_a_token_counts_towards_the_next():
    """A prompt that runs in several rounds: its first entry covers all of them."""
    text = RequestText(request(), MOCK)
    text.take(StepOutput("r", 2, 500, 1000))
    text.take(StepOutput("r", 3, 100, 2000, [StepToken(0, 65)]))
    assert text.stats.batch_size == [3]
    assert text.stats.queue_wait_us == [600]
    assert text.stats.round_ms == [3.6]


def test_beams_arrive_at_the_end_best_first():
    """Rounds before bring statistics alone; the last one whole choices, with as many entries as the longest beam."""
    text = RequestText(request(n=2, use_beam_search=True), MOCK)
    for _ in range(3):
        assert text.take(StepOutput("r", 2, 0, 1000)).deltas == []
    long = [StepToken(0, 65, -0.1), StepToken(0, 66, -0.2, finish_reason="length")]
    short = [StepToken(1, 67, -0.5, finish_reason="stop")]
    progress = text.take(StepOutput("r", 2, 0, 0, beams=[BeamHypothesis(long, -0.15), BeamHypothesis(short, -0.5)]))
    first, second = progress.deltas
    assert (first.index, first.text, first.token_count, first.finish_reason) == (0, "AB", 2, "length")
    assert (second.index, second.text, second.token_count, second.finish_reason) == (1, "", 1, "stop")
    assert text.stats.batch_size == [2, 2]
    assert text.finished


def test_merging_keeps_order_and_sums():
    """Rounds of two choices become one delta each, in choice order, with the last word on how they ended."""
    merged = merge_deltas(
        [
            [ChoiceDelta(1, "x", 1, logprob_sum=-1.0)],
            [ChoiceDelta(0, "a", 1), ChoiceDelta(1, "y", 2, finish_reason="stop", stop_reason=7, logprob_sum=-2.0)],
        ]
    )
    assert merged == [
        ChoiceDelta(0, "a", 1),
        ChoiceDelta(1, "xy", 3, finish_reason="stop", stop_reason=7, logprob_sum=-3.0),
    ]


@given(SPLIT_TEXT, STOPS, st.data())
@settings(max_examples=100, deadline=None)
def test_several_tokens_in_one_round_are_those_of_several_rounds(text, stops, data):
    """One delta a choice, and joined the same text, tokens and end; each token has a share of its round's time."""
    tokens = [
        StepToken(0, token_id, -0.5, ((token_id, -0.5),))
        for token_id in [*MOCK.encode(text, add_special_tokens=False), EOS]
    ]
    tokens[-1].finish_reason = "stop"
    asked = request(stop=stops, logprobs=1)
    found = []
    for widest in (1, 4):
        taken, left, deltas = RequestText(asked, MOCK), list(tokens), []
        while left and not taken.finished:
            count = data.draw(st.integers(1, widest))
            made, left = left[:count], left[count:]
            progress = taken.take(StepOutput("r", 1, 0, 1000 * len(made), made))
            assert len(progress.deltas) <= 1
            deltas.append(progress.deltas)
        found.append((merge_deltas(deltas), len(taken.stats.round_ms), taken.finished))
    assert found[0] == found[1]
