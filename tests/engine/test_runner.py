"""The torch executor against transformers' generate, and its bookkeeping of requests and choices."""

from __future__ import annotations

import pytest
import torch
from tiny_models import EOS, NO_EOS, build_where, clear_winners, executor, generate, ids, raw_logits, run, tokens_of
from transformers import Phi3Config, Phi3ForCausalLM

from engine.types import Request, SamplingParams

PROMPTS = [(1, 5, 9), (1, 40, 41, 42, 43, 44, 45, 46), (7,), (3, 3, 3, 3, 3)]


@pytest.fixture(scope="module", params=["llama", "qwen2"])
def model(request):
    return build_where(request.param, lambda model: clear_winners(model, PROMPTS, 24))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_tokens_equal_generate(model, prompt):
    """Temperature 0 gives the tokens of transformers' greedy search, for 24 tokens."""
    wanted = generate(model, prompt, max_new_tokens=24, **NO_EOS).sequences[0, len(prompt) :].tolist()
    assert ids(tokens_of(model, prompt, max_tokens=24, temperature=0.0, ignore_eos=True)) == wanted


def test_requests_in_one_batch_get_the_tokens_they_get_alone(model):
    """Four prompts of different lengths that run together, two of them late, keep their greedy tokens."""
    requests = [Request(str(n), p, SamplingParams(max_tokens=12, temperature=0.0)) for n, p in enumerate(PROMPTS)]
    runner = executor(model, eos=())
    together: dict[str, list[int]] = {request.request_id: [] for request in requests}
    for late in (requests[:2], requests[2:]):
        for request in late:
            runner.add(request)
        for outcome in runner.step():
            together[outcome.request_id] += ids(outcome.tokens)
    while runner.live_sequences:
        for outcome in runner.step():
            together[outcome.request_id] += ids(outcome.tokens)
    alone = [ids(tokens_of(model, prompt, eos=(), max_tokens=12, temperature=0.0)) for prompt in PROMPTS]
    assert list(together.values()) == alone


def test_logprobs_are_the_raw_log_softmax(model):
    """Chosen and top logprobs equal a dense forward's log-softmax to 1e-3, whatever shapes the draw."""
    sampling = {"temperature": 0.3, "top_k": 3, "top_p": 0.8, "repetition_penalty": 1.7, "frequency_penalty": 1.0}
    tokens = tokens_of(model, PROMPTS[0], max_tokens=8, logprobs=4, ignore_eos=True, **sampling)
    context = list(PROMPTS[0])
    for token in tokens:
        wanted = torch.log_softmax(raw_logits(model, context), dim=-1)
        assert token.logprob == pytest.approx(wanted[token.token_id].item(), abs=1e-3)
        assert token.top is not None
        assert [value for _, value in token.top] == pytest.approx(wanted.topk(4).values.tolist(), abs=1e-3)
        assert [token_id for token_id, _ in token.top] == wanted.topk(4).indices.tolist()
        context.append(token.token_id)


def test_logprobs_zero_reports_the_chosen_token_alone(model):
    """logprobs 0: a logprob, and an empty list of others."""
    (token,) = tokens_of(model, PROMPTS[0], max_tokens=1, logprobs=0)
    assert token.logprob is not None
    assert token.top == ()


@pytest.mark.parametrize(("rank", "has_logprob"), [(False, False), (True, True)])
def test_ranking_computes_logprobs_without_a_list(model, rank, has_logprob):
    """Without logprobs the chosen token's is computed only for ranking, and never a list."""
    (token,) = tokens_of(model, PROMPTS[0], max_tokens=1, rank_by_logprob=rank)
    assert (token.logprob is not None) == has_logprob
    assert token.top is None


def test_choices_of_one_request_differ_and_equal_themselves_in_company(model):
    """Six choices at temperature 1.5 are six texts, the same ones beside another request."""
    request = Request("six", PROMPTS[0], SamplingParams(max_tokens=10, temperature=1.5, n=6, seed=11, ignore_eos=True))
    other = Request("other", PROMPTS[1], SamplingParams(max_tokens=14, temperature=1.5, n=2, seed=12, ignore_eos=True))
    alone = run(executor(model), request)["six"]
    assert len({tuple(ids(tokens)) for tokens in alone.values()}) == 6
    assert run(executor(model), other, request)["six"] == alone


