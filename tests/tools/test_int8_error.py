"""The measure of what int8 weights cost, on a tiny model: a line for each way to compute, by falling exactness."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.text.byte_tokenizer import mock_tokenizer
from tests.engine.native_models import model, need_native
from tools import int8_error


def test_both_kinds_of_weights_and_transformers_are_held_against_float32(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over every position of every prompt and its answer; rounded weights cost more than bfloat16 does."""
    need_native()
    monkeypatch.setenv("MINDSPEC_CACHE", str(tmp_path / "cache"))
    tokenizer = mock_tokenizer()
    model("llama", vocab_size=tokenizer.vocab_size, max_position_embeddings=1024).save_pretrained(tmp_path)
    tokenizer._backend.save(str(tmp_path / "tokenizer.json"))
    positions = sum(len(tokenizer.encode(text, add_special_tokens=True)) + 3 for text in int8_error.PROMPTS)

    assert int8_error.main([str(tmp_path), "--answer", "3"]) == 0

    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "8 prompts with 3 tokens of answer each; against the float32 model:"
    found = [re.fullmatch(r"(.+?) +mean .* difference\| ([\d.]+) \(.*%.* argmax \d+ of (\d+)", line) for line in lines]
    assert [match and (match[1], match[3]) for match in found] == [
        (name, str(positions)) for name in ("bf16", "int8", "transformers bf16")
    ]
    errors = {match[1]: float(match[2]) for match in found if match}
    assert errors["bf16"] < errors["transformers bf16"] <= errors["int8"]
