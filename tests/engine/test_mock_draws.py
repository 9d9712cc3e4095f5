"""What the sampling fields do to the mock's draws, its beams, and what it is ordered to write."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from engine.mock import TOLD_TO_FAIL, MockExecutor
from engine.mock_front import MockFront
from engine.mock_orders import ORDERS, MockOrders
from engine.text.byte_tokenizer import mock_tokenizer
from engine.types import EngineError, Request, SamplingParams, StepToken, ThinkingBudget

TOKENIZER = mock_tokenizer(special_tokens=("<think>", "</think>"))
MARKS = {text: token_id for token_id, text in TOKENIZER.added_tokens.items()}
IDS = tuple(TOKENIZER.encode("Hello", add_special_tokens=False))


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now_s


def run(orders: MockOrders | None = None, budget: ThinkingBudget | None = None, **sampling: object) -> list[list[int]]:
    """The token ids of each choice, or of each beam, best first."""
    executor = MockExecutor(TOKENIZER)
    if orders is not None:
        executor.order("r", orders)
    params = SamplingParams(**{"max_tokens": 60, **sampling})  # type: ignore[arg-type] # a test's fields
    executor.add(Request("r", IDS, params, thinking_budget=budget))
    choices: list[list[StepToken]] = [[] for _ in range(params.n)]
    while True:
        (round_,) = executor.step()
        for token in round_.tokens:
            choices[token.choice].append(token)
        if round_.done:
            found = choices if round_.beams is None else [beam.tokens for beam in round_.beams]
            return [[token.token_id for token in tokens] for tokens in found]


def firsts(**sampling: object) -> Counter[int]:
    """The first tokens of 400 choices."""
    return Counter(tokens[0] for tokens in run(n=400, max_tokens=1, seed=1, **sampling))


def test_top_k_1_is_greedy_at_any_temperature() -> None:
    """Whatever the seed."""
    (greedy,) = run(temperature=0.0)
    assert run(top_k=1, temperature=3.0, seed=5) == [greedy]
    assert run(top_p=1e-6, seed=6) == [greedy]
    assert run(temperature=0.01, seed=7) == [greedy]


@pytest.mark.parametrize("top_k", [2, 5])
def test_top_k_keeps_so_many_tokens(top_k: int) -> None:
    """Of 400 draws."""
    assert len(firsts(top_k=top_k)) == top_k
    assert set(firsts(top_k=top_k)) == {token for token, _ in firsts(temperature=0.4).most_common(top_k)}


def test_top_p_keeps_the_likeliest() -> None:
    """Fewer than all, the same for every seed, and more for a larger one."""
    few, more = firsts(top_p=0.4), firsts(top_p=0.8)
    assert set(few) < set(more) < set(firsts())


def test_temperature_sharpens_and_flattens() -> None:
    """The likeliest token's share falls as the temperature rises."""
    shares = [firsts(temperature=temperature).most_common(1)[0][1] for temperature in (0.3, 1.0, 5.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 2 * shares[2]


def test_draws_follow_the_logprobs() -> None:
    """4,000 first tokens are drawn as often as their probabilities say, within 4 standard deviations."""
    executor = MockExecutor(TOKENIZER)
    executor.add(Request("r", IDS, SamplingParams(max_tokens=1, n=4000, seed=3, logprobs=32)))
    tokens = executor.step()[0].tokens
    counts = Counter(token.token_id for token in tokens)
    for token_id, logprob in tokens[0].top or ():
        share = math.exp(logprob)
        assert abs(counts[token_id] - 4000 * share) < 4 * math.sqrt(4000 * share * (1 - share)) + 1


def test_raw_logprobs_do_not_depend_on_how_tokens_are_drawn() -> None:
    """The first place has the same distribution at every temperature, seed and penalty."""

    def top(**sampling: object) -> object:
        executor = MockExecutor(TOKENIZER)
        params = SamplingParams(max_tokens=1, logprobs=5, **sampling)  # type: ignore[arg-type] # a test's fields
        executor.add(Request("r", IDS, params))
        return executor.step()[0].tokens[0].top

    assert top() == top(temperature=0.0) == top(temperature=3.0, seed=9) == top(presence_penalty=2.0, top_k=1)


@pytest.mark.parametrize(
    "penalty", [{"presence_penalty": 2.0}, {"frequency_penalty": 2.0}, {"repetition_penalty": 2.0}]
)
def test_penalties_make_repetition_rarer(penalty: dict[str, float]) -> None:
    """Distinct first tokens of words among 300 tokens of 20 choices: more with a penalty, fewer with its opposite."""
    fixed = {"ignore_eos": True, "max_tokens": 300, "n": 20, "seed": 4}
    opposite = {name: 0.5 if name == "repetition_penalty" else -value for name, value in penalty.items()}

    def distinct(**sampling: object) -> int:
        return sum(len(set(tokens)) for tokens in run(**fixed, **sampling))

    assert distinct(**opposite) < distinct() < distinct(**penalty)


def test_penalties_do_nothing_to_greedy_choices() -> None:
    """At temperature 0 the other sampling fields do nothing; after top_k 1 they do."""
    assert run(temperature=0.0, presence_penalty=2.0) == run(temperature=0.0)
    assert run(top_k=1, presence_penalty=-2.0, ignore_eos=True) != run(top_k=1, ignore_eos=True)


def test_one_beam_is_greedy() -> None:
    """A search of width 1."""
    assert run(use_beam_search=True, max_tokens=12) == run(temperature=0.0, max_tokens=12)


@pytest.mark.parametrize("width", [128, 2000])
def test_a_search_wider_than_the_vocabulary_has_all_its_beams(width: int) -> None:
    """Also when a single token is asked for."""
    assert len(run(use_beam_search=True, n=width, max_tokens=1)) == width


def test_a_budget_closes_a_told_thought() -> None:
    """Three tokens of it, the closing mark, then what stands behind it in the text."""
    told = MockOrders(text="<think>one two three four five</think>Done")
    budget = ThinkingBudget(3, MARKS["<think>"], MARKS["</think>"], begun=False)
    ((*tokens, _),) = run(told, budget)
    assert len(tokens[: tokens.index(MARKS["</think>"])]) == 1 + 3
    assert TOKENIZER.decode(tokens[5:], skip_special_tokens=False) == "Done"


def test_a_budget_may_end_with_words() -> None:
    """The deployment's own, and the mark is the last of them."""
    words = (*TOKENIZER.encode(" time is up", add_special_tokens=False), MARKS["</think>"])
    told = MockOrders(text="<think>one two three four five</think>Done")
    budget = ThinkingBudget(1, MARKS["<think>"], MARKS["</think>"], begun=False, ending_ids=words)
    ((*tokens, _),) = run(told, budget)
    assert TOKENIZER.decode(tokens[2:], skip_special_tokens=False) == " time is up</think>Done"


@pytest.mark.parametrize("tokens", [1, 2, 3, 20, 21, 22, 500])
def test_ordered_lengths_are_exact_and_whole_characters(tokens: int) -> None:
    """Also where the text is made of words of many tokens."""
    for seed in range(10):
        (found,) = run(MockOrders(tokens=tokens), seed=seed, max_tokens=1000)
        assert (len(found), found[-1] in TOKENIZER.eos_token_ids) == (tokens, True)
        assert "\ufffd" not in TOKENIZER.decode(found, skip_special_tokens=True)


def test_requests_go_at_their_own_pace() -> None:
    """One that is told to wait is passed over until its time has come, and says how long that is."""
    clock = Clock()
    executor = MockExecutor(TOKENIZER, clock_s=clock)
    executor.order("slow", MockOrders(ttft_s=2.0, token_s=0.5))
    for name in ("slow", "quick"):
        executor.add(Request(name, IDS, SamplingParams(max_tokens=3, ignore_eos=True)))

    assert [round_.request_id for round_ in executor.step()] == ["quick"]
    assert (executor.sequences_run, executor.wait_s) == (1, 0.0)
    executor.remove("quick")
    assert (executor.step(), executor.wait_s) == ([], 2.0)
    clock.now_s += 2.0
    assert [round_.request_id for round_ in executor.step()] == ["slow"]
    assert executor.wait_s == 0.5


def test_a_request_fails_where_it_is_told_to() -> None:
    """After two rounds, alone."""
    executor = MockExecutor(TOKENIZER)
    executor.order("r", MockOrders(fail_after=2))
    executor.add(Request("r", IDS, SamplingParams(max_tokens=9, ignore_eos=True)))
    assert [executor.step()[0].failure for _ in range(3)] == [None, None, TOLD_TO_FAIL]
    assert executor.live_sequences == 0


async def test_orders_belong_to_the_request_that_is_submitted_under_them() -> None:
    """The next one has none, and one that is cancelled while it waits leaves none behind."""
    front = MockFront()
    await front.start()
    params = SamplingParams(max_tokens=100, ignore_eos=True)
    token = ORDERS.set(MockOrders(fail_after=1))
    ordered, cancelled = front.submit(Request("a", (1,), params)), front.submit(Request("b", (1,), params))
    ORDERS.reset(token)
    cancelled.cancel()
    free = front.submit(Request("c", (1,), params))

    with pytest.raises(EngineError):
        [deltas async for deltas in ordered]
    assert [deltas async for deltas in free][-1][0].finish_reason == "length"
    assert front.executor.live_sequences == 0
    await front.stop()