def test_a_choice_does_not_depend_on_the_number_of_choices(model):
    """Choice 0 and 1 of n=2 are choice 0 and 1 of n=5."""
    found = []
    for n in (2, 5):
        sampling = SamplingParams(max_tokens=10, temperature=1.2, n=n, seed=3, frequency_penalty=0.4, ignore_eos=True)
        found.append(run(executor(model), Request("r", PROMPTS[0], sampling))["r"])
    assert [ids(found[0][choice]) for choice in (0, 1)] == [ids(found[1][choice]) for choice in (0, 1)]


def test_fifty_seeds_give_the_same_tokens_alone_and_in_company(model):
    """Fifty seeded requests, run together with different lengths and settings, equal their runs alone."""
    requests = [
        Request(
            f"seed {seed}",
            PROMPTS[seed % len(PROMPTS)],
            SamplingParams(
                max_tokens=3 + seed % 4,
                temperature=0.5 + seed / 25,
                top_k=(-1, 5, 40)[seed % 3],
                top_p=(1.0, 0.7)[seed % 2],
                repetition_penalty=(1.0, 1.3)[seed % 2],
                seed=seed,
                ignore_eos=True,
            ),
        )
        for seed in range(50)
    ]
    together = run(executor(model), *requests)
    alone = {request.request_id: run(executor(model), request)[request.request_id] for request in requests}
    assert together == alone


