"""`serve --config` and `config check` as processes and as commands: exit codes, what they print, who wins."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from config_samples import COMPLETE, DEPLOY, MOCK, MODEL, SCHEDULE, changed, written
from config_server import TEMPLATE, make, save_weights

from engine.loader import load
from engine.text.byte_tokenizer import mock_tokenizer
from tests.engine.int8_models import in_parts, write_modelslim
from tests.engine.peft_adapters import save
from tests.engine.tiny_models import NO_EOS, build, generate
from tools.cli import main
from tools.serving import CannotStart

_TIME_S = 120.0


@contextmanager
def running(file: Path, *arguments: str) -> Iterator[tuple[str, list[str]]]:
    """`mindspec serve --config` until it is ready: its address, and the lines of standard error so far."""
    command = [sys.executable, "-m", "tools.cli", "serve", "--config", str(file), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    lines: queue.Queue[str] = queue.Queue()
    errors: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    threads = [
        threading.Thread(target=lambda stream: [lines.put(line) for line in stream], args=(process.stdout,)),
        threading.Thread(target=lambda stream: errors.extend(stream), args=(process.stderr,)),
    ]
    for thread in threads:
        thread.start()
    try:
        while "mindspec serves" not in (line := lines.get(timeout=_TIME_S)):
            pass
        yield line.rpartition(" on ")[2].strip(), errors
    finally:
        process.terminate()
        process.wait(_TIME_S)
        for thread in threads:
            thread.join(_TIME_S)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on just now."""
    import socket

    sockets = [socket.socket() for _ in range(count)]
    for held in sockets:
        held.bind(("127.0.0.1", 0))
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


def test_the_complete_sample_serves_a_model_with_its_adapter(tmp_path: Path) -> None:
    """MindIE's file as it is; only paths, ports and lengths that the tiny weights allow differ."""
    save_weights(tmp_path / "weights" / "Qwen3-32B")
    vocabulary = mock_tokenizer(TEMPLATE, ("<think>", "</think>")).vocab_size
    save(build("llama", 1, vocabulary), tmp_path / "lora" / "adapter1", 3)
    business, management, metrics = free_ports(3)
    ports = {
        "ServerConfig.port": business,
        "ServerConfig.managementPort": management,
        "ServerConfig.metricsPort": metrics,
    }
    file = written(tmp_path, changed(COMPLETE, ports))
    body = {"prompt": "Hello", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    with running(file, "--dtype", "float32") as (url, errors):
        answers = [
            httpx.post(f"{url}/v1/completions", json={**body, "model": name}, timeout=_TIME_S).json()
            for name in ("Qwen3-32B", "adapter1")
        ]
        listed = httpx.get(f"{url}/v1/models").json()
    assert url == f"http://127.0.0.1:{business}"
    assert [answer["model"] for answer in answers] == ["Qwen3-32B", "adapter1"]
    assert [answer["usage"]["completion_tokens"] for answer in answers] == [8, 8]
    assert answers[0]["choices"][0]["text"] != answers[1]["choices"][0]["text"]
    assert [entry["id"] for entry in listed["data"]] == ["Qwen3-32B", "adapter1"]
    assert any("38 keys have no meaning here" in line and "cpuMemSize" in line for line in errors)


def test_two_devices_share_a_model_with_int8_weights(tmp_path: Path) -> None:
    """A folder of ModelSlim's answers with the tokens of one process that rounds both halves of a row apart."""
    folder = save_weights(tmp_path / "weights")
    (folder / "model.safetensors").unlink()
    tokenizer = mock_tokenizer(TEMPLATE, ("<think>", "</think>"))
    write_modelslim(build("llama", 1, tokenizer.vocab_size).requires_grad_(False), folder)
    prompt = list(range(3, 30))
    halves = in_parts(load(folder, dtype="float32", device="cpu").model, 2)
    wanted = generate(halves, prompt, max_new_tokens=8, **NO_EOS).sequences[0, len(prompt) :].tolist()
    names = "ServerConfig.port", "ServerConfig.managementPort", "ServerConfig.metricsPort"
    model = {MODEL: {"modelName": "m", "modelWeightPath": "weights", "npuMemSize": 1}}
    file = written(tmp_path, changed(MOCK, {**dict(zip(names, free_ports(3), strict=True)), **model}))
    body = {"model": "m", "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    with running(file, "--world-size", "2", "--device", "cpu", "--dtype", "float32") as (url, _):
        answer = httpx.post(f"{url}/v1/completions", json=body, timeout=_TIME_S).json()
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["choices"][0]["text"] == tokenizer._backend.decode(wanted)


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda folder: None, "there is no folder {folder}"),
        (lambda folder: folder.write_text("x"), "{folder} is not a folder"),
        (lambda folder: folder.mkdir(), "the folder {folder} has no weights"),
        (lambda folder: cut(save_weights(folder)), "the weights {folder}/model.safetensors are cut off: "),
        (
            lambda folder: (save_weights(folder) / "model.safetensors").write_bytes(b"x"),
            "the weights {folder}/model.safetensors are cut off or no safetensors file (1 bytes)",
        ),
        (lambda folder: (save_weights(folder) / "config.json").write_text("{"), "{folder}/config.json is not JSON: "),
        (lambda folder: (save_weights(folder) / "tokenizer.json").unlink(), "the tokenizer of {folder} cannot be used"),
        (
            lambda folder: (save_weights(folder) / "lora_adapter.json").write_text('{"a": 1}'),
            "{folder}/lora_adapter.json gives no folder for 'a'",
        ),
    ],
    ids=["missing", "a file", "empty", "cut", "no safetensors", "config", "tokenizer", "adapters"],
)
def test_weights_that_cannot_be_served_end_the_start_with_66(break_it: Any, words: str, tmp_path: Path) -> None:
    """One line that names the path, before anything is loaded."""
    folder = tmp_path / "weights"
    break_it(folder)
    file = written(tmp_path, changed(MOCK, {MODEL: {"modelName": "m", "modelWeightPath": "weights"}}))
    with pytest.raises(CannotStart) as caught:
        make(file)
    assert caught.value.code == 66
    assert str(caught.value).startswith("mindspec: " + words.format(folder=folder))
    assert "\n" not in str(caught.value)


