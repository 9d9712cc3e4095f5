"""Loads a language model from a local folder, and its encoders of media, or says in a sentence why it cannot."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMultimodalLM, GgufConfig
from transformers.distributed import DistributedConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
)
from transformers.utils import logging as transformers_logging

from engine.devices import NoDevice, find_device
from engine.forward import ModelMismatch, SequenceForward, rope_switch
from engine.loader_facts import POSITION_FIELDS
from engine.multimodal.family import ENCODERS, MediaEncoder, encoder_of
from engine.parallel import fit
from engine.quantised.folder import read_quantised
from engine.quantised.load import loading_options
from engine.quantised.stored import NotServed
from engine.types import LoadFailureCause, ModelInfo

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
"""The dtypes that may be asked for by name; "auto" besides."""

DEFAULT_POSITIONS = 4096
"""Context length of a model whose configuration names none (ALiBi, recurrent models)."""

_NATIVE_BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16"})
_CPU_INFO = Path("/proc/cpuinfo")

_log = logging.getLogger(__name__)


class LoadError(Exception):
    """The model cannot be served; the message is a sentence that says why, and names files without their paths."""

    load_failure_cause: LoadFailureCause = "weights"


class DeviceMissing(LoadError):
    """The device that was asked for is not there."""

    load_failure_cause: LoadFailureCause = "device"


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory, ready to run."""

    model: Any
    """transformers' model, or the text part of one that takes media: in eval mode, without gradients, on its device."""
    info: ModelInfo
    encoder: MediaEncoder | None = None
    """Of a model that takes media."""


def load(
    path: Path,
    *,
    dtype: str = "auto",
    device: str | None = None,
    trust_remote_code: bool = False,
    tried: bool = True,
    ranks: int = 1,
) -> LoadedModel:
    """Load the model of a folder (safetensors, also in shards, or one GGUF file) or of a GGUF file.

    Nothing is fetched from a network, and no pickled weights are read. Code that lies in the folder runs only with
    ``trust_remote_code``. Weights that ModelSlim or compressed-tensors made int8 stay int8.

    Args:
        path: the folder or the .gguf file.
        dtype: "float32", "float16", "bfloat16", or "auto": bfloat16 on NPUs, on CUDA and on CPUs that compute in
            it natively (AVX512_BF16 or AMX), else float32.
        device: see :func:`engine.devices.find_device`.
        trust_remote_code: run model code from the folder.
        tried: after :func:`try_out`; who does without has to compare the model's logits in another way.
        ranks: processes that share the model's weights out among them by transformers' own plan; each loads its part,
            as a member of the default group of torch.distributed.

    Raises:
        LoadError: not a servable model.
        DeviceMissing: the device is not there.
    """
    folder, gguf_file = _locate(path)
    name = path.name
    try:
        target = find_device(device)
    except NoDevice as error:
        raise DeviceMissing(str(error)) from error
    chosen_dtype = resolve_dtype(dtype, target, cpu_flags())
    source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    if gguf_file:
        source["gguf_file"] = gguf_file
    try:
        config = AutoConfig.from_pretrained(folder, **source)
    except Exception as error:
        _refuse_own_code(name, folder, trust_remote_code, error)
        raise LoadError(f"The configuration of {name!r} cannot be read: {_reason(error)}") from error
    _refuse_other_kinds(name, config, trust_remote_code)
    if ranks > 1:
        _refuse_ranks(name, config, ranks, from_gguf=gguf_file is not None)
        source["distributed_config"] = DistributedConfig(tp_size=ranks, tp_plan="auto")
    if gguf_file:
        source["quantization_config"] = GgufConfig(dequantize=True)
    else:
        source["use_safetensors"] = True
    quantised = None if gguf_file else _quantised(name, folder, config, source)
    # The bar that transformers draws on stderr while it reads weights has no place in a server's log.
    transformers_logging.disable_progress_bar()
    kind = AutoModelForMultimodalLM if config.model_type in ENCODERS else AutoModelForCausalLM
    try:
        model, report = kind.from_pretrained(folder, dtype=chosen_dtype, output_loading_info=True, **source)
    except NotServed as error:
        raise LoadError(f"The quantised weights of {name!r} are not served: {error}") from error
    except Exception as error:
        _refuse_own_code(name, folder, trust_remote_code, error)
        raise LoadError(f"The weights of {name!r} cannot be loaded: {_reason(error)}") from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise LoadError(f"The weights of {name!r} are not whole: {missing[0]} is missing ({len(missing)} in all).")
    if quantised and report["unexpected_keys"]:
        unknown = sorted(report["unexpected_keys"])
        also = f"{unknown[0]}, which this model does not use ({len(unknown)} in all)"
        raise LoadError(f"The quantised weights of {name!r} have {also}.")
    try:
        model = model.to(target).eval().requires_grad_(False)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        raise DeviceMissing(f"The model {name!r} cannot be put on {target}: {_reason(error)}") from error
    encoder = encoder_of(model)
    served = model if encoder is None else encoder.text_model().eval()
    if encoder is not None and rope_switch(served.config) is not None:
        raise LoadError(f"{name!r} takes media and rotates all positions anew when a sequence grows; it is not served.")
    info = ModelInfo(
        vocab_size=_vocab_rows(served),
        max_position_embeddings=_positions(config),
        eos_token_ids=_eos_token_ids(folder, model, from_gguf=gguf_file is not None),
        dtype=str(chosen_dtype).removeprefix("torch."),
        device=str(target),
        architecture=type(model).__name__,
        media_tokens=() if encoder is None else tuple(encoder.token_ids.items()),
    )
    loaded = LoadedModel(served, info, encoder)
    if tried:
        try_out(loaded, name)
    return loaded


