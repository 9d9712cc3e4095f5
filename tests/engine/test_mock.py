"""The mock executor: deterministic, obedient to the sampling fields, plausible, and quick."""

from __future__ import annotations

import math

import pytest

from engine.mock import MockExecutor, MockFailure
from engine.mock_model import MockModel
from engine.text.byte_tokenizer import mock_tokenizer
from engine.types import Request, SamplingParams
from tests.cpu_cost import least_cpu_s

TOKENIZER = mock_tokenizer()
EXECUTOR = MockExecutor(TOKENIZER)


def run(prompt="Hello", executor=EXECUTOR, **sampling):
    """(tokens per choice, beams) of a request that runs alone."""
    sampling.setdefault("max_tokens", 100)
    ids = tuple(TOKENIZER.encode(prompt, add_special_tokens=False))
    executor.add(Request("r", ids, SamplingParams(**sampling)))
    choices = [[] for _ in range(sampling.get("n", 1))]
    while True:
        (round_,) = executor.step()
        for token in round_.tokens:
            choices[token.choice].append(token)
        if round_.done:
            assert executor.live_sequences == 0
            return choices, round_.beams


def ids_of(tokens):
    """The token ids alone."""
    return [token.token_id for token in tokens]


def text_of(tokens):
    """The tokens decoded."""
    return TOKENIZER.decode(ids_of(tokens), skip_special_tokens=True)


def test_the_same_request_gives_the_same_tokens():
    """Also from another executor, so from another process."""
    assert run(seed=5, n=2) == run(seed=5, n=2, executor=MockExecutor(TOKENIZER))


@pytest.mark.parametrize("other", [{"seed": 2**63}, {"prompt": "Hallo"}, {"seed": 2**32 + 1}])
def test_seed_and_prompt_change_the_tokens(other):
    """Every bit of a 64-bit seed matters."""
    assert run(seed=0)[0] != run(**{"seed": 0, **other})[0]


def test_choices_differ():
    """Four drawn choices of one request are four texts."""
    assert len({text_of(choice) for choice in run(n=4)[0]}) == 4


def test_greedy_ignores_the_seed_and_the_choice():
    """Under a temperature of 1e-5 all choices are alike, whatever the seed."""
    choices, _ = run(temperature=9e-6, seed=1, n=2)
    assert ids_of(choices[0]) == ids_of(choices[1]) == ids_of(run(temperature=0.0, seed=2)[0][0])


def test_choices_end_by_themselves():
    """With room for 100 tokens every choice ends with an end-of-sequence token."""
    for seed in range(20):
        ((*before, last),) = run(seed=seed)[0]
        assert (last.finish_reason, last.stop_token_id) == ("stop", None)
        assert last.token_id in TOKENIZER.eos_token_ids
        assert not set(ids_of(before)) & set(TOKENIZER.eos_token_ids)


@pytest.mark.parametrize("max_tokens", [1, 2, 33, 200])
def test_ignoring_eos_gives_exactly_max_tokens(max_tokens):
    """And the last token says length."""
    (tokens,) = run(max_tokens=max_tokens, ignore_eos=True)[0]
    assert len(tokens) == max_tokens
    assert [token.finish_reason for token in tokens] == [None] * (max_tokens - 1) + ["length"]


def test_an_ignored_eos_still_appears():
    """As with a real model, so that skip_special_tokens has something to show."""
    (tokens,) = run(max_tokens=200, ignore_eos=True)[0]
    assert set(ids_of(tokens)) & set(TOKENIZER.eos_token_ids)


def test_a_stop_token_ends_the_choice_and_names_itself():
    """The fourth token of a known text as stop token: the text ends there."""
    (tokens,) = run(seed=3)[0]
    stop = tokens[3].token_id
    first = ids_of(tokens).index(stop)
    (stopped,) = run(seed=3, stop_token_ids=(stop,))[0]
    assert ids_of(stopped) == ids_of(tokens)[: first + 1]
    assert (stopped[-1].finish_reason, stopped[-1].stop_token_id) == ("stop", stop)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logprobs_come_from_one_distribution(temperature):
    """All 32 candidates' probabilities sum to one, descending, the chosen token among them; greedy takes the first."""
    (tokens,) = run(logprobs=32, temperature=temperature)[0]
    for token in tokens:
        candidates, values = zip(*token.top, strict=True)
        assert sum(map(math.exp, values)) == pytest.approx(1.0)
        assert list(values) == sorted(values, reverse=True)
        assert len(set(candidates)) == len(candidates) == 32
        assert dict(token.top)[token.token_id] == token.logprob
        if temperature == 0.0:
            assert candidates[0] == token.token_id


