"""Log probabilities of both endpoints against the log-softmax of transformers on the same weights."""

from __future__ import annotations

from codecs import getincrementaldecoder
from typing import Any

import pytest
import torch
from real_server import RealServer, texts
from reference import Greedy, Reference
from test_generation import PROMPTS

pytestmark = pytest.mark.weights

NEAR = 1e-3
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 1.7, "top_k": 50},
    {"temperature": 0.6, "repetition_penalty": 1.5, "presence_penalty": 1.5, "frequency_penalty": -0.7},
]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_completions_logprobs_are_the_models_log_softmax(
    server: RealServer, reference: Reference, greedy: Greedy, prompt: str
) -> None:
    """At every position the chosen token first, then the others of the five likeliest, each within 1e-3."""
    tokens, answer = greedy(prompt)
    found = answer["choices"][0]["logprobs"]
    spell = server.front.tokenizer.token_text
    wanted = torch.log_softmax(reference.logits(reference.encode(prompt), tokens), dim=-1)  # [tokens, vocab]
    assert found["tokens"] == [spell(token) for token in tokens]
    assert len(found["token_logprobs"]) == len(found["top_logprobs"]) == len(tokens)
    for token, row, logprob, top in zip(tokens, wanted, found["token_logprobs"], found["top_logprobs"], strict=True):
        likeliest = row.topk(5)
        expected = {spell(token): row[token].item()}
        for other, value in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True):
            expected.setdefault(spell(other), value)
        assert list(top) == list(expected)
        assert top == pytest.approx(expected, abs=NEAR)
        assert logprob == top[spell(token)]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_text_offsets_point_at_the_tokens(server: RealServer, greedy: Greedy, prompt: str) -> None:
    """Each is the number of whole characters before the token; one inside a character points at that character."""
    tokens, answer = greedy(prompt)
    decoder = getincrementaldecoder("utf-8")()
    expected, before = [], 0
    for token in tokens:
        expected.append(before)
        before += len(decoder.decode(server.front.tokenizer.token_bytes(token)))
    assert answer["choices"][0]["logprobs"]["text_offset"] == expected


@pytest.mark.parametrize("settings", SETTINGS, ids=["hot", "penalised"])
@pytest.mark.parametrize("question", ["Repeat: 🎉 你好 🎉", "Count: 1, 2, 3"])
def test_chat_logprobs_are_raw_whatever_the_sampling(
    server: RealServer, reference: Reference, question: str, settings: dict[str, Any]
) -> None:
    """Twenty candidates a position, of the raw logits also under temperature, filters and penalties."""
    answer = server.ask(question, logprobs=True, top_logprobs=20, seed=5, max_tokens=10, ignore_eos=True, **settings)
    content = answer["choices"][0]["logprobs"]["content"]
    raw = server.front.tokenizer.token_bytes
    ids = {raw(token): token for token in range(reference.model.config.vocab_size)}
    tokens = [ids[bytes(entry["bytes"])] for entry in content]
    wanted = torch.log_softmax(reference.logits(reference.chat_ids(question), tokens), dim=-1)  # [tokens, vocab]
    assert len(content) == 10
    for token, row, entry in zip(tokens, wanted, content, strict=True):
        likeliest = row.topk(20)
        assert entry["logprob"] == pytest.approx(row[token].item(), abs=NEAR)
        assert [top["logprob"] for top in entry["top_logprobs"]] == pytest.approx(likeliest.values.tolist(), abs=NEAR)
        assert [bytes(top["bytes"]) for top in entry["top_logprobs"]] == [raw(i) for i in likeliest.indices.tolist()]
    joined = b"".join(bytes(entry["bytes"]) for entry in content)
    assert texts(answer) == [joined.decode("utf-8", "replace")]
