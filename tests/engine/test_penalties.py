"""Each penalty against a straightforward computation, on its own, together, and inside whole generations."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import build_where, clear_winners, ids, raw_logits, tokens_of

from engine.sampling.params import DrawSettings
from engine.sampling.penalties import TokenCounts, penalise
from engine.types import SamplingParams

VOCAB = 12
CPU = torch.device("cpu")


def _settings(**fields):
    return DrawSettings.of(SamplingParams(max_tokens=1, **fields), choice=0)


def _plain(logits, prompt, output, repetition, frequency, presence):
    """The three penalties, one token at a time, in Python's floats."""
    found = []
    for token, logit in enumerate(logits):
        if token in prompt or token in output:
            logit = logit / repetition if logit > 0 else logit * repetition
        logit -= frequency * output.count(token)
        logit -= presence * (token in output)
        found.append(logit)
    return found


def _ours(logits, prompt, output, repetition, frequency, presence):
    chosen = _settings(repetition_penalty=repetition, frequency_penalty=frequency, presence_penalty=presence)
    counts = TokenCounts.start(chosen, prompt, CPU)
    assert counts is not None
    for token in output:
        counts.add(token)
    return penalise(torch.tensor(logits), counts, chosen).tolist()


LOGITS = [2.0, -1.0, 0.5, 3.0, -2.0, 0.0]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ((2.0, 0.0, 0.0), [1.0, -2.0, 0.5, 1.5, -2.0, 0.0]),
        ((0.5, 0.0, 0.0), [4.0, -0.5, 0.5, 6.0, -2.0, 0.0]),
        ((1.0, 0.25, 0.0), [2.0, -1.0, 0.5, 2.5, -2.0, 0.0]),
        ((1.0, -0.25, 0.0), [2.0, -1.0, 0.5, 3.5, -2.0, 0.0]),
        ((1.0, 0.0, 1.5), [2.0, -1.0, 0.5, 1.5, -2.0, 0.0]),
        ((2.0, 0.25, 1.5), [1.0, -2.0, 0.5, -0.5, -2.0, 0.0]),
    ],
    ids=["repetition 2", "repetition 0.5", "frequency", "negative frequency", "presence", "all three"],
)
def test_each_penalty_by_hand(fields, wanted):
    """Prompt 0, 1; output 3 twice: repetition meets 0, 1 and 3, the other two meet 3 alone."""
    assert _ours(LOGITS, [0, 1], [3, 3], *fields) == pytest.approx(wanted)


tokens = st.lists(st.integers(0, VOCAB - 1), max_size=200)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.floats(-40, 40, width=32), min_size=VOCAB, max_size=VOCAB),
    tokens,
    tokens,
    st.floats(0.01, 2.0),
    st.floats(-2.0, 2.0).filter(lambda value: value != 0.0),
    st.floats(-2.0, 2.0),
)
def test_penalties_equal_the_plain_computation(logits, prompt, output, repetition, frequency, presence):
    """Any logits, prompts and outputs, repeated tokens too."""
    wanted = _plain(logits, prompt, output, repetition, frequency, presence)
    assert _ours(logits, prompt, output, repetition, frequency, presence) == pytest.approx(wanted, abs=1e-12)


def test_more_distinct_tokens_than_the_first_room():
    """Two hundred distinct output tokens are all counted."""
    chosen = _settings(presence_penalty=1.0)
    counts = TokenCounts.start(chosen, (), CPU)
    assert counts is not None
    for token in range(200):
        counts.add(token)
    assert penalise(torch.zeros(250), counts, chosen).tolist() == [-1.0] * 200 + [0.0] * 50


def test_a_copy_counts_on_its_own():
    """A token added to a copy is not in the original."""
    counts = TokenCounts([4], CPU)
    copy = counts.copy()
    copy.add(4)
    assert counts.generated.tolist() == [0.0]
    assert copy.generated.tolist() == [1.0]


def test_without_penalties_nothing_is_counted():
    """Neutral penalties, and any penalties at temperature 0, need no counts."""
    assert TokenCounts.start(_settings(), [1, 2], CPU) is None
    assert TokenCounts.start(_settings(temperature=0.0, repetition_penalty=1.5), [1, 2], CPU) is None


