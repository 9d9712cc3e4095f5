"""Loading models from folders and GGUF files, and the sentences that refuse what cannot be served."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from gguf import GGUFWriter
from tiny_models import build, ids, tokens_of
from transformers import (
    BertConfig,
    BertLMHeadModel,
    BloomConfig,
    BloomForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from engine.loader import DEFAULT_POSITIONS, LoadError, load, resolve_dtype


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A tiny llama in several shards, with its folder."""
    model = build("llama", 0)
    folder = tmp_path_factory.mktemp("models") / "tiny"
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    return model, folder


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the saved folder that a test may change."""
    return shutil.copytree(saved[1], tmp_path / "tiny")


def _edit(file, **changes):
    content = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**content, **changes}))


def test_a_sharded_folder_loads_and_answers_as_the_model_saved(saved):
    """Same greedy tokens as the model in memory, and the facts of its configuration."""
    model, folder = saved
    loaded = load(folder, dtype="float32", device="cpu")
    assert (loaded.info.vocab_size, loaded.info.max_position_embeddings) == (96, 256)
    assert (loaded.info.dtype, loaded.info.device) == ("float32", "cpu")
    assert (loaded.info.architecture, loaded.info.eos_token_ids) == ("LlamaForCausalLM", (2,))
    greedy = {"max_tokens": 8, "temperature": 0.0}
    assert ids(tokens_of(loaded.model, (1, 5), **greedy)) == ids(tokens_of(model, (1, 5), **greedy))


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_a_dtype_by_name_is_the_one_loaded(saved, name):
    """The weights and the info have the dtype asked for."""
    loaded = load(saved[1], dtype=name, device="cpu")
    assert loaded.info.dtype == name
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {getattr(torch, name)}


@pytest.mark.parametrize(
    ("device", "flags", "wanted"),
    [
        ("cpu", {"avx512f"}, torch.float32),
        ("cpu", {"avx512f", "avx512_bf16"}, torch.bfloat16),
        ("cpu", {"amx_bf16"}, torch.bfloat16),
        ("cpu", set(), torch.float32),
        ("cuda", set(), torch.bfloat16),
    ],
)
def test_auto_is_bfloat16_where_it_is_native(device, flags, wanted):
    """auto looks at the device and at the CPU's features."""
    assert resolve_dtype("auto", torch.device(device), frozenset(flags)) is wanted


def test_an_unknown_dtype_is_refused(saved):
    """int8 is none of the names."""
    with pytest.raises(LoadError, match="'int8' is none of auto, float32, float16, bfloat16"):
        load(saved[1], dtype="int8")


def test_eos_ids_come_from_generation_config_first(folder):
    """A list there wins over config.json."""
    _edit(folder / "generation_config.json", eos_token_id=[7, 8, 7])
    assert load(folder, dtype="float32", device="cpu").info.eos_token_ids == (7, 8)


def test_eos_ids_come_from_config_where_generation_config_is_silent(folder):
    """No generation_config.json: config.json's id; null everywhere: none."""
    (folder / "generation_config.json").unlink()
    assert load(folder, dtype="float32", device="cpu").info.eos_token_ids == (2,)
    _edit(folder / "config.json", eos_token_id=None)
    assert load(folder, dtype="float32", device="cpu").info.eos_token_ids == ()


def test_a_broken_generation_config_is_named(folder):
    """Malformed JSON is a sentence with the file's name."""
    (folder / "generation_config.json").write_text("{")
    with pytest.raises(LoadError, match=r"generation_config\.json|weights of 'tiny'"):
        load(folder, dtype="float32", device="cpu")


def test_a_model_without_position_limit_gets_the_default(tmp_path):
    """Bloom's ALiBi has no limit in its configuration."""
    config = BloomConfig(vocab_size=64, hidden_size=32, n_layer=1, n_head=2)
    BloomForCausalLM(config).save_pretrained(tmp_path / "bloom")
    assert load(tmp_path / "bloom", dtype="float32", device="cpu").info.max_position_embeddings == DEFAULT_POSITIONS


def test_an_encoder_decoder_is_refused(tmp_path):
    """T5 is refused by its kind."""
    config = T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    with pytest.raises(LoadError, match=r"'t5' is an encoder-decoder \(t5\)"):
        load(tmp_path / "t5")


@pytest.fixture
def bert(tmp_path):
    """A BERT whose attention looks both ways, saved under the name of its causal class."""
    config = BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, is_decoder=True
    )
    config.initializer_range = 0.5
    BertLMHeadModel(config).save_pretrained(tmp_path / "bert")
    _edit(tmp_path / "bert" / "config.json", is_decoder=False)
    return tmp_path / "bert"


def test_a_model_that_is_no_causal_lm_is_refused(bert):
    """An architecture that is not a causal LM is named."""
    _edit(bert / "config.json", architectures=["BertForMaskedLM"])
    with pytest.raises(LoadError, match="'bert' is a BertForMaskedLM, which is not a causal language model"):
        load(bert, dtype="float32", device="cpu")


