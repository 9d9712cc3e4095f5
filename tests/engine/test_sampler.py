"""The sampler: filters against plain definitions, draws against the exact distribution, noise, extreme settings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from tiny_models import build, executor, raw_logits, run

from engine.sampling.noise import choice_key, exponential_noise, mix64
from engine.sampling.params import DrawSettings
from engine.sampling.penalties import TokenCounts
from engine.sampling.sampler import Row, Sampler, largest, likeliest, nucleus_size
from engine.types import Request, SamplingParams

CPU = torch.device("cpu")
DRAWS = 4000
VOCAB = 32


def _row(seed=0, choice=0, position=0, prompt=(), output=(), **fields):
    chosen = DrawSettings.of(SamplingParams(max_tokens=1, seed=seed, **fields), choice)
    counts = TokenCounts.start(chosen, prompt, CPU)
    for token in output if counts is not None else ():
        counts.add(token)
    return Row(chosen, position, counts)


def _draw(logits, rows):
    return [draw.token_id for draw in Sampler().draw(logits.expand(len(rows), -1), rows)]


def _exact(logits, prompt=(), output=(), temperature=1.0, top_k=-1, top_p=1.0, **penalties):
    """Probabilities by the definitions, in numpy's float64: penalties, temperature, top-k, top-p on the rest."""
    values = np.array(logits, dtype=np.float64)
    repetition = penalties.get("repetition_penalty", 1.0)
    for token in {*prompt, *output}:
        values[token] = values[token] / repetition if values[token] > 0 else values[token] * repetition
    for token in set(output):
        values[token] -= penalties.get("frequency_penalty", 0.0) * list(output).count(token)
        values[token] -= penalties.get("presence_penalty", 0.0)
    scaled = values / temperature
    order = sorted(range(len(values)), key=lambda token: (-scaled[token], token))
    order = order[: top_k if top_k > 0 else None]
    weights = np.exp(scaled[order] - scaled[order[0]])
    weights /= weights.sum()
    kept = next((size + 1 for size, total in enumerate(np.cumsum(weights)) if total >= top_p), len(order))
    probabilities = np.zeros(len(values))
    probabilities[order[:kept]] = weights[:kept] / weights[:kept].sum()
    return probabilities


def _p_value(tokens, probabilities):
    """Chi-square of drawn tokens; expected cells under 5 are pooled, and what cannot be drawn was not drawn."""
    counts = np.bincount(tokens, minlength=len(probabilities))
    assert counts[probabilities == 0].sum() == 0
    expected = probabilities * len(tokens)
    small = expected < 5
    observed = np.append(counts[~small], counts[small].sum())
    wanted = np.append(expected[~small], expected[small].sum())
    if wanted[-1] < 5:  # too little even together: with the smallest other cell
        smallest = wanted[:-1].argmin()
        observed[smallest] += observed[-1]
        wanted[smallest] += wanted[-1]
        observed, wanted = observed[:-1], wanted[:-1]
    return 1.0 if len(wanted) == 1 else chisquare(observed, wanted * (observed.sum() / wanted.sum())).pvalue


PROMPT = (1, 5, 9)
OUTPUT = (4, 4, 6)


@pytest.fixture(scope="module")
def model():
    """A model of 32 ids whose distribution after PROMPT is spread out."""
    for seed in range(100):
        model = build("llama", seed, vocab_size=VOCAB)
        if 0.15 < torch.softmax(raw_logits(model, PROMPT), dim=-1).max() < 0.4:
            return model
    raise AssertionError("no such model")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 3.0},
        {"top_k": 5},
        {"top_p": 0.7},
        {"temperature": 1.5, "top_k": 12, "top_p": 0.8},
        {"repetition_penalty": 1.8, "frequency_penalty": 0.6, "presence_penalty": -0.9, "top_k": 20, "top_p": 0.95},
    ],
    ids=str,
)
def test_frequencies_follow_the_exact_distribution(model, fields):
    """4,000 seeds: the tokens drawn pass a chi-square test against the filtered distribution."""
    logits = raw_logits(model, PROMPT)
    rows = [_row(seed=seed, position=3, prompt=PROMPT, output=OUTPUT, **fields) for seed in range(DRAWS)]
    probabilities = _exact(logits.tolist(), PROMPT, OUTPUT, **fields)
    assert _p_value(_draw(logits, rows), probabilities) > 1e-4


@pytest.mark.parametrize("varied", ["choice", "position"])
def test_choices_and_positions_are_as_good_as_seeds(model, varied):
    """Under one seed, 4,000 choices (or positions) follow the distribution too."""
    logits = raw_logits(model, PROMPT)
    rows = [_row(seed=1, **{varied: value}) for value in range(DRAWS)]
    assert _p_value(_draw(logits, rows), _exact(logits.tolist())) > 1e-4


