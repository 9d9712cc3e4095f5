"""Small random models for the engine's tests, and helpers that run an executor to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from engine.loader import LoadedModel
from engine.runner import TorchExecutor
from engine.types import BeamHypothesis, ModelInfo, Request, SamplingParams, StepToken

EOS = 2
NO_EOS: dict[str, Any] = {"eos_token_id": None, "pad_token_id": 0}
GAP = 1e-4
"""Two likeliest logits nearer than this would let rounding decide a test."""

_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.4,
    "bos_token_id": 1,
    "eos_token_id": EOS,
    "pad_token_id": 0,
}


def build(kind: str, seed: int, vocab_size: int = 96) -> Any:
    """A "llama" or "qwen2" in float32 with weights drawn from ``seed``; the global generator is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "llama":
            return LlamaForCausalLM(LlamaConfig(vocab_size=vocab_size, **_SIZES)).eval()
        return Qwen2ForCausalLM(Qwen2Config(vocab_size=vocab_size, **_SIZES)).eval()


def build_where(kind: str, accept: Callable[[Any], bool], vocab_size: int = 96) -> Any:
    """The first model, by seed, that ``accept`` takes."""
    return next(model for seed in count() if accept(model := build(kind, seed, vocab_size)))


def generate(model: Any, prompt: Sequence[int], **options: Any) -> Any:
    """transformers' own generate on one prompt, with what it returns as a dictionary."""
    options = {"do_sample": False, "return_dict_in_generate": True, "output_scores": True, **options}
    token_ids = torch.tensor([list(prompt)])
    # Without a mask generate takes a prompt token that equals the padding id for padding.
    return model.generate(token_ids, attention_mask=torch.ones_like(token_ids), output_logits=True, **options)


def clear_winners(model: Any, prompts: Iterable[Sequence[int]], tokens: int) -> bool:
    """Whether greedy generation from ``prompts`` never meets two likeliest logits nearer than GAP."""
    for prompt in prompts:
        for logits in generate(model, prompt, max_new_tokens=tokens, **NO_EOS).logits:
            first, second = logits[0].topk(2).values
            if first - second < GAP:
                return False
    return True


def executor(model: Any, eos: tuple[int, ...] = (EOS,)) -> TorchExecutor:
    """An executor over a model in memory."""
    info = ModelInfo(model.config.vocab_size, 256, eos, "float32", "cpu", type(model).__name__)
    return TorchExecutor(LoadedModel(model, info))


def run(runner: TorchExecutor, *requests: Request) -> dict[str, dict[int, list[StepToken]]]:
    """Run requests together to their end: per request id, per choice, its tokens."""
    for request in requests:
        runner.add(request)
    found: dict[str, dict[int, list[StepToken]]] = {request.request_id: {} for request in requests}
    while runner.live_sequences:
        for outcome in runner.step():
            for token in outcome.tokens:
                found[outcome.request_id].setdefault(token.choice, []).append(token)
    return found


def ids(tokens: Iterable[StepToken]) -> list[int]:
    """Token ids of step tokens."""
    return [token.token_id for token in tokens]


def tokens_of(model: Any, prompt: Sequence[int], eos: tuple[int, ...] = (EOS,), **sampling: Any) -> list[StepToken]:
    """The tokens of choice 0 of one request run alone."""
    request = Request("alone", tuple(prompt), SamplingParams(**sampling))
    return run(executor(model, eos), request)["alone"][0]


def beams_of(model: Any, prompt: Sequence[int], eos: tuple[int, ...] = (EOS,), **sampling: Any) -> list[BeamHypothesis]:
    """The hypotheses of one beam request run alone."""
    runner = executor(model, eos)
    runner.add(Request("beams", tuple(prompt), SamplingParams(use_beam_search=True, **sampling)))
    while True:
        (outcome,) = runner.step()
        if outcome.done:
            assert outcome.beams is not None
            return outcome.beams


def raw_logits(model: Any, token_ids: Sequence[int]) -> torch.Tensor:
    """Logits after the last token, float32 ``[vocab]``, from one dense forward without a cache."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([list(token_ids)]), use_cache=False).logits[0, -1]
