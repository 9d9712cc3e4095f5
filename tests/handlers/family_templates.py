"""Reduced chat templates of the model families, each with a tokenizer that has the family's control tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from engine.text.decoding import BYTE_OF_SYMBOL
from engine.text.tokenizer import BackedTokenizer

FOLDER: Final = Path(__file__).parent / "chat_templates"

CHATML: Final = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
GLM: Final = ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|endoftext|>")
DEEPSEEK: Final = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")
DEEPSEEK_ADDED: Final = (
    "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
)  # fmt: skip
LLAMA: Final = ("<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>")
MISTRAL: Final = (
    "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
)  # fmt: skip

SPECIAL: Final = {
    "qwen2_5": CHATML, "qwen3": CHATML, "deepseek_r1": DEEPSEEK, "deepseek_v3_1": DEEPSEEK, "chatglm3": GLM,
    "glm4": GLM, "llama3": LLAMA, "mistral": MISTRAL, "smollm2": CHATML, "hermes_tool_use": CHATML, "vision": CHATML,
}  # fmt: skip
"""Special tokens by family; the first of DeepSeek's, Llama's and Mistral's begins a sequence."""
ADDED: Final = {
    "qwen3": ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    "deepseek_r1": DEEPSEEK_ADDED,
    "deepseek_v3_1": DEEPSEEK_ADDED,
}
"""Added tokens that these vocabularies do not call special."""
NAMED: Final = {
    "deepseek_r1": {"bos_token": DEEPSEEK[0], "eos_token": DEEPSEEK[1]},
    "deepseek_v3_1": {"bos_token": DEEPSEEK[0], "eos_token": DEEPSEEK[1]},
    "llama3": {"bos_token": LLAMA[0], "eos_token": LLAMA[1]},
    "mistral": {"bos_token": "<s>", "eos_token": "</s>"},
    "hermes_tool_use": {"bos_token": "<|endoftext|>"},
}


def template_text(family: str) -> str:
    """The family's reduced template."""
    return (FOLDER / f"{family}.jinja").read_text(encoding="utf-8")


def backend_of(family: str) -> Tokenizer:
    """Bytes, and the family's control tokens."""
    backend = Tokenizer(models.BPE(vocab=dict(BYTE_OF_SYMBOL), merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL[family]])
    backend.add_tokens([AddedToken(token, special=False, normalized=False) for token in ADDED.get(family, ())])
    return backend


def tokenizer_of(family: str) -> BackedTokenizer:
    """The family's tokenizer as a server has it."""
    return BackedTokenizer(
        backend_of(family),
        eos_token_ids=(0,),
        special_tokens_map=NAMED.get(family, {}),
        chat_template=template_text(family),
    )