def cut(folder: Path) -> None:
    """Take the last bytes of the weights away."""
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def test_adapters_of_the_older_file_are_served(tmp_path: Path) -> None:
    """lora_adapter.json beside the weights counts where the file has no LoraModules."""
    folder = save_weights(tmp_path / "weights")
    (folder / "lora_adapter.json").write_text('{"french": "adapters/french"}')
    config = changed(MOCK, {MODEL: {"modelName": "m", "modelWeightPath": "weights"}})
    for changes, expected in (({}, ["french"]), ({f"{DEPLOY}.LoraModules": []}, [])):
        service = make(written(tmp_path, changed(config, changes)))
        assert [module.name for module in service.settings.lora_modules] == expected


def test_a_broken_file_ends_the_start_with_78(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each fault, and no more."""
    file = written(tmp_path, changed(MOCK, {"ServerConfig.port": 1, f"{SCHEDULE}.maxN": 999}))
    assert main(["serve", "--config", str(file)]) == 78
    assert capsys.readouterr().err.splitlines() == [
        f"{file}: ServerConfig.port: is 1; it must be an integer from 1024 to 65535",
        f"{file}: BackendConfig.ScheduleConfig.maxN: maxN must be at most maxBatchSize; here maxN is 999, "
        "maxBatchSize is 200",
    ]


def test_options_on_the_command_line_win_over_the_file(tmp_path: Path) -> None:
    """Also where they say what is the default without a file."""
    file = written(tmp_path, changed(MOCK, {"ServerConfig.port": 2000, f"{SCHEDULE}.maxN": 7}))
    settings = make(file, "--max-n", "128", "--model-name", "mine").settings
    assert (settings.port, settings.max_n, settings.model_name) == (2000, 128, "mine")


def test_the_variable_names_the_file_unless_a_model_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MIES_CONFIG_JSON_PATH, as in MindIE; --config and --model win."""
    from tools.cli import _parser
    from tools.config.start import config_path

    environment = {"MIES_CONFIG_JSON_PATH": "/x/config.json"}
    paths = [
        config_path(_parser().parse_args(["serve", *arguments]), environment)
        for arguments in ([], ["--config", "/y.json"], ["--model", "/weights"])
    ]
    assert paths == [Path("/x/config.json"), Path("/y.json"), None]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"MIES_CONTAINER_IP": "here"}, "MIES_CONTAINER_IP: is 'here'; it must be an IPv4 or IPv6 address"),
        ({"MIES_CONTAINER_IP": "0.0.0.0"}, "MIES_CONTAINER_IP: is 0.0.0.0, which listens on every network"),
        ({"NPU_MEMORY_FRACTION": "2"}, "NPU_MEMORY_FRACTION: is '2'; it must be a number above 0 and at most 1"),
        ({"MIES_SERVICE_MONITOR_MODE": "on"}, "MIES_SERVICE_MONITOR_MODE: is 'on'; it must be 0 or 1"),
        ({"DYNAMIC_AVERAGE_WINDOW_SIZE": "0"}, "DYNAMIC_AVERAGE_WINDOW_SIZE: is '0'; it must be a whole number"),
        ({"MINDIE_LOG_TO_STDOUT": "2"}, "MINDIE_LOG_TO_STDOUT: is '2'; it must be 0 or 1 or false or true"),
        ({"MINDIE_LOG_LEVEL": "loud"}, "MINDIE_LOG_LEVEL: is 'loud'; it must be one of DEBUG, INFO, WARN"),
    ],
)
def test_a_wrong_variable_ends_the_start_with_78(environment: dict[str, str], words: str, tmp_path: Path) -> None:
    """It is named like a key."""
    with pytest.raises(CannotStart) as caught:
        make(written(tmp_path, MOCK), environment=environment)
    assert caught.value.code == 78
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({f"{MODEL}.models.x.chat_template": "none.jinja"}, "models.x.chat_template: the chat template "),
        ({"ServerConfig.relaxedRules": ["no-rule"]}, "ServerConfig.relaxedRules: names 'no-rule'; rules that can be"),
    ],
)
def test_what_only_a_start_can_see_is_a_fault_too(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Files that are not there, names that nothing has."""
    with pytest.raises(CannotStart) as caught:
        make(written(tmp_path, changed(MOCK, changes)))
    assert caught.value.code == 78
    assert words in str(caught.value)


def test_what_has_no_effect_is_named_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown keys, keys without a meaning, plugins, parsers that nobody knows, and variables."""
    changes = {
        "ServerConfig.prot": 1,
        f"{MODEL}.tp": 1,
        f"{MODEL}.plugin_params": '{"plugin_type": "mtp, prefix_cache"}',
        f"{MODEL}.models.x.tool_call_options.tool_call_parser": "qwen9",
    }
    file = written(tmp_path, changed(MOCK, changes))
    make(file, environment={"HCCL_DETERMINISTIC": "true"})
    lines = [line.removeprefix(f"{file}: ") for line in capsys.readouterr().err.splitlines()]
    where = "BackendConfig.ModelDeployConfig.ModelConfig[0]"
    assert lines[0] == "ServerConfig.prot: is not known and changes nothing; did you mean port?"
    assert lines[1] == f"{where}.plugin_params: names mtp, which has no meaning here"
    assert lines[2].startswith(f"{where}.models.x.tool_call_options.tool_call_parser: is 'qwen9', which is not known")
    assert lines[3].startswith("HCCL_DETERMINISTIC: has no meaning here: ")
    assert lines[4] == f"1 key has no meaning here (`mindspec config check` says why): {where}.tp"


def test_weights_that_bring_their_own_code_are_refused_by_name(tmp_path: Path) -> None:
    """Unless trustRemoteCode is true."""
    from engine.loader import LoadError

    remote = {
        "model_type": "tiny-own",
        "auto_map": {"AutoConfig": "own.TinyConfig", "AutoModelForCausalLM": "own.Tiny"},
    }
    folder = save_weights(tmp_path / "weights", **remote)
    (folder / "own.py").write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n\n\n"
        "class TinyConfig(LlamaConfig):\n    model_type = 'tiny-own'\n\n\n"
        "class Tiny(LlamaForCausalLM):\n    config_class = TinyConfig\n"
    )
    config = changed(MOCK, {MODEL: {"modelName": "m", "modelWeightPath": "weights", "npuMemSize": 1}})
    with pytest.raises(LoadError, match=r"needs code that lies beside its weights \(own.py\).*trustRemoteCode true"):
        make(written(tmp_path, config))
    service = make(written(tmp_path, changed(config, {f"{MODEL}.trustRemoteCode": True})))
    assert service.front.executor.info.architecture == "Tiny"  # type: ignore[attr-defined]  # the front of these tests