@pytest.mark.parametrize("k", [0, 1, 5])
def test_as_many_logprobs_as_asked_for(k):
    """k likeliest tokens beside the chosen one's own logprob, which does not depend on k."""
    (tokens,) = run(logprobs=k)[0]
    assert {len(token.top) for token in tokens} == {k}
    assert [token.logprob for token in tokens] == [token.logprob for token in run(logprobs=20)[0][0]]


def test_without_logprobs_none_are_made():
    """Unless they are needed to rank the choices."""
    assert {token.logprob for token in run()[0][0]} == {None}
    assert all(token.logprob < 0 and token.top is None for token in run(rank_by_logprob=True)[0][0])


@pytest.mark.parametrize("n", [1, 2, 50])
def test_beams_are_distinct_and_sorted_by_score(n):
    """The score is the mean of the tokens' logprobs; the best comes first; every beam has its finish reason."""
    choices, beams = run(n=n, use_beam_search=True, max_tokens=12, logprobs=1)
    assert choices == [[] for _ in range(n)]
    assert len({tuple(ids_of(beam.tokens)) for beam in beams}) == n
    scores = [beam.score for beam in beams]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(sum(token.logprob for token in beams[0].tokens) / len(beams[0].tokens))
    assert all(beam.tokens[-1].finish_reason in ("stop", "length") for beam in beams)


def test_the_text_has_chinese_and_emoji_split_over_tokens():
    """Over some seeds there are tokens that are no whole characters, and texts with both."""
    answers = [run(seed=seed)[0][0] for seed in range(20)]
    assert any("\ufffd" in TOKENIZER.token_text(token) for answer in answers for token in ids_of(answer))
    assert any("\u4e00" <= letter <= "\u9fff" for answer in answers for letter in text_of(answer))
    assert any(letter > "\U0001f000" for answer in answers for letter in text_of(answer))


def test_thousands_of_choices_are_quick():
    """n 8192 with max_tokens 8 takes well under a second of computing."""
    answers = []
    assert least_cpu_s(lambda: answers.append(run(n=8192, max_tokens=8, ignore_eos=True)[0])) < 1.0
    assert [len(choice) for choice in answers[0]] == [8] * 8192


def test_removed_choices_are_not_reported():
    """The other choice goes on; with the last one the request is gone."""
    executor = MockExecutor(TOKENIZER)
    executor.add(Request("r", (1,), SamplingParams(max_tokens=9, n=2)))
    assert executor.remove_choice("r", 0)
    assert [token.choice for round_ in executor.step() for token in round_.tokens] == [1]
    assert executor.sequences_run == 1
    assert not executor.remove_choice("r", 1)
    assert (executor.live_sequences, executor.step()) == (0, [])


def test_a_mock_told_to_fail_does_so_in_that_round():
    """fail_at 2: the first round works, the second raises."""
    executor = MockExecutor(TOKENIZER, fail_at=2)
    executor.add(Request("r", (1,), SamplingParams(max_tokens=9)))
    assert len(executor.step()) == 1
    with pytest.raises(MockFailure):
        executor.step()


def test_a_beam_request_grows_by_a_token_a_round(monkeypatch):
    """Admitting one that may run for a million rounds makes no token, and each round one of each beam at most."""
    made = []
    take = MockModel.take
    monkeypatch.setattr(MockModel, "take", lambda *args: made.append(1) or take(*args))
    executor = MockExecutor(TOKENIZER)

    executor.add(Request("r", (1, 2), SamplingParams(max_tokens=1000, ignore_eos=True, n=3, use_beam_search=True)))
    assert len(made) == 0
    executor.step()
    assert len(made) == 3