def test_neighbouring_seeds_draw_independently(model):
    """Pairs (token of seed 2i, token of seed 2i+1) over four classes follow the product distribution."""
    logits = raw_logits(model, PROMPT)
    tokens = _draw(logits, [_row(seed=seed) for seed in range(DRAWS)])
    probabilities = _exact(logits.tolist())
    classes = np.arange(VOCAB) % 4
    mass = np.array([probabilities[classes == index].sum() for index in range(4)])
    pairs = [classes[first] * 4 + classes[second] for first, second in zip(tokens[::2], tokens[1::2], strict=True)]
    assert _p_value(pairs, np.outer(mass, mass).flatten()) > 1e-4


def test_whole_requests_follow_the_distribution(model):
    """2,000 one-token choices through the executor: the same distribution as by the sampler alone."""
    fields = {"temperature": 1.3, "top_k": 10, "top_p": 0.9}
    request = Request("many", PROMPT, SamplingParams(max_tokens=1, n=2000, seed=5, **fields))
    tokens = [choice[0].token_id for choice in run(executor(model), request)["many"].values()]
    assert len(tokens) == 2000
    assert _p_value(tokens, _exact(raw_logits(model, PROMPT).tolist(), **fields)) > 1e-4


logit_lists = st.lists(st.floats(-20, 20, width=32) | st.sampled_from([0.0, 1.0, 2.5]), min_size=1, max_size=60)


@settings(max_examples=150, deadline=None)
@given(logit_lists, st.integers(0, 70))
def test_top_k_keeps_the_largest_and_the_smaller_ids_of_equals(logits, k):
    """Any logits, with ties: the k first in the order (larger value, then smaller id)."""
    values, indices = largest(torch.tensor(logits), k)
    wanted = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:k]
    assert indices.tolist() == wanted
    assert values.tolist() == [logits[token] for token in wanted]


@settings(max_examples=150, deadline=None)
@given(logit_lists, st.floats(1e-6, 1.0, exclude_min=True))
def test_top_p_keeps_the_fewest_that_reach_it(logits, top_p):
    """Any descending scores: the tokens before the last kept one stay below top_p, all kept ones reach it."""
    scores = np.sort(np.array(logits, dtype=np.float64))[::-1].copy()
    size = nucleus_size(torch.from_numpy(scores), top_p).item()
    weights = np.exp(scores - scores[0])
    reached = np.cumsum(weights / weights.sum())
    assert 1 <= size <= len(scores)
    assert size == 1 or reached[size - 2] < top_p + 1e-12
    assert size == len(scores) or reached[size - 1] >= top_p - 1e-12


def test_top_p_works_on_what_top_k_left():
    """Of 0.4, 0.3, 0.2, 0.1 top-k 2 leaves 4/7 and 3/7, so top-p 0.5 keeps one token; without top-k it keeps two."""
    logits = torch.log(torch.tensor([0.4, 0.3, 0.2, 0.1]))
    both = _draw(logits, [_row(seed=seed, top_k=2, top_p=0.5) for seed in range(200)])
    alone = _draw(logits, [_row(seed=seed, top_p=0.5) for seed in range(200)])
    assert set(both) == {0}
    assert set(alone) == {0, 1}


def test_the_largest_seeds_are_seeds_of_their_own():
    """2^63 and 0, 2^32 + 1 and 1, 2^64 - 1 and 2^63 - 1 draw different tokens somewhere in ten positions."""
    logits = torch.zeros(1000)
    for first, second in [(2**63, 0), (2**32 + 1, 1), (2**64 - 1, 2**63 - 1)]:
        tokens = [_draw(logits, [_row(seed=seed, position=p) for p in range(10)]) for seed in (first, second)]
        assert tokens[0] != tokens[1]


def test_noise_is_the_mixed_counter_of_its_token():
    """The tensor arithmetic equals the same steps in Python's integers, and every number is positive and finite."""
    key, position = choice_key(2**64 - 3, 2), 17
    token_ids = torch.tensor([0, 1, 2, 31, 50_000, 200_000])
    base = mix64(key ^ mix64(position))
    wanted = []
    for token in token_ids.tolist():
        counter = (base + token * 0x9E3779B97F4A7C15) % 2**64
        wanted.append(-math.log(((mix64(counter) >> 12) + 0.5) / 2**52))
    assert exponential_noise(key, position, token_ids).tolist() == pytest.approx(wanted, rel=1e-12)
    many = exponential_noise(key, position, torch.arange(100_000))
    assert many.min() > 0
    assert many.max() < 40
    assert many.mean().item() == pytest.approx(1.0, abs=0.02)


def test_mix64_is_one_to_one_on_a_sample():
    """100,000 inputs, neighbours and their mirror images, give as many outputs."""
    inputs = [*range(50_000), *(2**64 - 1 - value for value in range(50_000))]
    assert len({mix64(value) for value in inputs}) == len(inputs)


