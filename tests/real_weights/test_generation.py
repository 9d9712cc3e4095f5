"""The server's tokens against transformers on the same weights: greedy, penalised, by beams; and the prompts' ids."""

from __future__ import annotations

from typing import Any

import pytest
from real_server import CHAT, RealServer, reasons, texts
from reference import GREEDY_TOKENS, Greedy, Penalties, Reference

pytestmark = pytest.mark.weights

PROMPTS = ["The capital of France is", "I love 🍕 and 🎉! 从前有一座山，", "def fibonacci(n):\n    "]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_text_equals_generate(greedy: Greedy, reference: Reference, prompt: str) -> None:
    """Temperature 0 gives the 40 tokens of transformers' greedy search, or those up to its end."""
    tokens, answer = greedy(prompt)
    ended = tokens[-1] == reference.eos
    assert texts(answer) == [reference.decode(tokens)]
    assert answer["usage"]["completion_tokens"] == len(tokens) == (len(tokens) if ended else GREEDY_TOKENS)
    assert answer["usage"]["prompt_tokens"] == len(reference.encode(prompt))
    assert reasons(answer) == ["stop" if ended else "length"]


@pytest.mark.parametrize(
    "contents", [("hi",), ("你好 🎉",), ("  two spaces \n",), ("def f():", "    pass", "Thanks. And now?")]
)
def test_chat_prompts_are_the_templates_ids(
    server: RealServer, reference: Reference, contents: tuple[str, ...]
) -> None:
    """The engine gets the very ids of apply_chat_template: no token twice at the start, none left out."""
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": content} for index, content in enumerate(contents)]
    server.whole(CHAT, messages=messages, max_tokens=1)
    assert server.front.last is not None
    assert list(server.front.last.prompt_ids) == reference.chat_ids(*contents)


@pytest.mark.parametrize(
    "penalties",
    [
        Penalties(repetition=1.3),
        Penalties(frequency=1.2),
        Penalties(presence=2.0),
        Penalties(repetition=0.9, frequency=0.5, presence=0.7),
    ],
    ids=str,
)
def test_penalties_follow_their_formulas(server: RealServer, reference: Reference, penalties: Penalties) -> None:
    """With top_k 1 the tokens are the likeliest after the penalties, worked out by hand at every position."""
    prompt = "one two one two one"
    wanted = reference.likeliest(reference.encode(prompt), 12, penalties)
    answer = server.whole(
        prompt=prompt,
        max_tokens=12,
        top_k=1,
        temperature=1.3,
        repetition_penalty=penalties.repetition,
        frequency_penalty=penalties.frequency,
        presence_penalty=penalties.presence,
    )
    assert texts(answer) == [reference.decode(wanted)]
    assert answer["usage"]["completion_tokens"] == len(wanted)


def _scores(answer: dict[str, Any]) -> list[float]:
    """Per choice: cumulative logprob / generated tokens."""
    found = []
    for choice in answer["choices"]:
        logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
        found.append(sum(logprobs) / len(logprobs))
    return found


@pytest.mark.parametrize("ignore_eos", [False, True])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_beams_equal_generate(server: RealServer, reference: Reference, width: int, ignore_eos: bool) -> None:
    """The texts, their order, their scores' order and their ends are those of transformers' beam search."""
    question, tokens = "2+2?", 5 if ignore_eos else 9
    options: dict[str, Any] = {"eos_token_id": None, "pad_token_id": 0} if ignore_eos else {}
    if width > 1:
        options |= {"num_beams": width, "num_return_sequences": width, "length_penalty": 1.0, "early_stopping": False}
    wanted = reference.generate(reference.chat_ids(question), tokens, **options)
    body = {"n": width, "use_beam_search": True, "max_tokens": tokens, "ignore_eos": ignore_eos, "logprobs": True}
    answer = server.ask(question, **body)
    ends = ["stop" if row[-1] == reference.eos and not ignore_eos else "length" for row in wanted]
    assert texts(answer) == [reference.decode(row) for row in wanted]
    assert reasons(answer) == ends
    assert ("stop" in ends) == (not ignore_eos)
    assert _scores(answer) == sorted(_scores(answer), reverse=True)
    assert answer["usage"]["completion_tokens"] == sum(map(len, wanted))
