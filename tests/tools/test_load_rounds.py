"""The order of turns, their tries, and the loads: with made-up servers, readings and answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tools.load.cases import case
from tools.load.client import Address, Exchange
from tools.load.prompts import Prompts, prose
from tools.load.quiet import Reading
from tools.load.rounds import Patience, Rounds, Turn
from tools.load.servers import ServerSpec


def words(text: str) -> int:
    """A tokenizer that takes words for tokens."""
    return len(text.split())


class FakeServer:
    """A server that notes what is done with it."""

    def __init__(self, name: str, log: list[str], **spec: Any) -> None:
        self.spec = ServerSpec(name, Address("127.0.0.1", 1), **spec)
        self.model = "m"
        self.roots = [1]
        self._log = log

    def freeze(self) -> None:
        self._log.append(f"freeze {self.spec.name}")

    def thaw(self) -> None:
        self._log.append(f"thaw {self.spec.name}")


class Machine:
    """Readings of a machine on which others use the given cores, one entry for each measured load, then 0."""

    def __init__(self, others: Sequence[float] = ()) -> None:
        self._others = list(others)
        self._now_s = self._busy_s = 0.0
        self._reads = 0

    def read(self, _: Sequence[int]) -> Reading:
        # The two readings of a wait are followed by the two of a load; a second passes in each pair.
        self._reads += 1
        if self._reads % 2 == 0:
            self._now_s += 1
            if self._reads % 4 == 0 and self._others:
                self._busy_s += self._others.pop(0)
        return Reading(self._now_s, self._busy_s, 0, 0, 0)


async def no_pause(_: float) -> None:
    """Time is the machine's own affair."""


def whole_answer(tokens: int) -> Exchange:
    """A streamed answer of so many tokens."""
    event = {"choices": [{"text": "x"}], "usage": {"completion_tokens": tokens, "prompt_tokens": 5}}
    data = b"data: " + json.dumps(event).encode() + b"\n\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(data)
    return Exchange(0.0, [(1.0, head + data)], "whole", 1.0)


class Sender:
    """Answers at once, and keeps the bodies."""

    def __init__(self, answer: Callable[[dict[str, Any]], Exchange] | None = None) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.most_at_once = self._at_once = 0
        self._answer = answer or (lambda body: whole_answer(body["max_tokens"]))

    async def __call__(
        self, address: Address, path: str, body: dict[str, Any], *, timeout_s: float = 600.0
    ) -> Exchange:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        self._at_once -= 1
        self.bodies.append(body)
        return self._answer(body)


def make_rounds(sender: Sender, machine: Machine | None = None, patience: Patience | None = None) -> Rounds:
    """Rounds in a world of fakes."""
    return Rounds(
        Prompts(words, 7),
        patience or Patience(retries=2),
        probe=lambda: 50.0,
        read=(machine or Machine()).read,
        send=sender,
        pause=no_pause,
    )


async def test_each_case_goes_through_the_servers_before_the_next() -> None:
    """Neighbours in time are compared; each round begins with another server; only one is ever thawed."""
    log: list[str] = []
    servers = [FakeServer(name, log) for name in ("a", "b")]
    turns: list[Turn] = []

    await make_rounds(Sender()).run(servers, [case("c1", 4), case("long", 4)], 2, turns.append)

    assert [(turn.round, turn.case, turn.server) for turn in turns] == [
        *((0, "c1", "a"), (0, "c1", "b"), (0, "long", "a"), (0, "long", "b")),
        *((1, "c1", "b"), (1, "c1", "a"), (1, "long", "b"), (1, "long", "a")),
    ]
    assert log == [f"{what} {turn.server}" for turn in turns for what in ("thaw", "freeze")]


async def test_a_server_is_frozen_again_when_its_turn_fails() -> None:
    """An exception leaves nobody running."""
    log: list[str] = []

    def fail(_: dict[str, Any]) -> Exchange:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await make_rounds(Sender(fail)).turn(FakeServer("a", log), case("c1", 4), 0)
    assert log == ["thaw a", "freeze a"]


@pytest.mark.parametrize(
    ("others", "tries", "kept", "noisy"),
    [
        ([0.05], 1, 0.05, False),
        ([0.5, 0.02], 2, 0.02, False),
        ([0.5, 0.3, 0.4], 3, 0.3, True),
    ],
)
async def test_a_noisy_turn_is_tried_again_and_the_quietest_kept(
    others: list[float], tries: int, kept: float, noisy: bool
) -> None:
    """At most two further times; what stays noisy is said to be."""
    turn = await make_rounds(Sender(), Machine(others)).turn(FakeServer("a", []), case("c1", 4), 0)
    assert (turn.tries, turn.usage.others, turn.noisy) == (tries, pytest.approx(kept), noisy)


