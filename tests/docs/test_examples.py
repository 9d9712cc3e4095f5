"""The examples of the documentation, run against the mock as they stand there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mock_process import mock_server

EXAMPLES = Path(__file__).parents[2] / "spec" / "examples"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A mock server's address."""
    with mock_server() as (_, address):
        yield address


def run(name: str, url: str) -> str:
    """What an example prints, with the address and the model's name changed to those of the server."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert "http://127.0.0.1:1025" in text
    text = text.replace("http://127.0.0.1:1025", url).replace("SmolLM2-135M-Instruct", "mock")
    command = ["bash", "-c", text] if name.endswith(".sh") else [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_here() -> None:
    """No file of the folder is missing below."""
    names = {path.name for path in EXAMPLES.iterdir()}
    assert names == {"chat.sh", "chat_stream.sh", "completions.sh", "openai_client.py", "plain.py"}


def test_curl_gets_a_whole_chat_answer(url: str) -> None:
    """One JSON object with a message."""
    answer = json.loads(run("chat.sh", url))
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] != ""


def test_curl_gets_a_stream_with_the_largest_seed(url: str) -> None:
    """Events that end with [DONE]."""
    lines = [line for line in run("chat_stream.sh", url).splitlines() if line]
    assert json.loads(lines[0].removeprefix("data: "))["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert lines[-1] == "data: [DONE]"


def test_curl_gets_a_continuation(url: str) -> None:
    """One JSON object with text."""
    assert json.loads(run("completions.sh", url))["choices"][0]["text"] != ""


@pytest.mark.parametrize(("name", "field"), [("openai_client.py", "best_of"), ("plain.py", "temperature")])
def test_python_gets_an_answer_a_stream_and_a_refusal(name: str, field: str, url: str) -> None:
    """Last comes the error that names the field; before it the text of the answer, and that of the stream."""
    *texts, refusal = run(name, url).splitlines()
    assert len(texts) >= 2  # made-up text may have lines of its own
    assert "".join(texts) != ""
    assert refusal.startswith("422 ")
    assert field in refusal
