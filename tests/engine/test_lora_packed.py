"""Adapters in the packed executor: each request has its own in any company, and no prefix of another one."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from packed_play import Arrival, answer_of, greedy, ids, make, play, request
from test_packed_laws import EOS, LAW, machines, schedules

from engine.packed_executor import PackedExecutor
from engine.torch_runner import build
from engine.types import SamplingParams
from tests.engine import families, peft_adapters

KINDS = pytest.mark.parametrize("contiguous", [False, True])
TWELVE = tuple(range(1, 13))
DOES = {0: 0, 4: 1, 5: 2, 9: 1}
"""Number of a load -> what the adapter does. Two loads are alike."""


def _with(asked, number):
    return replace(asked, adapter=f"adapter-{number}" if number else None, adapter_number=number)


def _load(executor):
    for number, does in DOES.items():
        if number:
            executor.load_adapter(number, f"adapter-{number}", does)


@LAW
@given(data=st.data())
def test_every_answer_is_the_one_alone_with_its_adapter(data):
    """Prompts that begin alike, any company, pool and limits: never a token, page or choice of another adapter."""
    arrivals = data.draw(schedules(cancels=False))
    for arrival in arrivals:
        arrival.request = _with(arrival.request, data.draw(st.sampled_from(list(DOES))))
    executor, _, limits = data.draw(machines(arrivals))
    _load(executor)
    played = play(executor, arrivals, limits.max_batch_size)
    assert played.failures == []
    for arrival in arrivals:
        whole = answer_of(arrival.request, EOS, adapter=DOES[arrival.request.adapter_number])
        assert played.answers[arrival.request.request_id] == whole


@KINDS
def test_a_prefix_is_found_only_under_the_same_load_of_an_adapter(contiguous):
    """Twelve tokens in pages of 4: the second of each pair has 8 of them cached; the first ones, none."""
    executor, _ = make(contiguous=contiguous)
    _load(executor)
    order = [0, 4, 5, 9, 0, 4, 5, 9]
    requests = [_with(greedy(f"{place}", TWELVE, 1), number) for place, number in enumerate(order)]
    played = [play(executor, [Arrival(asked)]).cached_tokens[asked.request_id] for asked in requests]
    assert played == [0, 0, 0, 0, 8, 8, 8, 8]


def test_requests_that_begin_alike_do_not_wait_for_another_adapters_prefix():
    """Each computes its own at once; only the one with the same adapter waits for it."""
    executor, _ = make()
    _load(executor)
    requests = [_with(greedy(name, TWELVE, 2), number) for name, number in [("a", 4), ("b", 5), ("base", 0), ("a2", 4)]]
    played = play(executor, [Arrival(asked) for asked in requests])
    assert played.first_part == {"a": 0, "b": 0, "base": 0, "a2": 1}
    assert played.cached_tokens == {"a": 0, "b": 0, "base": 0, "a2": 8}


def test_a_request_for_an_adapter_that_is_not_there_is_not_admitted():
    """Nothing of it is left."""
    executor, _ = make()
    with pytest.raises(ValueError, match="asks for an adapter that is not loaded"):
        executor.add(_with(greedy("lost", TWELVE, 1), 4))
    assert executor.live_sequences == 0
    executor.check()


def test_an_unloaded_adapter_leaves_the_runner():
    """By the runner's own id."""
    executor, fake = make()
    _load(executor)
    executor.unload_adapter(5)
    assert sorted(fake.adapters.values()) == [1, 1]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A llama, three adapters' folders, and the four models (base first) merged."""
    model = families.build("llama")
    folders = [tmp_path_factory.mktemp("adapter") for _ in range(3)]
    settings = [{"target_modules": ["q_proj", "v_proj"]}, {}, {"target_modules": ["down_proj", "lm_head"], "r": 6}]
    merged = [
        peft_adapters.save(model, f, seed, **s) for seed, (f, s) in enumerate(zip(folders, settings, strict=True))
    ]
    return model, folders, [model, *merged]


@pytest.mark.parametrize("pages", [120, 11])
def test_greedy_answers_of_a_mixed_batch_equal_generate_of_the_merged_models(tiny, pages):
    """Base and three adapters, prompts that begin alike, twice each; with 11 pages they preempt each other."""
    model, folders, models = tiny
    runner = build(families.loaded(copy.deepcopy(model)), page_size=8, max_tokens=8 * pages)
    executor = PackedExecutor(runner, growth_tokens=0)
    for number, folder in enumerate(folders, start=1):
        executor.load_adapter(number, str(number), executor.read_adapter(str(folder), None))
    prompts = [prompt for seed in range(60) if len(clear := _clear(models, _prompt(seed))) == 4 for prompt in [clear]]
    assert len(prompts) >= 2, "the seeds give too few prompts whose winners are clear"
    arrivals, wanted = [], {}
    for place, answers in enumerate(prompts[:2]):
        for number, (prompt, answer) in answers.items():
            asked = request(f"{place}-{number}", prompt, max_tokens=8, temperature=0.0, ignore_eos=True)
            arrivals.append(Arrival(_with(asked, number), step=place))
            wanted[asked.request_id] = answer
    played = play(executor, arrivals)
    assert {name: ids(answer[0]) for name, answer in played.answers.items()} == wanted
    assert (executor.stats.preemptions > 0) == (pages == 11)


def _prompt(seed):
    return [5 + (7 * seed + 3 * index) % 50 for index in range(19)]


def _clear(models, prompt):
    """Number of the adapter -> (prompt, greedy answer), for those whose answer rounding cannot change."""
    found = {number: families.answer_of(model, prompt, 8) for number, model in enumerate(models)}
    return {number: (prompt, answer) for number, answer in found.items() if answer is not None}


def test_the_executor_without_packing_serves_adapters_as_well(tiny):
    """One sequence at a time: base and each adapter, in one batch, with the logprobs of the merged models."""
    from engine.runner import TorchExecutor
    from tests.engine.tiny_models import run

    model, folders, models = tiny
    executor = TorchExecutor(families.loaded(copy.deepcopy(model)))
    for number, folder in enumerate(folders, start=1):
        executor.load_adapter(number, str(number), executor.read_adapter(str(folder), 8))
    prompt = _prompt(3)
    sampling = SamplingParams(max_tokens=3, temperature=0.0, logprobs=0, ignore_eos=True)
    asked = [_with(replace(greedy(f"{n}", prompt, 1), sampling=sampling), n) for n in (0, 1, 2, 3)]
    answers = run(executor, *asked)
    for number, merged in enumerate(models):
        tokens = answers[str(number)][0]
        for place, token in enumerate(tokens):
            so_far = [*prompt, *ids(tokens[:place])]
            logits = merged(input_ids=torch.tensor([so_far]), use_cache=False).logits[0, -1]
            assert token.logprob == pytest.approx(logits.log_softmax(-1)[token.token_id].item(), abs=1e-4)
    executor.unload_adapter(2)
    with pytest.raises(ValueError, match="asks for an adapter that is not loaded"):
        run(executor, _with(greedy("late", prompt, 1), 2))