def _quantised(name: str, folder: Path, config: Any, source: dict[str, Any]) -> bool:
    """Whether a folder has int8 weights; ``source`` then says to transformers how they are loaded."""
    try:
        found = read_quantised(folder, _read_json(folder / "config.json"))
    except NotServed as error:
        raise LoadError(f"The quantised weights of {name!r} are not served: {error}") from error
    if found is None:
        return False
    if config.model_type in ENCODERS:
        raise LoadError(f"{name!r} takes media and has quantised weights; those are served of models of text only.")
    source |= loading_options(found, config)
    _log.info("%d layers of %s are int8, as %s made them", len(found.layers), name, found.written_by)
    return True


def try_out(loaded: LoadedModel, name: str) -> None:
    """Run a few tokens; see :meth:`engine.forward.SequenceForward.self_check`.

    Raises:
        LoadError: the model, which the message calls ``name``, cannot be served.
    """
    try:
        SequenceForward(loaded.model, loaded.info.vocab_size).self_check()
    except ModelMismatch as error:
        raise LoadError(f"The model {name!r} cannot be served: {error}") from error
    except Exception as error:
        raise LoadError(f"The model {name!r} failed in a trial run of a few tokens: {_reason(error)}") from error


def resolve_dtype(name: str, device: torch.device, flags: frozenset[str]) -> torch.dtype:
    """The dtype that a setting means on a device, given the CPU's feature flags.

    Raises:
        LoadError: an unknown name.
    """
    if name in DTYPES:
        return DTYPES[name]
    if name != "auto":
        raise LoadError(f"The dtype {name!r} is none of auto, {', '.join(DTYPES)}.")
    if device.type in ("npu", "cuda") or (device.type == "cpu" and flags & _NATIVE_BFLOAT16):
        return torch.bfloat16
    return torch.float32


def cpu_flags() -> frozenset[str]:
    """Feature names of the first CPU as Linux lists them; empty elsewhere."""
    try:
        lines = _CPU_INFO.read_text().splitlines()
    except OSError:
        return frozenset()
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return frozenset(flags.split())


def _locate(path: Path) -> tuple[Path, str | None]:
    """The folder, and the name of the GGUF file in it where that holds the weights."""
    name = path.name
    if path.is_file():
        if path.suffix != ".gguf":
            raise LoadError(f"{name!r} is a file but no .gguf file; name the model's folder.")
        return path.parent, path.name
    if not path.is_dir():
        raise LoadError(f"There is no model folder named {name!r}.")
    if any(path.glob("*.safetensors")):
        if not (path / "config.json").is_file():
            raise LoadError(f"The folder {name!r} has weights but no config.json.")
        return path, None
    packed = sorted(file.name for file in path.glob("*.gguf"))
    if len(packed) == 1:
        return path, packed[0]
    if packed:
        raise LoadError(f"The folder {name!r} has {len(packed)} GGUF files; name the one to serve.")
    if any(path.glob("*.bin")) or any(path.glob("*.pt")):
        raise LoadError(f"The folder {name!r} has pickled weights only, which are not read: convert to safetensors.")
    raise LoadError(f"The folder {name!r} has no weights: no .safetensors and no .gguf file.")


