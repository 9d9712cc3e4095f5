"""Beam search against transformers' generate on the same weights."""

from __future__ import annotations

import pytest
import torch
from tiny_models import NO_EOS, beams_of, build, executor, generate, ids, raw_logits, tokens_of

from engine.types import Request, SamplingParams

PROMPTS = [(1, 5, 9), (40, 41, 42, 43, 44, 45, 46, 47), (7,)]
WIDTHS = [1, 2, 3, 4, 8]
MODELS = [("llama", 0), ("llama", 1), ("qwen2", 2)]


@pytest.fixture(scope="module", params=MODELS, ids=str)
def model(request):
    return build(*request.param)


def _generated(model, prompt, width, **options):
    """Per hypothesis: tokens up to its end, and its score."""
    answer = generate(model, prompt, num_beams=width, num_return_sequences=width, length_penalty=1.0, **options)
    eos = options.get("eos_token_id")
    found = []
    for row in answer.sequences[:, len(prompt) :].tolist():
        end = next((index + 1 for index, token in enumerate(row) if token in (eos or ())), len(row))
        found.append(row[:end])
    return found, (answer.sequences_scores.tolist() if width > 1 else None)


def _compare(model, prompt, width, eos, max_tokens):
    options = {"eos_token_id": list(eos), "pad_token_id": 0} if eos else NO_EOS
    wanted, scores = _generated(model, prompt, width, max_new_tokens=max_tokens, early_stopping=False, **options)
    found = beams_of(model, prompt, eos=eos, max_tokens=max_tokens, n=width)
    assert [ids(beam.tokens) for beam in found] == wanted
    if scores is not None:
        assert [beam.score for beam in found] == pytest.approx(scores, abs=1e-4)
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_hypotheses_that_end_by_length_equal_generate(model, prompt, width):
    """Without EOS: same hypotheses, order and scores, each ended by length."""
    found = _compare(model, prompt, width, (), 10)
    assert [beam.tokens[-1].finish_reason for beam in found] == ["length"] * width


def _likely_ends(model, prompt, count):
    """EOS ids that the search meets early: the likeliest tokens after the first greedy one."""
    first = raw_logits(model, prompt).argmax().item()
    return tuple(raw_logits(model, [*prompt, first]).topk(count).indices.tolist())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_hypotheses_that_end_by_eos_equal_generate(model, prompt, width):
    """With 1, 3, 10 or 30 likely EOS ids: same hypotheses, order and scores, and the same moment to stop."""
    ended = []
    for ends in (1, 3, 10, 30):
        found = _compare(model, prompt, width, _likely_ends(model, prompt, ends), 12)
        ended += [beam.tokens[-1].finish_reason for beam in found]
    assert "stop" in ended


@pytest.mark.parametrize("width", [2, 8])
def test_every_token_may_end_when_most_of_the_vocabulary_is_eos(model, width):
    """64 of 96 ids are EOS: the search still finds generate's hypotheses."""
    _compare(model, PROMPTS[0], width, tuple(range(64)), 6)


def test_the_search_stops_before_the_budget_where_nothing_can_improve(model):
    """With likely EOS ids some width ends long before 100 tokens, as generate does."""
    ends = _likely_ends(model, PROMPTS[0], 8)
    found = _compare(model, PROMPTS[0], 2, ends, 100)
    assert all(beam.tokens[-1].finish_reason == "stop" for beam in found)


def test_a_width_beyond_the_vocabulary_still_gives_width_hypotheses():
    """Width 8 on 6 ids: two tokens deep there are 36 texts, and the best 8 come back as from generate."""
    model = build("llama", 5, vocab_size=6)
    _compare(model, (1, 3), 8, (), 3)


def test_ignore_eos_searches_on_to_the_budget(model):
    """With ignore_eos the result is that of a model without EOS."""
    ends = _likely_ends(model, PROMPTS[0], 3)
    ignoring = beams_of(model, PROMPTS[0], eos=ends, max_tokens=8, n=3, ignore_eos=True)
    assert ignoring == beams_of(model, PROMPTS[0], eos=(), max_tokens=8, n=3)


def test_stop_tokens_end_hypotheses_like_eos_and_are_named(model):
    """Stop token ids give the hypotheses that EOS ids give, and name the matched token."""
    ends = _likely_ends(model, PROMPTS[0], 3)
    by_stop = beams_of(model, PROMPTS[0], eos=(), max_tokens=8, n=3, stop_token_ids=ends)
    by_eos = beams_of(model, PROMPTS[0], eos=ends, max_tokens=8, n=3)
    assert [ids(beam.tokens) for beam in by_stop] == [ids(beam.tokens) for beam in by_eos]
    for stopped, ended in zip(by_stop, by_eos, strict=True):
        last = stopped.tokens[-1]
        assert last.stop_token_id == (last.token_id if last.finish_reason == "stop" else None)
        assert ended.tokens[-1].stop_token_id is None