def test_a_draw_does_not_depend_on_the_batch_or_on_other_candidates(model):
    """A row alone, among others, and with top-k cut down to tokens that still hold the winner draws the same."""
    logits = raw_logits(model, PROMPT)
    rows = [_row(seed=seed, top_k=(-1, 7, 1)[seed % 3], top_p=(1.0, 0.6)[seed % 2]) for seed in range(60)]
    together = _draw(logits, rows)
    assert together == [_draw(logits, [row])[0] for row in rows]
    free = _draw(logits, [_row(seed=seed) for seed in range(60)])
    for seed, token in enumerate(free):
        rank = int((logits > logits[token]).sum()) + 1
        assert _draw(logits, [_row(seed=seed, top_k=rank)]) == [token]


@pytest.mark.parametrize("temperature", [1e-5, 1e-3, 1.0, 1e30, 3.4028234e38])
@pytest.mark.parametrize("top_p", [1.0000001e-6, 0.5, 1.0])
@pytest.mark.parametrize("repetition", [5e-324, 1e-40, 1.0, 2.0])
@pytest.mark.parametrize("scale", [1e-38, 1.0, 1e4, 3e38])
def test_hostile_extremes_draw_a_real_token(temperature, top_p, repetition, scale):
    """Every mix of extremes draws ids of the vocabulary, with a finite logprob."""
    logits = torch.linspace(-1.0, 1.0, 40) * scale
    fields = {"temperature": temperature, "top_p": top_p, "repetition_penalty": repetition, "top_k": 2147483647}
    rows = [_row(seed=seed, prompt=(0, 39, 38), frequency_penalty=-2.0, logprobs=5, **fields) for seed in range(3)]
    for draw in Sampler().draw(logits.expand(3, -1), rows):
        assert 0 <= draw.token_id < 40
        assert draw.logprob is not None
        assert math.isfinite(draw.logprob)


def test_a_vanishing_repetition_penalty_picks_the_largest_seen_logit():
    """With 5e-324 the seen token with the largest positive logit wins at any temperature."""
    logits = torch.tensor([1.0, 2.0, 3.0, 9.0, -5.0])
    for temperature in (1e-5, 1.0, 3.4028234e38):
        rows = [_row(seed=s, prompt=(0, 1, 4), repetition_penalty=5e-324, temperature=temperature) for s in range(20)]
        assert set(_draw(logits, rows)) == {1}


def test_the_highest_temperature_draws_evenly():
    """At 3.4e38 every token of the vocabulary is equally likely."""
    rows = [_row(seed=seed, temperature=3.4028234e38) for seed in range(DRAWS)]
    assert _p_value(_draw(torch.linspace(-50, 50, 16), rows), np.full(16, 1 / 16)) > 1e-4


def test_masked_logits_are_never_drawn():
    """Minus infinity is a probability of 0, at the highest temperature too."""
    logits = torch.tensor([0.0, float("-inf"), 1.0, float("-inf")])
    rows = [_row(seed=seed, temperature=t, top_p=p) for seed in range(50) for t in (1.0, 3.4e38) for p in (0.99, 1.0)]
    assert set(_draw(logits, rows)) == {0, 2}


def test_equal_logits_are_reported_by_id():
    """Greedy takes the smallest id of equals, and the top list has them in order of id."""
    logits = torch.tensor([[1.0, 3.0, 3.0, 0.0, 3.0]])
    (draw,) = Sampler().draw(logits, [_row(temperature=0.0, logprobs=3)])
    assert draw.token_id == 1
    assert draw.top is not None
    assert [token_id for token_id, _ in draw.top] == [1, 2, 4]


def test_below_the_border_temperature_is_greedy():
    """9.9e-6 and 1e-45 draw the argmax of nearly equal logits for every seed."""
    logits = torch.tensor([1.0, 1.0 + 1e-6, 1.0 - 1e-6])
    for temperature in (0.0, 1e-45, 9.9e-6):
        assert set(_draw(logits, [_row(seed=seed, temperature=temperature) for seed in range(30)])) == {1}


@pytest.mark.parametrize("vocab", [5, 255, 512, 600, 1024, 1300])
def test_the_likeliest_token_is_argmax(vocab):
    """In blocks or not, with a rest or not: the first of the largest, and a NaN counts as the largest."""
    generator = torch.Generator().manual_seed(vocab)
    logits = torch.randint(0, 40, (64, vocab), generator=generator).float()  # many equals
    logits[3, vocab // 2] = float("nan")
    logits[4, vocab - 1] = float("nan")
    logits[5] = float("-inf")
    logits[6, vocab - 1] = 99.0
    assert likeliest(logits).tolist() == logits.argmax(dim=-1).tolist()