def test_a_model_that_looks_ahead_fails_the_self_check(bert):
    """A bidirectional model that calls itself causal is found out by its logits."""
    with pytest.raises(LoadError, match="'bert' cannot be served: BertLMHeadModel"):
        load(bert, dtype="float32", device="cpu")


def test_a_folder_without_weights_is_refused(folder):
    """No .safetensors and no .gguf."""
    for file in folder.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(LoadError, match=r"'tiny' has no weights: no \.safetensors and no \.gguf file"):
        load(folder)


def test_pickled_weights_are_refused(folder):
    """A .bin file alone is not read."""
    for file in folder.glob("*.safetensors"):
        file.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(LoadError, match="'tiny' has pickled weights only"):
        load(folder)


def test_a_missing_folder_and_a_strange_file_are_refused(tmp_path):
    """Neither is a model."""
    with pytest.raises(LoadError, match="no model folder named 'nothing'"):
        load(tmp_path / "nothing")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(LoadError, match=r"'notes\.txt' is a file but no \.gguf file"):
        load(tmp_path / "notes.txt")


def test_a_missing_shard_is_refused(folder):
    """A shard of the index that is not there is an error, not random weights."""
    sorted(folder.glob("*.safetensors"))[0].unlink()
    with pytest.raises(LoadError, match="The weights of 'tiny' cannot be loaded"):
        load(folder, dtype="float32", device="cpu")


def test_a_missing_tensor_is_refused(tmp_path):
    """Weights without one of the model's tensors are not filled with random numbers."""
    model = build("llama", 0)
    model.save_pretrained(
        tmp_path / "tiny", state_dict={k: v for k, v in model.state_dict().items() if "q_proj" not in k}
    )
    with pytest.raises(
        LoadError, match=r"not whole: model\.layers\.0\.self_attn\.q_proj\.weight is missing \(2 in all\)"
    ):
        load(tmp_path / "tiny", dtype="float32", device="cpu")


def test_code_in_the_folder_runs_only_on_request(folder):
    """A model type that needs the folder's own code is refused without trust_remote_code and loads with it."""
    (folder / "own.py").write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnForCausalLM(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    auto_map = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnForCausalLM"}
    _edit(folder / "config.json", model_type="own", architectures=["OwnForCausalLM"], auto_map=auto_map)
    with pytest.raises(
        LoadError, match=r"needs code that lies beside its weights \(own\.py\), which runs only with trustRemoteCode"
    ):
        load(folder, dtype="float32", device="cpu")
    loaded = load(folder, dtype="float32", device="cpu", trust_remote_code=True)
    assert loaded.info.architecture == "OwnForCausalLM"


def _permuted(weight, heads):
    """Llama's q and k rows in the order that GGUF files keep them."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory):
    """The tiny llama as a GGUF file, with the model it was made from."""
    model = build("llama", 0)
    config, weights = model.config, model.state_dict()
    file = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = GGUFWriter(file, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_eos_token_id(2)
    writer.add_bos_token_id(1)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{index}" for index in range(config.vocab_size)])
    writer.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"].numpy())
    writer.add_tensor("output_norm.weight", weights["model.norm.weight"].numpy())
    writer.add_tensor("output.weight", weights["lm_head.weight"].numpy())
    names = {
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    for layer in range(config.num_hidden_layers):
        of = f"model.layers.{layer}."
        for theirs, packed in names.items():
            writer.add_tensor(f"blk.{layer}.{packed}.weight", weights[f"{of}{theirs}.weight"].numpy())
        for part, heads in (("q", config.num_attention_heads), ("k", config.num_key_value_heads)):
            weight = weights[f"{of}self_attn.{part}_proj.weight"].numpy()
            writer.add_tensor(f"blk.{layer}.attn_{part}.weight", _permuted(weight, heads).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model, file


@pytest.mark.parametrize("by", ["file", "folder"])
def test_a_gguf_file_loads_dequantised(gguf_file, by):
    """Named itself or by its folder: the greedy tokens of the model it was made from, and its own EOS id."""
    model, file = gguf_file
    loaded = load(file if by == "file" else file.parent, dtype="float32", device="cpu")
    assert (loaded.info.vocab_size, loaded.info.max_position_embeddings) == (96, 256)
    assert loaded.info.eos_token_ids == (2,)
    greedy = {"max_tokens": 8, "temperature": 0.0}
    assert ids(tokens_of(loaded.model, (1, 5), **greedy)) == ids(tokens_of(model, (1, 5), **greedy))


def test_two_gguf_files_need_a_choice(gguf_file, tmp_path):
    """A folder with two is refused; the message says to name one."""
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(gguf_file[1], tmp_path / name)
    with pytest.raises(LoadError, match="has 2 GGUF files; name the one to serve"):
        load(tmp_path)
