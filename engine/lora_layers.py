"""Which layers of a loaded model adapters may change, and the adapters that change them now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from engine.fused.layers import DecoderLayer, GatedFeedForward
from engine.fused.products import Product
from engine.lora_config import LinearLayer
from engine.lora_delta import AdapterRows, Delta
from engine.plan import AdapterTensors, Span
from engine.quantised.linear import Int8Linear
from engine.types import AdapterError

_LINEAR = (nn.Linear, Conv1D, Int8Linear)


@torch.inference_mode()
def changeable_layers(model: Any, trial: Callable[[], object], tokens: int) -> dict[str, LinearLayer]:
    """The linear layers of an unchanged model through which each row of a step goes once, in the order of the rows.

    Experts, which get some rows of a step, are left out: they lie in a list inside the list of layers.

    Args:
        model: transformers' causal language model.
        trial: runs a step of ``tokens`` rows through the model.
        tokens: more than one.
    """
    output = model.get_output_embeddings()
    found = {
        name: LinearLayer(*_features(module), is_output=module is output)
        for name, module in model.named_modules()
        if type(module) in _LINEAR and sum(part.isdecimal() for part in name.split(".")) <= 1
    }
    calls: dict[str, list[int]] = {name: [] for name in found}

    def count(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], __: Any) -> None:
            calls[name].append(args[0].numel() // args[0].shape[-1] if args else 0)

        return hook

    hooks = [model.get_submodule(name).register_forward_hook(count(name)) for name in found]
    try:
        trial()
    finally:
        for hook in hooks:
            hook.remove()
    return {
        name: layer
        for name, layer in found.items()
        if calls[name] == [tokens] or (layer.is_output and len(calls[name]) == 1)
    }


def _features(module: Any) -> tuple[int, int]:
    if isinstance(module, Conv1D):
        inner, outer = module.weight.shape
        return int(inner), int(outer)
    return module.in_features, module.out_features


class LoraLayers:
    """The adapters of one model, in whatever modules its layers have become. Not thread safe."""

    def __init__(self, model: nn.Module, layers: Mapping[str, LinearLayer]) -> None:
        """For a model whose changeable layers were ``layers``; modules may have been replaced since."""
        self._tokens = AdapterRows()
        self._outputs = AdapterRows()
        self._places: dict[str, tuple[nn.Module, int]] = {}
        self._deltas: dict[nn.Module, Delta] = {}
        self._hooks: dict[nn.Module, Any] = {}
        self._loaded: dict[int, list[nn.Module]] = {}
        self._latest = 0
        for module, names in _products("", model):
            if all(name in layers for name in names):
                is_output = layers[names[0]].is_output
                sizes = [layers[name].out_features for name in names]
                self._deltas[module] = Delta(self._outputs if is_output else self._tokens, sizes)
                self._places.update({name: (module, place) for place, name in enumerate(names)})
        self.layers = {name: layers[name] for name in self._places}
        """Those that adapters may change."""

    def load(self, tensors: AdapterTensors) -> int:
        """Take an adapter; returns its id, which is never given again.

        Raises:
            AdapterError: it changes a layer that cannot be changed.
        """
        parts: dict[nn.Module, dict[int, tuple[Tensor, Tensor]]] = {}
        for name, pair in tensors.items():
            if name not in self._places:
                raise AdapterError(f"this model has no layer {name!r} that an adapter can change.")
            module, place = self._places[name]
            parts.setdefault(module, {})[place] = pair
        self._latest += 1
        for module, by_place in parts.items():
            delta = self._deltas[module]
            if delta.is_empty:
                self._attach(module, delta)
            delta.load(self._latest, by_place)
        self._loaded[self._latest] = list(parts)
        return self._latest

    def unload(self, adapter: int) -> None:
        """Forget an adapter; no later step may ask for it."""
        for module in self._loaded.pop(adapter):
            delta = self._deltas[module]
            delta.unload(adapter)
            if delta.is_empty:
                self._detach(module)

    def follow(self, spans: Sequence[Span], last_rows: Sequence[int]) -> None:
        """Get ready for the forward of a step.

        Args:
            spans: of the step.
            last_rows: of each span its last row; its rows are a run. The output layer sees the rows whose logits
                are wanted, in span order.

        Raises:
            ValueError: an adapter that is not loaded.
        """
        rows: dict[int, list[int]] = {}
        outputs: dict[int, list[int]] = {}
        if self._loaded or any(span.adapter for span in spans):
            wanted = 0
            for span, last in zip(spans, last_rows, strict=True):
                if span.adapter:
                    rows.setdefault(self._known(span.adapter), []).extend(
                        range(last + 1 - len(span.token_ids), last + 1)
                    )
                    if span.wanted:
                        outputs.setdefault(span.adapter, []).extend(range(wanted, wanted + span.wanted))
                wanted += span.wanted
        self._tokens.assign(rows)
        self._outputs.assign(outputs)

    def follow_one(self, adapter: int) -> None:
        """Get ready for a forward whose rows are all of one adapter; of none, when it is 0.

        Raises:
            ValueError: it is not loaded.
        """
        if adapter:
            self._known(adapter)
        self._tokens.assign_all(adapter)
        self._outputs.assign_all(adapter)

    def _known(self, adapter: int) -> int:
        if adapter not in self._loaded:
            raise ValueError(f"there is no adapter {adapter}")
        return adapter

    def _attach(self, module: nn.Module, delta: Delta) -> None:
        if isinstance(module, Product):
            module.delta = delta
            return

        def add(_: nn.Module, args: tuple[Any, ...], out: Tensor) -> None:
            if delta.rows.parts:
                delta.add(args[0], out)

        self._hooks[module] = module.register_forward_hook(add)

    def _detach(self, module: nn.Module) -> None:
        if isinstance(module, Product):
            module.delta = None
        else:
            self._hooks.pop(module).remove()


def _products(path: str, module: nn.Module) -> Iterator[tuple[nn.Module, list[str]]]:
    """The modules that compute the linear layers at and below ``path``, with the names that those layers had."""
    if isinstance(module, DecoderLayer | GatedFeedForward):
        for product, names in module.linear_layers():
            yield product, [f"{path}.{name}" for name in names]
    elif isinstance(module, Product) or type(module) in _LINEAR:
        yield module, [path]
    else:
        for name, child in module.named_children():
            yield from _products(f"{path}.{name}" if path else name, child)
