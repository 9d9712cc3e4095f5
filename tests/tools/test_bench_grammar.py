"""The bench of grammars on a tiny model: every line is printed, with its figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from engine.text.byte_tokenizer import mock_tokenizer
from tests.engine import families
from tools import bench_grammar


def test_both_tables_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tokens a second free and held, and steps beside a schema of each size."""
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "1")
    tokenizer = mock_tokenizer()
    ends = list(tokenizer.eos_token_ids)
    sizes = {"vocab_size": tokenizer.vocab_size, "max_position_embeddings": 256, "eos_token_id": ends}
    families.build("llama", **sizes).save_pretrained(tmp_path)
    tokenizer._backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    threads = torch.get_num_threads()

    short = ["--dtype", "float32", "--threads", str(threads), "--rows", "2", "--tokens", "8", "--rounds", "1"]
    assert bench_grammar.main([str(tmp_path), *short, "--fields", "5", "30"]) == 0

    lines = capsys.readouterr().out.splitlines()
    speeds = [line for line in lines if re.search(r"free +[\d.]+ +held +[\d.]+ +ratio [\d.]+$", line)]
    stalls = [line for line in lines if re.search(r"(5|30) fields: usual step .* worst when a held one comes", line)]
    assert (len(speeds), len(stalls)) == (2, 2)
