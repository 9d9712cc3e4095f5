"""POST /v1/tokenizer: the tokenizer's own count, and tokens that joined are the text."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_process import started

from engine.mock_front import MockFront
from engine.text.tokenizer import BackedTokenizer
from generated.models import TokenizerAnswer, TokenizerRequest
from handlers.count_tokens import TokenizerHandler
from handlers.prompt import OFF_LOOP_CHARS
from handlers.service import Service
from handlers.settings import Settings
from tests.engine.tiny_tokenizers import families

PATH = "/v1/tokenizer"
FAMILIES = families()
ServiceFor = Callable[..., Service]


async def counted(tokenizer: BackedTokenizer, text: str, **fields: Any) -> TokenizerAnswer:
    """The answer for a tokenizer."""
    service = Service(Settings(model_name="mock"), MockFront(tokenizer))
    answer = await TokenizerHandler(service).count(TokenizerRequest(inputs=text, **fields))
    assert isinstance(answer.body, TokenizerAnswer)
    return answer.body


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"inputs": "Hi there"}, {"token_number": 3, "tokens": ["H", "i", " there"]}),
        ({"inputs": "Hi there", "do_decode": True}, {"token_number": 3, "tokens": ["H", "i", " there"]}),
        ({"inputs": "Hi there", "do_decode": None}, {"token_number": 3, "tokens": ["H", "i", " there"]}),
        ({"inputs": "Hi there", "do_decode": False}, {"token_number": 3, "tokens": []}),
        ({"inputs": "温a"}, {"token_number": 4, "tokens": ["温", "a"]}),
        ({"inputs": "a<|im_end|>"}, {"token_number": 2, "tokens": ["a", "<|im_end|>"]}),
    ],
)
async def test_a_text_is_counted_and_shown(service_for: ServiceFor, body: dict[str, Any], answer: Any) -> None:
    """A character of several tokens stands in one entry; special tokens are shown."""
    async with started(service_for()) as client:
        found = await client.post(PATH, json=body)

    assert (found.status_code, found.json()) == (200, answer)
    assert list(found.json()) == ["token_number", "tokens"]


async def test_the_count_is_the_prompt_tokens_of_a_completion(service_for: ServiceFor) -> None:
    """So a client can plan with it."""
    text = "Wie viele Wörter, and 多少字? 🚀"
    async with started(service_for()) as client:
        count = (await client.post(PATH, json={"inputs": text})).json()["token_number"]
        usage = (await client.post("/v1/completions", json={"model": "mock", "prompt": text})).json()["usage"]

    assert count == usage["prompt_tokens"]


@settings(max_examples=60, deadline=None)
@given(text=st.text("ab 中文é😀\n", min_size=1, max_size=30), family=st.sampled_from(sorted(FAMILIES)))
def test_the_tokens_joined_are_what_all_ids_mean(text: str, family: str) -> None:
    """In every family of tokenizers, with its begin-of-sequence token where it has one."""
    tokenizer = FAMILIES[family]
    ids = tokenizer.encode(text, add_special_tokens=True)
    if not ids:
        return
    answer = asyncio.run(counted(tokenizer, text))

    assert answer.token_number == len(ids)
    assert "".join(answer.tokens) == tokenizer.decode(ids, skip_special_tokens=False)
    assert all(answer.tokens)
    assert len(answer.tokens) <= len(ids)


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing", "inputs"),
        ({"inputs": None}, "wrong_type", "inputs"),
        ({"inputs": ["a"]}, "wrong_type", "inputs"),
        ({"inputs": ""}, "out_of_range", "inputs"),
        ({"inputs": "a", "do_decode": "yes"}, "wrong_type", "do_decode"),
    ],
)
async def test_what_is_no_text_is_refused(service_for: ServiceFor, body: dict[str, Any], code: str, param: str) -> None:
    """422 with the member."""
    async with started(service_for()) as client:
        answer = await client.post(PATH, json=body)

    assert (answer.status_code, answer.json()["code"], answer.json()["param"]) == (422, code, param)


async def test_a_long_text_is_counted_beside_the_event_loop(
    service_for: ServiceFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a thread, since the loop serves everybody; a short one at once."""
    service, threads = service_for(), []
    encode = service.front.tokenizer.encode

    def noted(text: str, **options: bool) -> list[int]:
        threads.append(threading.current_thread() is threading.main_thread())
        return encode(text, **options)

    monkeypatch.setattr(service.front.tokenizer, "encode", noted)
    async with started(service) as client:
        for length in (5, OFF_LOOP_CHARS + 1):
            answer = await client.post(PATH, json={"inputs": "中" * length, "do_decode": False})
            assert answer.json()["token_number"] >= length

    assert threads[-2:] == [True, False]


async def test_a_text_is_counted_before_the_model_is_loaded() -> None:
    """The tokenizer is there from the start."""

    class LoadingFront(MockFront):
        async def start(self) -> None:
            """Never ready."""

    async with started(Service(Settings(model_name="mock"), LoadingFront())) as client:
        assert (await client.post(PATH, json={"inputs": "a"})).json() == {"token_number": 1, "tokens": ["a"]}