def test_the_logits_given_are_left_as_they_are():
    """Raw logprobs are taken from the same tensor, so it must not change (float64 input too)."""
    chosen = _settings(repetition_penalty=2.0)
    counts = TokenCounts.start(chosen, [0, 1], CPU)
    assert counts is not None
    logits = torch.tensor(LOGITS, dtype=torch.float64)
    penalise(logits, counts, chosen)
    assert logits.tolist() == LOGITS


@pytest.mark.parametrize("repetition", [5e-324, 1e-308, 1e-40, 1e-6, 2.0])
def test_extreme_repetition_penalties_stay_finite_and_keep_the_order(repetition):
    """Float32's largest logits divided by the least penalty are finite, and a larger one is still larger."""
    found = _ours([3.0e38, 1.0, -3.0e38, 2.0], [0, 1, 2, 3], [], repetition, 0.0, 0.0)
    assert all(math.isfinite(value) for value in found)
    assert found[0] > found[3] > found[1] > found[2]


PROMPTS = [(1, 5, 9), (1, 40, 41, 42, 40, 41, 42)]


@pytest.fixture(scope="module", params=["llama", "qwen2"])
def model(request):
    return build_where(request.param, lambda model: clear_winners(model, PROMPTS, 12))


def _penalised_greedy(model, prompt, length, penalties):
    context, output = list(prompt), []
    for _ in range(length):
        logits = _plain(raw_logits(model, context).tolist(), list(prompt), output, *penalties)
        output.append(max(range(len(logits)), key=logits.__getitem__))
        context.append(output[-1])
    return output


@pytest.mark.parametrize("penalties", [(1.4, 0.0, 0.0), (1.0, 1.2, 0.0), (1.0, 0.0, 1.8), (0.7, -0.5, 1.1)])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_top_k_one_is_the_argmax_of_penalised_logits(model, prompt, penalties):
    """A whole generation with top_k 1 equals step-by-step plain arithmetic on dense forwards."""
    repetition, frequency, presence = penalties
    tokens = tokens_of(
        model,
        prompt,
        max_tokens=12,
        top_k=1,
        repetition_penalty=repetition,
        frequency_penalty=frequency,
        presence_penalty=presence,
        ignore_eos=True,
    )
    assert ids(tokens) == _penalised_greedy(model, prompt, 12, penalties)


def test_presence_and_frequency_leave_the_first_token_alone(model):
    """They count output only, so with top_k 1 the first token is the plain one even where the prompt holds it."""
    for prompt in PROMPTS:
        likeliest = raw_logits(model, prompt).argmax().item()
        holding = (likeliest, *prompt)
        wanted = raw_logits(model, holding).argmax().item()
        (token,) = tokens_of(model, holding, max_tokens=1, top_k=1, presence_penalty=2.0, frequency_penalty=2.0)
        assert token.token_id == wanted


def test_repetition_sees_the_prompt():
    """Where the prompt holds the likeliest token, a strong repetition penalty changes the first answer."""
    prompt = (1, 5, 9)
    model = build_where("llama", lambda model: raw_logits(model, prompt).argmax().item() in prompt)
    (plain,) = tokens_of(model, prompt, max_tokens=1, top_k=1)
    (penalised,) = tokens_of(model, prompt, max_tokens=1, top_k=1, repetition_penalty=2.0)
    assert plain.token_id in prompt
    assert penalised.token_id != plain.token_id


def test_at_temperature_zero_penalties_do_nothing(model):
    """Greedy ignores the other sampling fields, the penalties among them."""
    plain = tokens_of(model, PROMPTS[0], max_tokens=12, temperature=0.0, ignore_eos=True)
    everything = tokens_of(
        model,
        PROMPTS[0],
        max_tokens=12,
        temperature=9e-6,
        top_k=3,
        top_p=0.5,
        repetition_penalty=2.0,
        frequency_penalty=2.0,
        presence_penalty=2.0,
        seed=77,
        ignore_eos=True,
    )
    assert ids(everything) == ids(plain)
