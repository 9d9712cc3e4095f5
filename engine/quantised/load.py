"""Lets transformers' loader put int8 layers where a folder has them, in its own way for quantised models."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn
from transformers.quantizers import HfQuantizer
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING
from transformers.utils.quantization_config import QuantizationConfigMixin

from engine.quantised.folder import QuantisedFolder
from engine.quantised.linear import Int8Linear
from engine.quantised.norm import add_bias
from engine.quantised.stored import NotServed

_METHOD = "mindspec_int8"


class _Int8Config(QuantizationConfigMixin):  # type: ignore[misc]  # transformers has no types
    """Hands the folder's layers to the quantiser."""

    def __init__(self, folder: QuantisedFolder) -> None:
        super().__init__(quant_method=_METHOD)
        self.folder = folder


class _Int8Quantizer(HfQuantizer):  # type: ignore[misc]  # as above
    """Puts in the layers before the files are read, and leaves no trace of itself afterwards."""

    def __init__(self, quantization_config: _Int8Config, **_: Any) -> None:
        super().__init__(quantization_config, pre_quantized=True)
        self._folder = quantization_config.folder

    def _process_model_before_weight_loading(self, model: Any, **options: Any) -> None:
        tied = model.config.get_text_config().tie_word_embeddings
        for name, layer in self._folder.layers.items():
            module = _submodule(model, name)
            if tied and module is model.get_output_embeddings():
                raise NotServed(f"{name} is quantised and has the weights of the embeddings, which are not.")
            if type(module) is not nn.Linear:
                raise NotServed(f"{name} is quantised and is a {type(module).__name__}; linear layers are served.")
            if (module.in_features, module.out_features) != (layer.in_features, layer.out_features):
                raise NotServed(
                    f"{name}.weight is [{layer.out_features}, {layer.in_features}], where the model has "
                    f"[{module.out_features}, {module.in_features}]."
                )
            with torch.device("meta"):
                int8 = Int8Linear(layer.in_features, layer.out_features, bias=layer.has_bias)
            model.set_submodule(name, int8)
        for name in self._folder.norm_biases:
            norm = _submodule(model, name)
            if type(norm).__name__.endswith("RMSNorm") and getattr(norm, "bias", None) is None:
                add_bias(norm)
        ignored = {re.escape(name) + "$" for name in self._folder.without_effect}
        model._keys_to_ignore_on_load_unexpected = {*(model._keys_to_ignore_on_load_unexpected or ()), *ignored}

    def _process_model_after_weight_loading(self, model: Any, **options: Any) -> None:
        self.remove_quantization_config(model)

    def is_serializable(self) -> bool:
        """Nothing is written."""
        return False

    @property
    def is_trainable(self) -> bool:
        """Nothing is trained."""
        return False


def loading_options(folder: QuantisedFolder, config: Any) -> dict[str, Any]:
    """Keywords for ``from_pretrained`` of a quantised folder.

    Args:
        folder: what it has.
        config: transformers' configuration of the model; changed, since what it says about quantised weights would
            have transformers ask for the tool that made them.
    """
    AUTO_QUANTIZER_MAPPING.setdefault(_METHOD, _Int8Quantizer)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.transformers_weights = folder.weights
    return {"config": config, "quantization_config": _Int8Config(folder)}


def _submodule(model: Any, name: str) -> Any:
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise NotServed(f"{name} is in the files, and the model has no such layer of its own.") from None
