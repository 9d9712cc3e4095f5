"""adapter_config.json: the layers, ranks and factors that PEFT takes from it, and a sentence for all else."""

from __future__ import annotations

import json
import warnings

import pytest
from peft import LoraConfig
from peft.tuners.lora import LoraLayer

from engine.lora_config import MAX_CONFIG_BYTES, AdapterConfig, LayerRank, LinearLayer
from engine.types import AdapterError
from tests.engine.families import build
from tests.engine.peft_adapters import adapted

PARTS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
PARTS += ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
LAYERS = {f"model.layers.{layer}.{part}": LinearLayer(8, 8) for layer in range(2) for part in PARTS}
LAYERS["lm_head"] = LinearLayer(8, 64, is_output=True)
PLAIN = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}

ACCEPTED = {
    "names": {"target_modules": ["q_proj", "down_proj"]},
    "a whole name": {"target_modules": ["model.layers.1.self_attn.o_proj", "lm_head"]},
    "an expression": {"target_modules": r".*layers\.1\..*(q|up)_proj"},
    "all linear layers": {"target_modules": "all-linear"},
    "all but some": {"target_modules": "all-linear", "exclude_modules": ["k_proj"]},
    "all but an expression": {"target_modules": ["q_proj", "v_proj"], "exclude_modules": r".*\.0\..*"},
    "one layer": {"target_modules": ["q_proj", "v_proj"], "layers_to_transform": 1},
    "layers by a name": {"target_modules": ["q_proj"], "layers_to_transform": [0], "layers_pattern": "layers"},
    "the root of the rank": {"use_rslora": True, "r": 9, "target_modules": ["q_proj"]},
    "ranks of their own": {"target_modules": ["q_proj", "v_proj"], "rank_pattern": {"q_proj": 2, "1.self_attn.v.*": 3}},
    "alphas of their own": {"target_modules": ["q_proj", "v_proj"], "alpha_pattern": {r"layers\.0\..*": 3.5}},
    "both, with roots": {
        "target_modules": "all-linear",
        "use_rslora": True,
        "rank_pattern": {"q_proj": 16},
        "alpha_pattern": {"q_proj": 1, "up_proj": 2},
    },
}


@pytest.mark.parametrize("settings", ACCEPTED.values(), ids=list(ACCEPTED))
def test_layers_ranks_and_factors_are_those_of_peft(settings):
    """PEFT adapts a model under the same settings; every layer it changed, its rank and its factor agree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = adapted(build("llama"), 0, **settings)
    wanted = {
        name.removeprefix("base_model.model."): LayerRank(module.r["default"], module.scaling["default"])
        for name, module in made.named_modules()
        if isinstance(module, LoraLayer)
    }
    config = json.loads(json.dumps({**PLAIN, **settings}))
    assert AdapterConfig.of(config).changed(LAYERS) == wanted


def test_what_peft_writes_by_default_is_accepted():
    """Every member of today's LoraConfig at its default."""
    config = LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"]).to_dict()
    assert AdapterConfig.of(json.loads(json.dumps(config, default=list))).rank == 8


REFUSED = {
    "another method": ({"peft_type": "IA3"}, "of the type 'IA3'; only LORA"),
    "no method": ({"peft_type": None}, "of the type 'None'"),
    "DoRA": ({"use_dora": True}, "it uses DoRA"),
    "whole modules": ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
    "a bias": ({"bias": "lora_only"}, "changes biases"),
    "a bias of its own": ({"lora_bias": True}, "lora_bias"),
    "another task": ({"task_type": "SEQ_CLS"}, "'SEQ_CLS'"),
    "changed weights of the model": ({"init_lora_weights": "pissa_niter_4"}, "'pissa_niter_4', which changes"),
    "parameters": ({"target_parameters": ["experts.w"]}, "target_parameters"),
    "repeated layers": ({"layer_replication": [[0, 2]]}, "layer_replication"),
    "tokens": ({"trainable_token_indices": [3]}, "trainable_token_indices"),
    "something new": ({"use_quantum": True}, "sets 'use_quantum', which is not known"),
    "no targets": ({"target_modules": None}, "no target_modules"),
    "targets of another model": ({"target_modules": ["c_attn"]}, "name no layer of this model"),
    "targets that are numbers": ({"target_modules": [1]}, "target_modules must be text"),
    "a rank of 0": ({"r": 0}, "r must be a whole number of at least 1"),
    "a rank that is true": ({"r": True}, "r must be a whole number"),
    "a rank in a pattern": ({"rank_pattern": {"q_proj": 1.5}}, "rank_pattern must be"),
    "no alpha": ({"lora_alpha": None}, "lora_alpha must be a number"),
    "an endless alpha": ({"lora_alpha": float("inf")}, "lora_alpha must be a number"),
    "a pattern that is none": ({"target_modules": "(q_proj"}, r"'\(q_proj' is no regular expression"),
    "a pattern without end": ({"target_modules": r"(\w|\.|[a-z_.]|[a-z])*j#?k"}, "takes too long"),
    "a long pattern": ({"target_modules": "q" * 1001}, "more than 1000 characters"),
    "layers with an expression": ({"target_modules": "q", "layers_to_transform": [0]}, "goes with a list"),
    "layers that are words": ({"layers_to_transform": ["0"]}, "layers_to_transform must be"),
    "a switch that is a word": ({"use_rslora": "yes"}, "use_rslora must be true or false"),
    "a pattern that is a list": ({"alpha_pattern": ["q_proj"]}, "alpha_pattern must be an object"),
}


@pytest.mark.parametrize(("changes", "sentence"), REFUSED.values(), ids=list(REFUSED))
def test_what_has_no_effect_here_is_refused_by_name(changes, sentence):
    """One sentence that says which setting."""
    with pytest.raises(AdapterError, match=sentence):
        AdapterConfig.of({**PLAIN, **changes}).changed(LAYERS)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read"),
        (b"{", "is not JSON"),
        (b"[" * 200_000, "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b" " * (MAX_CONFIG_BYTES + 1), "more than 1048576 bytes"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path, content, sentence):
    """Missing, broken, too deep, too large."""
    if content is not None:
        (tmp_path / "adapter_config.json").write_bytes(content)
    with pytest.raises(AdapterError, match=sentence):
        AdapterConfig.read(tmp_path)
