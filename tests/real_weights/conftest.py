"""Fixtures of the tests on real weights: one server and one reference model for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from real_server import RealServer
from reference import GREEDY_TOKENS, Greedy, Reference

from tools.weights import default_model_folder


@pytest.fixture(scope="session")
def _starting() -> Iterator[RealServer]:
    server = RealServer(default_model_folder())
    yield server
    server.stop()


@pytest.fixture(scope="session")
def reference(_starting: RealServer) -> Reference:
    """transformers on the same weights; it loads while the server does."""
    return Reference(default_model_folder())


@pytest.fixture(scope="session")
def server(_starting: RealServer) -> RealServer:
    """The default model under default settings, in float32."""
    return _starting.wait()


@pytest.fixture(scope="session")
def greedy(server: RealServer, reference: Reference) -> Greedy:
    """For a prompt: the tokens that ``generate`` gives, and the server's whole answer with logprobs 5, made once."""
    made: dict[str, tuple[list[int], dict[str, Any]]] = {}

    def answer(prompt: str) -> tuple[list[int], dict[str, Any]]:
        if prompt not in made:
            (tokens,) = reference.generate(reference.encode(prompt), GREEDY_TOKENS)
            body = {"temperature": 0, "max_tokens": GREEDY_TOKENS, "logprobs": 5}
            made[prompt] = tokens, server.whole(prompt=prompt, **body)
        return made[prompt]

    return answer
