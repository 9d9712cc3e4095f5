"""The command line's options for adapters, and starts that they make impossible."""

from __future__ import annotations

from pathlib import Path

import pytest

from handlers.settings import LoraModule
from tools.cli import _parser, _settings, main


def test_adapters_are_named_with_their_folders(tmp_path: Path) -> None:
    """--lora may be repeated; a folder may have an equals sign in its name."""
    given = _parser().parse_args(
        [
            *("serve", "--lora", f"a={tmp_path}", "--lora", f"b={tmp_path}/x=1"),
            *("--max-loras", "4", "--max-lora-rank", "64", "--lora-dir", str(tmp_path)),
        ]
    )
    settings = _settings(given, "m")
    assert settings.lora_modules == (LoraModule("a", tmp_path), LoraModule("b", tmp_path / "x=1"))
    assert (settings.max_loras, settings.max_lora_rank, settings.lora_dir) == (4, 64, tmp_path)
    assert settings.adapter_limits().allow_loading


def test_no_adapter_is_loaded_later_unless_asked_for() -> None:
    """The defaults are MindIE's, 0 and 0."""
    settings = _settings(_parser().parse_args(["serve"]), "m")
    assert (settings.lora_modules, settings.lora_dir, settings.adapter_limits().allow_loading) == ((), None, False)


@pytest.mark.parametrize("text", ["a", "a=", "=folder"])
def test_an_adapter_without_name_or_folder_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the form that is needed."""
    with pytest.raises(SystemExit):
        main(["mock", "--lora", text])
    assert f"{text!r} is not NAME=DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--lora", "mock=x"], "an adapter cannot have the deployed model's name, 'mock'."),
        (["--lora", "a=x", "--lora", "b=x", "--max-loras", "1"], "2 adapters are given; at most 1 fit (maxLoras)."),
        (["--lora", "a=x", "--lora", "a=x"], "the adapter 'a' cannot be used: it is loaded already."),
    ],
)
def test_a_server_with_impossible_adapters_does_not_start(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 and one sentence."""
    assert main(["mock", *options]) == 78
    assert capsys.readouterr().err == f"mindspec: {sentence}\n"
