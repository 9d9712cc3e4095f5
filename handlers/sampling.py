"""From a validated request to the engine's SamplingParams: choices, defaults, seeds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TypeVar

from engine.types import SamplingParams
from generated.defaults import ChatCompletionRequestDefaults, CompletionRequestDefaults
from generated.models import ChatCompletionRequest, CompletionRequest
from handlers.defaults import ModelDefaults
from handlers.errors import refused

AnyRequest = ChatCompletionRequest | CompletionRequest
_N = TypeVar("_N", int, float)


@dataclass(frozen=True, slots=True)
class Choices:
    """How many sequences a request generates, and how they are returned."""

    count: int
    beams: bool
    ranked: bool
    """Whole answers with best_of above n: best mean logprob first."""


def choices(body: AnyRequest, max_n: int) -> Choices:
    """The number of choices: n with beams, else best_of where given, else n.

    Raises:
        Problem: 422 when the deployment's maxN is exceeded.
    """
    beams = bool(body.use_beam_search)
    by_best_of = not beams and body.best_of is not None
    count = (body.best_of if by_best_of else body.n) or 1
    if count > max_n:
        param = "best_of" if by_best_of else "n"
        message = f"{param} is {count}, but this deployment returns at most {max_n} choices (its setting maxN)"
        raise refused("out_of_range", message, param)
    ranked = by_best_of and not body.stream and count > (body.n or 1)
    return Choices(count, beams, ranked)


def sampling_params(
    body: AnyRequest,
    wanted: Choices,
    *,
    logprobs: int | None,
    max_tokens: int,
    vocab_size: int,
    model: ModelDefaults,
) -> SamplingParams:
    """Fill in every default: the request's value, else the model's, else the documented one.

    ``max_tokens`` is already cut to the deployment's limits. A top_k above the vocabulary is the vocabulary. Stop
    tokens outside it, which no model writes, are left out, so that a list of millions costs the engine nothing.
    """
    documented = ChatCompletionRequestDefaults if isinstance(body, ChatCompletionRequest) else CompletionRequestDefaults
    greedy = model.greedy and body.temperature is None and body.top_k is None and body.top_p is None
    temperature = 0.0 if greedy else _first(body.temperature, model.temperature, documented.temperature)
    top_k = _first(body.top_k, model.top_k, documented.top_k)
    if top_k <= 0:  # -1, or 0 in OpenAI's form: the contract has refused the other of the two
        top_k = -1
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=min(top_k, vocab_size),
        top_p=_first(body.top_p, model.top_p, documented.top_p),
        repetition_penalty=_first(body.repetition_penalty, model.repetition_penalty, documented.repetition_penalty),
        presence_penalty=_first(body.presence_penalty, None, documented.presence_penalty),
        frequency_penalty=_first(body.frequency_penalty, None, documented.frequency_penalty),
        seed=random.getrandbits(64) if body.seed is None else body.seed,
        n=wanted.count,
        use_beam_search=wanted.beams,
        logprobs=logprobs,
        ignore_eos=bool(body.ignore_eos),
        stop_token_ids=tuple(dict.fromkeys(token for token in body.stop_token_ids or () if 0 <= token < vocab_size)),
        rank_by_logprob=wanted.ranked,
    )


def most_tokens(body: AnyRequest) -> int | None:
    """The request's own bound on the output tokens. On chat it has two names; the contract refuses two that differ."""
    if body.max_tokens is None and isinstance(body, ChatCompletionRequest):
        return body.max_completion_tokens
    return body.max_tokens


def stop_strings(body: AnyRequest) -> tuple[str, ...]:
    """The stop strings as the engine takes them."""
    if body.stop is None:
        return ()
    return (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)


def _first(sent: _N | None, model: _N | None, documented: _N) -> _N:
    if sent is not None:
        return sent
    return documented if model is None else model
