"""The text part of a media model with its output layer, called like a causal language model of transformers."""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutputWithPast


class TextPart(nn.Module):
    """Layers keep the names that they have in the whole model, so that adapters find them.

    ``forward`` takes ``input_ids`` ``[1, tokens]`` or ``inputs_embeds`` ``[1, tokens, hidden]``, and ``position_ids``
    ``[1, tokens]``, or ``[axes, 1, tokens]`` where the model counts places on several axes.
    """

    def __init__(self, whole: Any, body: str = "model.language_model", head: str = "lm_head") -> None:
        """Args:
        whole: transformers' model.
        body: where its text model without an output layer is.
        head: where its output layer is.
        """
        super().__init__()
        for path in (body, head):
            self._take(path, whole.get_submodule(path))
        self._body = attrgetter(body)
        self._head = attrgetter(head)
        self.config = self._body(self).config
        accepted = inspect.signature(self._body(self).forward).parameters
        # The keyword was renamed between transformers' releases.
        self._cache_keyword = "cache" if "cache" in accepted else "past_key_values"

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = self._body(self).device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        dtype: torch.dtype = self._body(self).dtype
        return dtype

    @property
    def _supports_attention_backend(self) -> bool:
        """Whether attention goes through transformers' interface, which the packed runner asks of a model."""
        return bool(getattr(self._body(self), "_supports_attention_backend", False))

    def set_attn_implementation(self, name: str) -> None:
        """Change the attention of the text part alone."""
        self._body(self).set_attn_implementation(name)

    def get_input_embeddings(self) -> nn.Module:
        """The table of tokens."""
        table: nn.Module = self._body(self).get_input_embeddings()
        return table

    def get_output_embeddings(self) -> nn.Module:
        """The layer that gives the logits."""
        head: nn.Module = self._head(self)
        return head

    def forward(
        self,
        input_ids: Tensor | None = None,
        *,
        cache: Any = None,
        logits_to_keep: int | Tensor = 0,
        return_dict: bool = True,
        **keywords: Any,
    ) -> CausalLMOutputWithPast:
        """Args:
        input_ids: or ``inputs_embeds`` among the keywords, which the text model gets as they are.
        cache: of keys and values.
        logits_to_keep: rows whose logits are wanted; a number means so many of the last ones, 0 all.
        return_dict: always meant.
        """
        if cache is not None:
            keywords[self._cache_keyword] = cache
        outputs = self._body(self)(input_ids=input_ids, **self.body_keywords(keywords))
        hidden: Tensor = outputs.last_hidden_state  # [1, tokens, hidden]
        rows = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        return CausalLMOutputWithPast(logits=self._head(self)(hidden[:, rows]))

    def body_keywords(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """What the text model is called with; for families that read more of an embedding than its own width."""
        return keywords

    def _take(self, path: str, module: nn.Module) -> None:
        parent: nn.Module = self
        *outer, last = path.split(".")
        for name in outer:
            if not hasattr(parent, name):
                parent.add_module(name, nn.Module())
            parent = parent.get_submodule(name)
        parent.add_module(last, module)