def test_check_says_all_and_ends_with_0_or_78(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as JSON."""
    good = written(tmp_path, changed(MOCK, {"ServerConfig.prot": 1, f"{MODEL}.tp": 1}), "good.json")
    assert main(["config", "check", str(good)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{good}: ServerConfig.prot: is not known and changes nothing; did you mean port?",
        f"{good}: BackendConfig.ModelDeployConfig.ModelConfig[0].tp: has no meaning here: All ranks of worldSize are "
        "tensor parallel.",
        f"{good}: may be used",
    ]
    bad = written(tmp_path, changed(MOCK, {"ServerConfig.port": 1}), "bad.json")
    assert main(["config", "check", str(bad), "--json"]) == 78
    assert json.loads(capsys.readouterr().out) == {
        "file": str(bad),
        "usable": False,
        "faults": [{"key": "ServerConfig.port", "message": "is 1; it must be an integer from 1024 to 65535"}],
        "notes": [],
    }


def test_check_names_weights_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file itself may be used: it may be written on another machine."""
    file = written(tmp_path, COMPLETE)
    assert main(["config", "check", str(file)]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"{file}: weights: there is no folder {tmp_path}/weights/Qwen3-32B (a start ends with exit code 66)"


def test_explain_says_what_a_key_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Its path, what it may be, its default, its effect."""
    assert main(["config", "explain", "maxN"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "BackendConfig.ScheduleConfig.maxN",
        "  Choices of a request.",
        "  may be:   an integer from 1 to 8192",
        "  default:  128",
        "  effect:   More get 422.",
    ]
    assert main(["config", "explain", "maxM"]) == 2
    assert "maxM is no key and no variable of config.json; near it are maxN" in capsys.readouterr().err


def test_explain_says_what_a_file_comes_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """Each value with where it comes from: the file, a variable, the weights, or the default."""
    save_weights(tmp_path / "weights")
    changes = {MODEL: {"modelName": "m", "modelWeightPath": "weights"}, "ServerConfig.port": 2000}
    file = written(tmp_path, changed(MOCK, changes))
    monkeypatch.setenv("MIES_CONTAINER_IP", "127.0.0.9")
    assert main(["config", "explain", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for expected in (
        'ServerConfig.ipAddress = "127.0.0.9"  (MIES_CONTAINER_IP)',
        "ServerConfig.port = 2000  (file)",
        "ServerConfig.tokenTimeout = 600  (default)",
        "BackendConfig.ModelDeployConfig.maxSeqLen = 256  (weights)",
        "BackendConfig.ModelDeployConfig.maxInputTokenLen = 255  (weights)",
        "BackendConfig.ScheduleConfig.maxIterTimes = 256  (weights)",
        "BackendConfig.tokenizerProcessNumber = 8  (default; no meaning here)",
    ):
        assert expected in lines
