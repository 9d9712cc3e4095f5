"""The command line: what each option becomes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handlers.planes import Planes
from tools.cli import _parser, _settings, main
from tools.serving import teller


def test_options_become_settings(tmp_path: Path) -> None:
    """Every contract option lands in the setting of its name; a file's text in that of its content."""
    template = tmp_path / "mine.jinja"
    template.write_text("{{ messages }}", encoding="utf-8")
    given = _parser().parse_args(
        [
            *("mock", "--port", "8000", "--max-n", "4", "--max-seq-len", "64", "--max-iter-times", "8"),
            *("--max-input-token-len", "32", "--max-request-length", "1", "--max-json-depth", "10"),
            *("--strict-unknown", "--full-text-enabled", "--open-ai-support", "openai", "--drain-timeout", "5"),
            *("--relaxed-rules", "tools-exclude-n, tools-exclude-stop", "--profile", "mtp,deepseek"),
            *("--chat-template", str(template), "--chat-template-time", "0.5", "--chat-template-memory", "100"),
            *("--chat-template-output", "1", "--chat-template-workers", "3", "--token-timeout", "7"),
            *("--chat-template-dir", str(tmp_path), "--tool-parser", "qwen3", "--reasoning-parser", "none"),
            *("--e2e-timeout", "65535", "--no-metrics", "--npu-usage-threshold", "30", "--allow-all-zero-ip"),
            *("--management-host", "127.0.0.2", "--management-port", "1", "--metrics-port", "2"),
        ]
    )

    settings = _settings(given, "m")

    assert (settings.port, settings.max_n, settings.max_seq_len, settings.max_iter_times) == (8000, 4, 64, 8)
    assert (settings.max_input_token_len, settings.max_request_length, settings.max_json_depth) == (32, 1.0, 10)
    assert (settings.strict_unknown, settings.full_text_enabled, settings.openai_form) == (True, True, True)
    assert settings.relaxed_rules == ("tools-exclude-n", "tools-exclude-stop")
    assert (settings.token_timeout, settings.e2e_timeout, settings.metrics) == (7, 65535, False)
    assert (settings.tool_parser, settings.reasoning_parser) == ("qwen3", "none")
    assert (settings.features, settings.model_type) == (("mtp",), "deepseek")
    assert (settings.chat_template, settings.template_time_s) == ("{{ messages }}", 0.5)
    assert (settings.template_memory_bytes, settings.template_output_bytes) == (100 * 2**20, 2**20)
    assert settings.template_workers == 3
    assert (settings.chat_template_dir, settings.drain_timeout_s) == (tmp_path, 5.0)
    assert settings.planes == Planes("127.0.0.2", 1, 2, allow_all_zero=True)
    assert settings.health.npu_usage_threshold == 30


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mock", "--profile", "mtq"], "unknown: mtq"),
        (["mock", "--relaxed-rules", "content-required"], "no rule of this name can be relaxed: content-required"),
        (["serve", "--max-n", "0"], "at least 1"),
        (["serve", "--tool-parser", "llama4"], "'llama4' is none of auto, none, hermes, "),
        (["mock", "--reasoning-parser", "x"], "'x' is none of auto, none, qwen3, "),
        (["serve", "--chat-template", "/none/such.jinja"], "cannot be read: No such file"),
        (["serve", "--max-queue", "-1"], "at least 0"),
        (["serve", "--port", "65536"], "65535"),
        (["serve", "--max-request-length", "nan"], "not a number"),
        (["serve", "--max-request-length", "0"], "above 0"),
        (["serve", "--drain-timeout", "-1"], "below 0"),
        (["serve", "--token-timeout", "3601"], "whole number of seconds from 1 to 3600"),
        (["serve", "--e2e-timeout", "0"], "whole number of seconds from 1 to 65535"),
        (["serve", "--engine-stall-seconds", "0"], "above 0"),
        (["serve", "--instances", "11"], "whole number from 1 to 10"),
        (["mock", "--npu-usage-threshold", "101"], "whole number from 0 to 100"),
        (["serve", "--cpu-weights", "int4"], "invalid choice: 'int4' (choose from 'bf16', 'int8')"),
    ],
)
def test_a_bad_option_ends_with_a_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """argparse's own exit code, and the value that was wrong."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """serve --model with a wrong path fails before anything is loaded, with the exit code of weights."""
    assert main(["serve", "--model", str(tmp_path / "none")]) == 66
    assert capsys.readouterr().err == f"mindspec: there is no folder {tmp_path / 'none'}\n"


def test_a_failed_start_is_an_object_where_lines_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --log-form json; so is what an engine says while it loads."""
    assert main(["serve", "--model", str(tmp_path / "none"), "--log-form", "json"]) == 66
    teller("json")("Half of the weights are read.")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [
        ("critical", f"mindspec: there is no folder {tmp_path / 'none'}"),
        ("info", "Half of the weights are read."),
    ]


def test_serve_takes_no_profile() -> None:
    """This engine has none of MindIE's limits, so serve cannot be told to refuse by them."""
    with pytest.raises(SystemExit):
        main(["serve", "--profile", "mtp"])