def test_a_longrope_model_that_outgrows_its_short_context_equals_generate():
    """With a switch at 16 tokens, prompts of 10 (crosses it while generating), 16 and 20 give generate's tokens."""
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0, 1.0, 1.0, 1.0],
        "long_factor": [1.0, 3.0, 8.0, 20.0],
        "original_max_position_embeddings": 16,
    }
    config = Phi3Config(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        original_max_position_embeddings=16,
        initializer_range=0.4,
        bos_token_id=1,
        eos_token_id=EOS,
        pad_token_id=0,
        rope_parameters=rope,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = Phi3ForCausalLM(config).eval()
    for length in (10, 16, 20):
        prompt = tuple(range(3, 3 + length))
        wanted = generate(model, prompt, max_new_tokens=16, **NO_EOS).sequences[0, length:].tolist()
        assert ids(tokens_of(model, prompt, max_tokens=16, temperature=0.0, ignore_eos=True)) == wanted


def _ended(model, prompt, **sampling):
    last = tokens_of(model, prompt, temperature=0.0, **sampling)[-1]
    return last.token_id, last.finish_reason, last.stop_token_id


@pytest.fixture(scope="module")
def greedy(model):
    """The greedy tokens after PROMPTS[1], without any ending."""
    return ids(tokens_of(model, PROMPTS[1], eos=(), max_tokens=6, temperature=0.0))


def test_eos_ends_a_choice_with_stop_and_is_reported(model, greedy):
    """The EOS token is the last one reported; its finish is stop and it is no stop token."""
    end = greedy.index(greedy[2])
    assert _ended(model, PROMPTS[1], eos=(greedy[2],), max_tokens=6) == (greedy[2], "stop", None)
    assert len(tokens_of(model, PROMPTS[1], eos=(greedy[2],), max_tokens=6, temperature=0.0)) == end + 1


def test_ignore_eos_runs_to_the_budget(model, greedy):
    """With ignore_eos every EOS id of the model is an ordinary token."""
    ended = _ended(model, PROMPTS[1], eos=(greedy[2], greedy[3]), max_tokens=6, ignore_eos=True)
    assert ended == (greedy[5], "length", None)


def test_a_stop_token_ends_with_its_id_also_under_ignore_eos(model, greedy):
    """stop_token_ids end a choice with stop and name the token, even one that is EOS while EOS is ignored."""
    stop = greedy[2]
    assert _ended(model, PROMPTS[1], eos=(), max_tokens=6, stop_token_ids=(stop,)) == (stop, "stop", stop)
    ended = _ended(model, PROMPTS[1], eos=(stop,), max_tokens=6, stop_token_ids=(stop,), ignore_eos=True)
    assert ended == (stop, "stop", stop)


def test_eos_listed_as_a_stop_token_counts_as_eos(model, greedy):
    """A token that is both ends as EOS does: no stop token is named."""
    ended = _ended(model, PROMPTS[1], eos=(greedy[2],), max_tokens=6, stop_token_ids=(greedy[2],))
    assert ended == (greedy[2], "stop", None)


def test_an_ending_token_on_the_last_place_is_stop_not_length(model, greedy):
    """EOS as the very token that uses up max_tokens wins over length."""
    budget = greedy.index(greedy[2]) + 1
    assert _ended(model, PROMPTS[1], eos=(greedy[2],), max_tokens=budget) == (greedy[2], "stop", None)
    assert _ended(model, PROMPTS[1], eos=(), max_tokens=budget) == (greedy[2], "length", None)


def test_every_round_gives_each_live_choice_one_token(model):
    """Three choices with a budget of four: four rounds of three tokens, done on the last, forgotten after it."""
    runner = executor(model)
    runner.add(Request("r", PROMPTS[0], SamplingParams(max_tokens=4, n=3, ignore_eos=True)))
    assert runner.live_sequences == 3
    rounds = [runner.step()[0] for _ in range(4)]
    assert [[token.choice for token in outcome.tokens] for outcome in rounds] == [[0, 1, 2]] * 4
    assert [outcome.done for outcome in rounds] == [False, False, False, True]
    assert runner.live_sequences == 0
    assert runner.step() == []


def test_remove_forgets_a_request_and_leaves_the_others(model):
    """A removed request is not reported again; removing it twice, or a stranger, is fine."""
    runner = executor(model)
    for name in ("keep", "drop"):
        runner.add(Request(name, PROMPTS[0], SamplingParams(max_tokens=3, temperature=0.0, ignore_eos=True)))
    runner.step()
    runner.remove("drop")
    runner.remove("drop")
    runner.remove("stranger")
    assert [outcome.request_id for outcome in runner.step()] == ["keep"]


def test_remove_choice_ends_one_choice_and_changes_no_other(model):
    """Choice 1 goes after two rounds; 0 and 2 keep the tokens they have without that; the last removal forgets all."""
    request = Request("r", PROMPTS[0], SamplingParams(max_tokens=6, n=3, seed=5, ignore_eos=True))
    whole = run(executor(model), request)["r"]
    runner = executor(model)
    runner.add(request)
    runner.step()
    runner.step()
    assert runner.sequences_run == 3
    assert runner.remove_choice("r", 1)
    assert runner.remove_choice("r", 99)
    assert runner.live_sequences == 2
    (outcome,) = runner.step()
    assert {token.choice: token.token_id for token in outcome.tokens} == {
        choice: whole[choice][2].token_id for choice in (0, 2)
    }
    assert runner.remove_choice("r", 0)
    assert not runner.remove_choice("r", 2)
    assert runner.live_sequences == 0
    assert runner.step() == []


def test_a_second_request_of_the_same_id_is_refused(model):
    """Ids are unique among the admitted."""
    runner = executor(model)
    request = Request("twice", PROMPTS[0], SamplingParams(max_tokens=2))
    runner.add(request)
    with pytest.raises(ValueError, match="admitted already"):
        runner.add(request)


def test_logits_that_are_no_numbers_fail_their_request_alone(model, monkeypatch):
    """A request whose forward gives NaN is done with a sentence; its neighbour goes on."""
    runner = executor(model)
    runner.add(Request("sick", (EOS, EOS), SamplingParams(max_tokens=3, temperature=1.0)))
    runner.add(Request("well", PROMPTS[0], SamplingParams(max_tokens=3, temperature=0.0, ignore_eos=True)))
    prefill = runner._forward.prefill

    def poisoned(token_ids):
        logits, state = prefill(token_ids)
        return (logits * float("nan") if token_ids == (EOS, EOS) else logits), state

    monkeypatch.setattr(runner._forward, "prefill", poisoned)
    sick, well = runner.step()
    assert sick.done
    assert sick.failure is not None
    assert "not finite" in sick.failure
    assert len(well.tokens) == 1
    assert [outcome.request_id for outcome in runner.step()] == ["well"]


def test_the_global_generator_is_never_used(model):
    """Sampling and beams leave torch's global random state as it was."""
    before = torch.get_rng_state()
    tokens_of(model, PROMPTS[0], max_tokens=4, temperature=1.3, top_p=0.9)
    assert torch.equal(torch.get_rng_state(), before)
