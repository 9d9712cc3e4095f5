"""The same weights run by transformers alone, and the formulas that answers are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

GREEDY_TOKENS = 40
Greedy = Callable[[str], tuple[list[int], dict[str, Any]]]
"""The fixture ``greedy``: for a prompt the tokens of ``generate`` and the server's answer, both made once."""


@dataclass(frozen=True)
class Penalties:
    """Settings of the three penalties; the defaults change nothing."""

    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0


class Reference:
    """The default model in float32 with transformers' own tokenizer."""

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.eos: int = self.model.generation_config.eos_token_id

    def encode(self, text: str) -> list[int]:
        """Token ids of a completions prompt."""
        ids: list[int] = self.tokenizer(text)["input_ids"]
        return ids

    def chat_ids(self, *contents: str) -> list[int]:
        """Token ids of a conversation of user and assistant messages in turn, ready for the answer."""
        roles = ("user", "assistant")
        messages = [{"role": roles[index % 2], "content": content} for index, content in enumerate(contents)]
        ids: list[int] = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of ids as they are, no spaces cleaned up."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
        )
        return text

    @torch.inference_mode()
    def generate(self, prompt: Sequence[int], max_tokens: int, **options: Any) -> list[list[int]]:
        """The sequences of transformers' ``generate``, greedy or by beams, each up to and with its end."""
        ids = torch.tensor([list(prompt)])  # [1, prompt]
        options = {"do_sample": False, "max_new_tokens": max_tokens, **options}
        # The padding id is the EOS id here: without a mask such prompt tokens would not be looked at.
        found = self.model.generate(ids, attention_mask=torch.ones_like(ids), **options)  # [sequences, prompt + new]
        rows: list[list[int]] = found[:, len(prompt) :].tolist()
        if options.get("eos_token_id", self.eos) is None:
            return rows
        ends = [row.index(self.eos) + 1 if self.eos in row else len(row) for row in rows]
        return [row[:end] for row, end in zip(rows, ends, strict=True)]

    @torch.inference_mode()
    def logits(self, prompt: Sequence[int], output: Sequence[int]) -> torch.Tensor:
        """Raw logits of one dense forward, float32 ``[output, vocab]``: row i is what chose ``output[i]``."""
        ids = torch.tensor([[*prompt, *output]])
        logits: torch.Tensor = self.model(ids, use_cache=False).logits[0]
        return logits[len(prompt) - 1 : -1]

    @torch.inference_mode()
    def likeliest(self, prompt: Sequence[int], max_tokens: int, penalties: Penalties) -> list[int]:
        """The likeliest tokens after penalties, up to and with EOS, without any code of this program."""
        output: list[int] = []
        cache = DynamicCache(config=self.model.config)
        ids = torch.tensor([list(prompt)])  # [1, new]
        while len(output) < max_tokens and (not output or output[-1] != self.eos):
            logits = self.model(ids, cache=cache, use_cache=True).logits[0, -1].tolist()  # [vocab]
            for token in {*prompt, *output}:
                logits[token] *= 1 / penalties.repetition if logits[token] > 0 else penalties.repetition
            for token in set(output):
                logits[token] -= penalties.frequency * output.count(token) + penalties.presence
            output.append(max(range(len(logits)), key=logits.__getitem__))
            ids = torch.tensor([output[-1:]])
        return output
