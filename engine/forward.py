"""One sequence through transformers' own forward and cache: the prompt, one token more, a copy to fork."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from engine.multimodal.rows import media_inputs
from engine.plan import MediaRows, Span
from engine.quantised.linear import exact_activations

_CHECK_TOKENS = 6
_TOLERANCE = {torch.float32: 2e-3, torch.float64: 2e-3}
_TOLERANCE_HALF = 0.1


class ModelMismatch(Exception):
    """The model's forward is not one that this engine can drive; the message says why."""


@dataclass(slots=True)
class SequenceState:
    """What one sequence's forward goes on from; opaque to the caller."""

    cache: DynamicCache
    short_ids: list[int] | None
    """All tokens so far while the model may still switch to its long rotary frequencies; else None."""
    shift: int = 0
    """See ``Span.shift``; of the tokens to come."""

    def fork(self) -> SequenceState:
        """A copy that goes on separately."""
        short_ids = None if self.short_ids is None else list(self.short_ids)
        return SequenceState(copy.deepcopy(self.cache), short_ids, self.shift)


class SequenceForward:
    """Runs one sequence at a time; the caller holds the states.

    Models with "longrope" frequencies use other ones for all positions once a sequence is longer than their original
    context. The keys that lie in the cache by then were rotated with the short ones, so the sequence is run again
    from its first token when it grows past that length, as ``generate`` does.

    Every method runs under ``torch.inference_mode``.
    """

    def __init__(self, model: Any, vocab_size: int) -> None:
        """Wrap a loaded causal language model whose first ``vocab_size`` logits count.

        Raises:
            ModelMismatch: its forward takes no cache.
        """
        self._model = model
        self._vocab_size = vocab_size
        self.device: torch.device = model.device
        accepted = inspect.signature(model.forward).parameters
        # The keyword was renamed between transformers' releases, and a folder's own code may use either.
        names = [name for name in ("cache", "past_key_values") if name in accepted]
        if not names:
            raise ModelMismatch(f"{type(model).__name__} takes no key/value cache, which this engine needs.")
        self._cache_keyword = names[0]
        self._last_row_only = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._rope_switch = rope_switch(model.config)

    def begin(self) -> SequenceState:
        """Of a sequence without tokens."""
        return SequenceState(self._empty_cache(), None if self._rope_switch is None else [])

    @torch.inference_mode()
    def prefill(self, token_ids: Sequence[int]) -> tuple[Tensor, SequenceState]:
        """Run a prompt; the logits after its last token, float32 ``[vocab]``, and the state to go on from."""
        state = self.begin()
        return self.extend(state, token_ids), state

    @torch.inference_mode()
    def extend(self, state: SequenceState, token_ids: Sequence[int], media: MediaRows | None = None) -> Tensor:
        """Append tokens to a sequence; changes ``state``. The logits after the last one, float32 ``[vocab]``.

        ``media``: what the tokens have besides their ids.
        """
        if media is not None or state.shift:
            start = state.cache.get_seq_length()
            span = Span((), start, list(token_ids), 1, shift=state.shift, media=media)
            return self._logits(token_ids, state.cache, {**self._last_row_only, **self._media_inputs(span)})[-1]
        if state.short_ids is not None and self._rope_switch is not None:
            state.short_ids += token_ids
            if len(state.short_ids) > self._rope_switch:
                state.cache, token_ids, state.short_ids = self._empty_cache(), state.short_ids, None
        return self._logits(token_ids, state.cache, self._last_row_only)[-1]

    @torch.inference_mode()
    def self_check(self) -> None:
        """Compare a few tokens run at once without a cache with the same run one by one through the cache.

        It finds models that look at later tokens (encoders loaded as decoders), caches that do not fit the model and
        weights that give no numbers.

        Raises:
            ModelMismatch: the two differ by more than rounding.
        """
        name = type(self._model).__name__
        tokens = [(7 + 31 * index) % self._vocab_size for index in range(_CHECK_TOKENS)]
        # Activations that become int8 would tell two ways to run the same tokens apart by far more than others do.
        with exact_activations(self._model):
            at_once = self._logits(tokens, None, {})  # [tokens, vocab]
            first, state = self.prefill(tokens[:2])
            rest = [self.extend(state, [token]) for token in tokens[2:]]
        one_by_one = torch.stack([first, *rest])  # [tokens - 1, vocab]
        if not at_once.amax(dim=-1).isfinite().all():
            raise ModelMismatch(f"{name} computes logits that are not finite numbers.")
        wanted = at_once[1:]
        tolerance = _TOLERANCE.get(self._model.dtype, _TOLERANCE_HALF) * max(1.0, wanted.abs().amax().item())
        difference = (wanted - one_by_one).abs().amax().item()
        if not difference <= tolerance:
            raise ModelMismatch(
                f"{name} gives other logits token by token than for the same tokens at once (they differ by "
                f"{difference:.3g}), so its answers would be wrong."
            )

    @torch.inference_mode()
    def bytes_per_token(self) -> int:
        """Memory that one more token takes in a sequence's cache, all layers; a full window's layers take none more."""
        counts = []
        for length in (_CHECK_TOKENS, 2 * _CHECK_TOKENS):
            _, state = self.prefill([0] * length)
            tensors = [
                part for layer in state.cache.layers for part in vars(layer).values() if isinstance(part, Tensor)
            ]
            counts.append(sum(tensor.nbytes for tensor in tensors))
        return max(1, (counts[1] - counts[0]) // _CHECK_TOKENS)

    def _empty_cache(self) -> DynamicCache:
        return DynamicCache(config=self._model.config)

    def _media_inputs(self, span: Span) -> dict[str, Any]:
        ids = torch.tensor([span.token_ids], dtype=torch.int64, device=self.device)  # [1, tokens]
        positions = torch.arange(span.start, span.start + len(span.token_ids), device=self.device)[None]
        return media_inputs(ids, positions, [span], [len(span.token_ids) - 1], self._model.get_input_embeddings())

    def _logits(self, token_ids: Sequence[int], cache: DynamicCache | None, extra: dict[str, Any]) -> Tensor:
        """Logits of a run of tokens, float32 ``[tokens or 1, vocab]``. ``extra`` may have the inputs themselves."""
        keywords: dict[str, Any] = {self._cache_keyword: cache} if cache is not None else {}
        if "position_ids" not in extra:
            keywords["input_ids"] = torch.tensor(
                [list(token_ids)], dtype=torch.int64, device=self.device
            )  # [1, tokens]
        logits: Tensor = self._model(use_cache=cache is not None, return_dict=True, **keywords, **extra).logits
        return logits[0, :, : self._vocab_size].float()


def rope_switch(config: Any) -> int | None:
    """The length beyond which a "longrope" model rotates all its positions differently; None for other models."""
    text_config = config.get_text_config()
    rope = getattr(text_config, "rope_parameters", None) or {}
    for part in (rope, *(part for part in rope.values() if isinstance(part, dict))):
        if part.get("rope_type") == "longrope":
            original = part.get("original_max_position_embeddings")
            return original or getattr(text_config, "original_max_position_embeddings", None)
    return None