@pytest.mark.parametrize("prompt", PROMPTS)
def test_width_one_is_the_greedy_search_on_penalised_logits(model, prompt):
    """One beam with penalties equals top_k 1 sampling with the same penalties."""
    penalties = {"repetition_penalty": 1.4, "frequency_penalty": 0.8, "presence_penalty": 0.5}
    (beam,) = beams_of(model, prompt, max_tokens=12, n=1, **penalties)
    assert ids(beam.tokens) == ids(tokens_of(model, prompt, max_tokens=12, top_k=1, **penalties))


def test_temperature_filters_and_seed_do_nothing(model):
    """Hypotheses are the same at any temperature (0 too, where penalties still act), top_k, top_p and seed."""
    plain = {"max_tokens": 6, "n": 3, "repetition_penalty": 1.5}
    wanted = beams_of(model, PROMPTS[0], **plain)
    for temperature in (0.0, 2.0):
        assert beams_of(model, PROMPTS[0], temperature=temperature, top_k=2, top_p=0.1, seed=9, **plain) == wanted


def test_penalties_change_the_hypotheses(model):
    """A strong repetition penalty acts in beams."""
    plain = beams_of(model, PROMPTS[0], eos=(), max_tokens=12, n=2)
    penalised = beams_of(model, PROMPTS[0], eos=(), max_tokens=12, n=2, repetition_penalty=2.0)
    assert [ids(beam.tokens) for beam in plain] != [ids(beam.tokens) for beam in penalised]


def _best_by_trying_all(model, prompt, penalty):
    """The two likeliest two-token continuations by brute force: repetition penalty, then log-softmax."""

    def step(context):
        logits = raw_logits(model, context).double()
        for token in set(context):
            logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
        return torch.log_softmax(logits, dim=-1)

    first = step(prompt)
    totals = torch.stack([first[token] + step([*prompt, token]) for token in range(len(first))])
    best = totals.flatten().topk(2)
    return [[index // len(first), index % len(first)] for index in best.indices.tolist()], (best.values / 2).tolist()


def test_penalised_scores_equal_brute_force():
    """As wide as the vocabulary, two tokens deep, the search is exhaustive: its best two are those of trying all."""
    model = build("llama", 3, vocab_size=16)
    found = beams_of(model, [1, 4], eos=(), max_tokens=2, n=16, repetition_penalty=1.6)
    wanted, scores = _best_by_trying_all(model, [1, 4], 1.6)
    assert [ids(beam.tokens) for beam in found[:2]] == wanted
    assert [beam.score for beam in found[:2]] == pytest.approx(scores, abs=1e-5)


def test_logprobs_of_a_hypothesis_are_raw_and_add_up_to_its_score(model):
    """Each token reports its raw log-softmax and the top ones; their mean is the score."""
    found = beams_of(model, PROMPTS[0], max_tokens=5, n=3, logprobs=2)
    for beam in found:
        context = list(PROMPTS[0])
        for token in beam.tokens:
            wanted = torch.log_softmax(raw_logits(model, context), dim=-1)
            assert token.logprob == pytest.approx(wanted[token.token_id].item(), abs=1e-3)
            assert token.top is not None
            assert [token_id for token_id, _ in token.top] == wanted.topk(2).indices.tolist()
            context.append(token.token_id)
        total = sum(token.logprob or 0.0 for token in beam.tokens)
        assert beam.score == pytest.approx(total / len(beam.tokens), abs=1e-4)


def test_choices_are_numbered_best_first(model):
    """Hypothesis i holds tokens of choice i, and scores fall."""
    found = beams_of(model, PROMPTS[0], max_tokens=5, n=4)
    assert [{token.choice for token in beam.tokens} for beam in found] == [{0}, {1}, {2}, {3}]
    assert [beam.score for beam in found] == sorted((beam.score for beam in found), reverse=True)


def test_a_beam_request_beside_others_is_the_one_it_is_alone(model):
    """Beams in company of a sampled request give the same hypotheses, and nothing before the end."""

    wanted = beams_of(model, PROMPTS[0], eos=(), max_tokens=6, n=3)
    runner = executor(model, eos=())
    runner.add(Request("other", PROMPTS[1], SamplingParams(max_tokens=9)))
    runner.add(Request("beams", PROMPTS[0], SamplingParams(max_tokens=6, n=3, use_beam_search=True)))
    assert runner.live_sequences == 4
    rounds = [runner.step()[1] for _ in range(6)]
    assert [outcome.tokens for outcome in rounds] == [[]] * 6
    assert [outcome.beams is not None for outcome in rounds] == [False] * 5 + [True]
    assert rounds[-1].beams == wanted
