"""Choices and sampling defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.types import SamplingParams
from generated.models import ChatCompletionRequest, CompletionRequest
from generated.rules import Deployment
from handlers.defaults import ModelDefaults
from handlers.errors import Problem
from handlers.sampling import Choices, choices, most_tokens, sampling_params, stop_strings


def completion(**members: Any) -> CompletionRequest:
    """A validated completions request."""
    return CompletionRequest.model_validate_json(json.dumps({"model": "m", "prompt": "x", **members}))


def params(body: CompletionRequest, model: ModelDefaults | None = None) -> SamplingParams:
    """The engine's parameters for a vocabulary of 500."""
    wanted = choices(body, 128)
    return sampling_params(body, wanted, logprobs=None, max_tokens=10, vocab_size=500, model=model or ModelDefaults())


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, Choices(1, False, False)),
        ({"n": 3}, Choices(3, False, False)),
        ({"best_of": 3}, Choices(3, False, True)),
        ({"n": 3, "best_of": 3}, Choices(3, False, False)),
        ({"n": 2, "best_of": 3}, Choices(3, False, True)),
        ({"n": 2, "best_of": 2, "stream": True}, Choices(2, False, False)),
        ({"use_beam_search": True, "best_of": 5}, Choices(1, True, False)),
        ({"use_beam_search": True, "n": 2, "best_of": 5}, Choices(2, True, False)),
    ],
)
def test_number_of_choices(members: dict[str, Any], expected: Choices) -> None:
    """n with beams, else best_of, else n; ranked only where best_of is above n."""
    assert choices(completion(**members), 128) == expected


@pytest.mark.parametrize(
    ("members", "param"), [({"n": 5}, "n"), ({"best_of": 5}, "best_of"), ({"use_beam_search": True, "n": 5}, "n")]
)
def test_the_configured_maximum_names_the_member(members: dict[str, Any], param: str) -> None:
    """Above maxN is a 422 of its own that names n or best_of."""
    with pytest.raises(Problem, match="at most 4 choices") as caught:
        choices(completion(**members), 4)
    assert (caught.value.code, caught.value.param) == ("out_of_range", param)


def test_documented_defaults_hold_where_nobody_says_anything() -> None:
    """temperature, top_p and repetition 1, penalties 0, top_k 1000, here cut to the vocabulary of 500."""
    made = params(completion())

    assert (made.temperature, made.top_k, made.top_p) == (1.0, 500, 1.0)
    assert (made.repetition_penalty, made.presence_penalty, made.frequency_penalty) == (1.0, 0.0, 0.0)


def test_the_models_defaults_stand_between() -> None:
    """What the weights recommend counts where the request is silent, and only there."""
    model = ModelDefaults(temperature=0.6, top_k=20, top_p=0.9, repetition_penalty=1.1)

    made = params(completion(top_k=30), model)

    assert (made.temperature, made.top_k, made.top_p, made.repetition_penalty) == (0.6, 30, 0.9, 1.1)


@pytest.mark.parametrize(
    ("members", "temperature"),
    [({}, 0.0), ({"temperature": 0.5}, 0.5), ({"top_k": 5}, 0.7), ({"top_p": 0.5}, 0.7), ({"seed": 5}, 0.0)],
)
def test_do_sample_false_is_greedy_unless_sampling_is_asked_for(members: dict[str, Any], temperature: float) -> None:
    """Only temperature, top_k or top_p in the request turn sampling on."""
    assert params(completion(**members), ModelDefaults(greedy=True, temperature=0.7)).temperature == temperature


@pytest.mark.parametrize(("top_k", "expected"), [(-1, -1), (7, 7), (2147483647, 500)])
def test_top_k_off_and_beyond_the_vocabulary(top_k: int, expected: int) -> None:
    """-1 keeps all; more than the vocabulary is the vocabulary."""
    assert params(completion(top_k=top_k)).top_k == expected


def test_top_k_zero_is_off_in_openais_form() -> None:
    """Where the contract accepts 0, it keeps all."""
    raw = json.dumps({"model": "m", "prompt": "x", "top_k": 0})
    body = CompletionRequest.model_validate_json(raw, context=Deployment(openai_form=True))

    assert params(body).top_k == -1


def test_seeds_are_exact_and_random_when_absent() -> None:
    """2^64-1 arrives unchanged; two requests without a seed draw differently."""
    assert params(completion(seed=2**64 - 1)).seed == 2**64 - 1
    assert params(completion()).seed != params(completion()).seed


def test_stop_is_a_tuple() -> None:
    """One text or a list, both as the engine wants them."""
    assert stop_strings(completion(stop="END")) == ("END",)
    assert stop_strings(completion(stop=["a", "b"])) == ("a", "b")
    assert stop_strings(completion(stop=[])) == ()


def test_generation_config_is_read_as_plain_json(tmp_path: Path) -> None:
    """Usable entries are taken, a top_k of 0 is off, and unusable ones are left out."""
    config = {"do_sample": True, "temperature": 0.7, "top_k": 0, "top_p": 7, "repetition_penalty": "1"}
    (tmp_path / "generation_config.json").write_text(json.dumps(config))

    assert ModelDefaults.read(tmp_path) == ModelDefaults(temperature=0.7, top_k=-1)


@pytest.mark.parametrize("text", [None, "no json", "[]"])
def test_a_missing_or_broken_generation_config_recommends_nothing(tmp_path: Path, text: str | None) -> None:
    """Serving goes on with the documented defaults."""
    if text is not None:
        (tmp_path / "generation_config.json").write_text(text)

    assert ModelDefaults.read(tmp_path) == ModelDefaults()


def test_chat_has_the_same_defaults() -> None:
    """The two requests share their documented defaults."""
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]})
    body = ChatCompletionRequest.model_validate_json(raw)

    made = sampling_params(body, choices(body, 1), logprobs=None, max_tokens=1, vocab_size=5000, model=ModelDefaults())

    assert (made.temperature, made.top_k) == (1.0, 1000)


def test_stop_tokens_outside_the_vocabulary_are_left_out() -> None:
    """No model writes them; the order of the others stays."""
    body = completion(stop_token_ids=[7, 500, -1, 3, 7, 2**31 - 1])

    assert params(body).stop_token_ids == (7, 3)


@pytest.mark.parametrize(
    ("members", "expected"),
    [({}, None), ({"max_tokens": 3}, 3), ({"max_completion_tokens": 4}, 4),
     ({"max_tokens": 5, "max_completion_tokens": 5}, 5)],
)  # fmt: skip
def test_max_completion_tokens_is_another_name(members: dict[str, Any], expected: int | None) -> None:
    """OpenAI's newer name bounds the answer as max_tokens does."""
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], **members})
    assert most_tokens(ChatCompletionRequest.model_validate_json(raw)) == expected
