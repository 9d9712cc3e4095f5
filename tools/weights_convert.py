"""The converter process: the default model's GGUF file in, a safetensors model folder out, checked tensor by tensor.

Started by path and importing nothing of ours; arguments: GGUF file, empty folder, dtype name.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def convert_folder(gguf: Path, folder: Path, dtype_name: str) -> None:
    """Write config, weights (``dtype_name``: bfloat16 or float32), tokenizer and chat template into ``folder``.

    Raises:
        RuntimeError: what was written does not equal what was read.
    """
    # As engine/without_torchvision.py does: beside a torch that it was not built for no model could be imported.
    sys.modules.setdefault("torchvision", None)  # type: ignore[arg-type]  # None: it cannot be imported

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    place: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    dtype = getattr(torch, dtype_name)
    # Without dequantize the tensors stay packed, and packed tensors cannot be saved.
    model = AutoModelForCausalLM.from_pretrained(
        **place, dtype=dtype, quantization_config=GgufConfig(dequantize=True)
    ).eval()
    model.save_pretrained(folder)
    weights = folder / "model.safetensors"
    # Written for its owner alone; as readable as the files beside it, so that a service account can use the folder.
    weights.chmod((folder / "config.json").stat().st_mode)

    tokenizer = AutoTokenizer.from_pretrained(**place)
    tokenizer.model_max_length = model.config.max_position_embeddings
    repair_pre_tokenizer(tokenizer.backend_tokenizer)
    tokenizer.save_pretrained(folder)

    check_tensors(model, weights)


def repair_pre_tokenizer(backend: Any) -> None:
    """Put back the digit split that the GGUF file only names (``tokenizer.ggml.pre`` is ``smollm`` in it).

    The name means: every digit stands alone, and only then comes the byte-level split. The loader reads the vocabulary
    and leaves the first step out; "x   5" then falls into other tokens than the model was trained on.
    """
    from tokenizers import pre_tokenizers

    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


def check_tensors(model: Any, path: Path) -> None:
    """Compare every saved tensor with the loaded model's, bit for bit.

    Raises:
        RuntimeError: a tensor is missing, or differs.
    """
    import torch
    from safetensors import safe_open

    expected: dict[str, torch.Tensor] = model.state_dict()
    if model.config.tie_word_embeddings:
        expected.pop("lm_head.weight", None)
    with safe_open(str(path), framework="pt") as saved:
        names = set(saved.keys())
        for name, tensor in expected.items():
            if name not in names or not torch.equal(saved.get_tensor(name), tensor):
                raise RuntimeError(f"{name} was not saved as it was read")


if __name__ == "__main__":
    convert_folder(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
