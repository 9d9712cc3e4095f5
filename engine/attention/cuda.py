"""Attention on CUDA: torch's attention over sequences of any length, which reads pages through tables."""

from __future__ import annotations

from torch import Tensor
from torch.nn.attention import varlen

from engine.attention.paged import PageStep, widened
from engine.attention.registry import LayerRules
from engine.forward import ModelMismatch

PAGE_SIZE = 256
"""Tokens of a page: Flash Attention 2 reads pages of a multiple of this."""
_EVERYTHING = -1
"""A window without an end."""


class CudaStep(PageStep):
    """One packed forward. Lengths and tables lie on the device; only the longest ones are told to the kernel."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, rules: LayerRules) -> Tensor:
        """See ``Step.attend``.

        Raises:
            ModelMismatch: the kernel cannot do what the layer asks for.
        """
        if rules.softcap is not None:
            raise ModelMismatch("its attention caps scores softly, which torch's attention by page tables does not do.")
        keys, values = self.pool.keys[layer], self.pool.values[layer]
        kv_heads, width = keys.shape[-2:]
        places = self.slots.long()
        keys.view(-1, kv_heads, width).index_copy_(0, places, widened(key, width))
        values.view(-1, kv_heads, width).index_copy_(0, places, widened(value, width))
        rows = [end - begin for begin, end in zip([0, *self.ends[:-1]], self.ends, strict=True)]
        found = varlen.varlen_attn(
            widened(query, width),
            keys,
            values,
            self.cumulative,
            None,
            max(rows),
            max(self.lengths),
            return_aux=varlen.AuxRequest(lse=True) if rules.sinks is not None else None,
            scale=rules.scale,
            # Both ends are looked from: a window of one token has nothing to its left.
            window_size=(_EVERYTHING if rules.window is None else rules.window - 1, 0),
            enable_gqa=query.shape[1] != kv_heads,
            seqused_k=self.used,
            block_table=self.block_table,
        )
        if not isinstance(found, tuple):
            return found[..., : value.shape[-1]]
        out, sums = found  # [tokens, heads, width], [tokens, heads]
        assert rules.sinks is not None
        # A score beside others whose exponentials sum to exp(lse) leaves this part of what they give together.
        part = (sums.float() - rules.sinks.float()).sigmoid()
        return out[..., : value.shape[-1]] * part[..., None].to(out.dtype)