async def test_clients_send_one_request_after_the_other() -> None:
    """c4: eight requests, four at once, after a warm-up of two; no two prompts are equal, not even in a second try."""
    sender = Sender()
    turn = await make_rounds(sender, Machine([0.9, 0.0])).turn(FakeServer("a", []), case("c4", 6), 0)

    prompts = [body["prompt"] for body in sender.bodies]
    assert (sender.most_at_once, len(prompts), len(set(prompts))) == (4, 2 * (2 + 8), 2 * (2 + 8))
    assert turn.figures["output_tok_s"] > 0
    assert (turn.short, turn.failures, turn.prompt_tokens) == (0, [], [5] * 8)


async def test_failures_and_short_answers_are_counted() -> None:
    """A 500 is a failure; an answer of three tokens instead of four is short."""

    def answer(body: dict[str, Any]) -> Exchange:
        if body["prompt"].startswith("000-"):
            return Exchange(0, [(1, b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")], "whole", 1)
        return whole_answer(3)

    turn = await make_rounds(Sender(answer)).turn(FakeServer("a", []), case("c1", 4), 0)
    assert (turn.failures, turn.short) == (["HTTP 500: "], 3)


def test_a_servers_own_fields_win_and_null_takes_one_out() -> None:
    """What a server refuses is not sent; the rest of the request stays."""
    spec = ServerSpec("a", Address("127.0.0.1", 1), body={"ignore_eos": None, "stream_options": None, "x": 1})
    assert spec.request("Hi", 3, "m") == {
        "model": "m",
        "prompt": "Hi",
        "max_tokens": 3,
        "temperature": 0,
        "stream": True,
        "x": 1,
    }


def test_cases_have_the_loads_that_their_names_say() -> None:
    """Clients, requests, prompt and answer."""

    def numbers(name: str) -> tuple[int, int, int, int, float]:
        made = case(name, 64)
        return made.concurrency, made.requests, made.prompt_tokens, made.output_tokens, made.neighbour_cores

    assert numbers("c1") == (1, 4, 124, 64, 0)
    assert numbers("c16") == (16, 32, 124, 64, 0)
    assert numbers("c8+half") == (8, 16, 124, 64, 0.5)
    assert numbers("d16") == (16, 16, 32, 160, 0)
    assert numbers("long") == (1, 2, 2000, 16, 0)
    assert numbers("prefix") == (4, 16, 1500, 16, 0)


def test_only_decode_cases_are_one_wave() -> None:
    """Elsewhere a client has a further request, so that prompts come between."""
    names = ["c1", "c16", "d1", "d8", "long", "prefix"]
    assert [name for name in names if case(name, 64).one_wave] == ["d1", "d8"]


async def test_a_decode_case_sends_all_at_once() -> None:
    """d4: four requests of 160 tokens beside each other, and none after them."""
    sender = Sender()
    await make_rounds(sender).turn(FakeServer("a", []), case("d4", 6), 0)
    assert sender.most_at_once == 4
    assert [body["max_tokens"] for body in sender.bodies] == [8, 8, 160, 160, 160, 160]


@pytest.mark.parametrize("name", ["c0", "d0", "d8+half", "c", "prefill", "c4+whole", ""])
def test_an_unknown_case_is_refused(name: str) -> None:
    """With the names that there are."""
    with pytest.raises(ValueError, match="there are c1, c4"):
        case(name, 64)


@pytest.mark.parametrize("tokens", [30, 124, 2000])
def test_prompts_have_the_wanted_length(tokens: int) -> None:
    """Within one token, whatever the salt."""
    for load in (1, 99):
        for prompt in Prompts(words, 5).separate(load, 3, tokens):
            assert tokens - 1 <= words(prompt) <= tokens


def test_prompts_differ_from_their_first_word_on() -> None:
    """So that no prefix cache helps: from request to request, from load to load, from run to run."""
    made = [prompt for run in (1, 2) for load in (1, 2) for prompt in Prompts(words, run).separate(load, 3, 50)]
    firsts = {prompt.split(" ")[0] for prompt in made}
    assert len(firsts) == len(made) == 12


def test_sharing_prompts_have_a_long_common_beginning() -> None:
    """The same within a load, another in the next; the questions differ."""
    prompts = Prompts(words, 1)
    one, two = prompts.sharing(1, 2, 300)
    other = prompts.sharing(2, 1, 300)[0]
    shared = one.partition("\n\n")[0]

    assert 299 <= words(shared) <= 300
    assert two.partition("\n\n")[0] == shared
    assert one != two
    assert not other.startswith(shared[:20])


def test_prose_is_the_same_for_the_same_seed() -> None:
    """So that two runs measure the same texts."""
    assert prose(words, 80, 3) == prose(words, 80, 3) != prose(words, 80, 4)