def _refuse_other_kinds(name: str, config: Any, trust_remote_code: bool) -> None:
    """Raise LoadError for models that do not continue a text token by token, or take media and have no encoder here."""
    if config.is_encoder_decoder:
        raise LoadError(f"{name!r} is an encoder-decoder ({config.model_type}); only decoder-only models are served.")
    declared = config.architectures or []
    with_media = MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES.get(config.model_type)
    if config.model_type in ENCODERS:
        return
    if with_media is not None and (not declared or declared[0] == with_media):
        served = ", ".join(sorted(ENCODERS))
        raise LoadError(f"{name!r} is a {with_media}, which takes media; of such models those are served: {served}.")
    remote = trust_remote_code and "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {})
    known: set[str] = set()
    for classes in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        known.update([classes] if isinstance(classes, str) else classes)
    if declared and not remote and not known.intersection(declared):
        raise LoadError(f"{name!r} is a {declared[0]}, which is not a causal language model.")


def _refuse_ranks(name: str, config: Any, ranks: int, *, from_gguf: bool) -> None:
    """Raise LoadError for models that so many ranks cannot share."""
    refusal = fit.refusal(fit.heads_of(config.to_dict()), ranks, repr(name))
    if refusal is not None:
        raise LoadError(f"worldSize {refusal}.")
    if from_gguf:
        raise LoadError(f"worldSize is {ranks}, and {name!r} is a GGUF file, which runs on one device: worldSize 1.")
    if config.model_type in ENCODERS:
        raise LoadError(f"worldSize is {ranks}, and {name!r} takes media; such models run on one device: worldSize 1.")
    plan = getattr(config.get_text_config(), "base_model_tp_plan", None) or {}
    if not any("colwise" in style for style in plan.values()):
        raise LoadError(
            f"worldSize is {ranks}, and transformers has no plan by which ranks could share a {config.model_type}; it "
            "runs on one device: worldSize 1."
        )


def _refuse_own_code(name: str, folder: Path, trust_remote_code: bool, error: Exception) -> None:
    """Raise LoadError where a model that did not load has code of its own, which may not run."""
    modules = _read_json(folder / "config.json").get("auto_map") or {}
    if modules and not trust_remote_code:
        where = str(next(iter(modules.values()))).partition(".")[0]
        raise LoadError(
            f"{name!r} needs code that lies beside its weights ({where}.py), which runs only with trustRemoteCode true "
            "(--trust-remote-code): read that code first."
        ) from error


def _vocab_rows(model: Any) -> int:
    """Ids that can be both chosen and fed back: rows of the output layer, or of the input table where it has fewer."""
    rows = [
        layer.weight.shape[0]
        for layer in (model.get_output_embeddings(), model.get_input_embeddings())
        if getattr(layer, "weight", None) is not None
    ]
    return int(min(rows)) if rows else int(model.config.get_text_config().vocab_size)


def _positions(config: Any) -> int:
    """The longest sequence that the model was made for."""
    for part in (config.get_text_config(), config):
        for field in POSITION_FIELDS:
            value = getattr(part, field, None)
            if isinstance(value, int) and value > 0:
                return value
    return DEFAULT_POSITIONS


def _eos_token_ids(folder: Path, model: Any, *, from_gguf: bool) -> tuple[int, ...]:
    """EOS ids as generation_config.json writes them, else config.json, else (GGUF) the file's own metadata."""
    config = _read_json(folder / "config.json")
    candidates = [_read_json(folder / "generation_config.json"), config, config.get("text_config") or {}]
    written = [part["eos_token_id"] for part in candidates if part.get("eos_token_id") is not None]
    if not written and from_gguf:
        written = [model.config.get_text_config().eos_token_id]
    value = written[0] if written else None
    ids = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(token_id for token_id in ids if type(token_id) is int))


def _read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file; empty where there is no file."""
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LoadError(f"{file.name} is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise LoadError(f"{file.name} is not a JSON object.")
    return content


def _reason(error: Exception) -> str:
    """The first line of an exception's text."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
