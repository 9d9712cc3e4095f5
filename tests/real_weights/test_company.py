"""What a request gives does not depend on its company: seeds, choices, and the measurements that show the company."""

from __future__ import annotations

from typing import Any

import pytest
from real_server import CHAT, COMPLETIONS, RealServer, reasons, texts

pytestmark = pytest.mark.weights

STORY = [{"role": "user", "content": "Tell me a story"}]


def _mixed(number: int) -> tuple[str, dict[str, Any]]:
    """One of many different requests, each with a seed of its own."""
    prompt = ["Tell me a story", "你好", "🎉 party", "def main():"][number % 4]
    body: dict[str, Any] = {"seed": number * 0x9E3779B97F4A7C15 % 2**64 or 1, "max_tokens": 2 + number % 4}
    if number % 2:
        return CHAT, {**body, "messages": [{"role": "user", "content": prompt}], "temperature": 1.5, "top_p": 0.95}
    return COMPLETIONS, {**body, "prompt": prompt, "n": 1 + (number % 3 == 0), "repetition_penalty": 1.2}


def test_the_same_seed_gives_the_same_text_alone_and_in_company(server: RealServer) -> None:
    """Eight different requests, one after another and then all at once: every text, end and count is the same."""
    bodies = [_mixed(number) for number in range(8)]
    alone = [server.whole(path, **body) for path, body in bodies]
    company = server.together(bodies)
    assert [texts(answer) for answer in company] == [texts(answer) for answer in alone]
    assert [reasons(answer) for answer in company] == [reasons(answer) for answer in alone]
    assert len({str(texts(answer)) for answer in alone}) == len(bodies)
    assert max(max(answer["usage"]["batch_size"]) for answer in company) > 2
    assert all(set(answer["usage"]["batch_size"]) <= {1, 2} for answer in alone)


def test_each_choice_is_the_one_that_its_number_gives(server: RealServer) -> None:
    """n 3 gives three different texts, the first of which are those of n 1 and n 2 with the same seed."""
    found = [texts(server.whole(CHAT, messages=STORY, n=n, seed=77, max_tokens=5, temperature=1.5)) for n in (3, 2, 1)]
    assert len(set(found[0])) == 3
    assert found[1:] == [found[0][:2], found[0][:1]]


def test_seeds_of_all_sizes_are_kept_apart(server: RealServer) -> None:
    """No bit of a 64-bit seed is lost: the smallest, the largest and those between give different texts."""
    seeds = [0, 1, 2**32 + 1, 2**63, 2**64 - 1]
    found = [texts(server.whole(CHAT, messages=STORY, seed=seed, max_tokens=4, temperature=1.5))[0] for seed in seeds]
    assert len(set(found)) == len(seeds)


def test_max_tokens_is_exact_and_measurements_have_one_entry_a_round(server: RealServer) -> None:
    """Sixteen requests at once, for 1 to 16 tokens each."""
    sent: list[tuple[str, dict[str, Any]]] = []
    for count in range(1, 17):
        body = {"max_tokens": count, "ignore_eos": True, "temperature": 0}
        sent.append((CHAT, {**body, "messages": STORY}) if count % 2 else (COMPLETIONS, {**body, "prompt": "Hi"}))
    for count, answer in enumerate(server.together(sent), start=1):
        usage = answer["usage"]
        assert (usage["completion_tokens"], reasons(answer)) == (count, ["length"])
        assert usage["total_tokens"] == usage["prompt_tokens"] + count
        assert len(usage["batch_size"]) == len(usage["queue_wait_time"]) == count
        assert all(1 <= size <= 16 for size in usage["batch_size"])
        assert all(wait_us >= 0 for wait_us in usage["queue_wait_time"])
        if count == 16:
            assert max(usage["batch_size"]) > 4
        if count % 2:
            assert len(answer["decode_time_arr"]) == count - 1
            assert answer["prefill_time"] > 0
