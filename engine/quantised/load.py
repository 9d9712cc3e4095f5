"""Lets transformers' loader put int8 layers where a folder has them, in its own way for quantised models."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn
from transformers.distributed.tensor_parallel import (
    ALL_PARALLEL_STYLES,
    TensorParallelLayer,
    replace_layer_number_by_wildcard,
)
from transformers.quantizers import HfQuantizer
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING
from transformers.utils.quantization_config import QuantizationConfigMixin

from engine.quantised.folder import QuantisedFolder
from engine.quantised.linear import Int8Linear
from engine.quantised.norm import add_bias
from engine.quantised.stored import NotServed

_METHOD = "mindspec_int8"
_WHOLE = "mindspec_whole"
"""A style of parallelism: every rank has all of a parameter. transformers has that too, in newer versions."""


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
            if "rowwise" in model.tp_plan.get(replace_layer_number_by_wildcard(name), ""):
                _share_inputs(model, name, int8)
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
    ALL_PARALLEL_STYLES.register(_WHOLE, TensorParallelLayer())
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.transformers_weights = folder.weights
    return {"config": config, "quantization_config": _Int8Config(folder)}


def _share_inputs(model: Any, name: str, layer: Int8Linear) -> None:
    """Prepare a layer whose inputs ranks will share out, if there are several.

    Its scales belong to outputs, all of which each rank sums up. The bias is added to the sum, and gives it its dtype.
    """
    model.tp_plan[f"{replace_layer_number_by_wildcard(name)}.weight_scale"] = _WHOLE
    layer.register_forward_hook(_in_dtype_of_rows)


def _in_dtype_of_rows(_: nn.Module, arguments: tuple[Tensor, ...], product: Tensor) -> Tensor:
    return product.to(arguments[0].dtype)


def _submodule(model: Any, name: str) -> Any:
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise NotServed(f"{name} is in the files, and the model has no such layer of its own.") from None
