"""A deployment with limits and a generation_config.json of its own: defaults, context end, a killed engine, memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from real_server import COMPLETIONS, NAME, RealServer, reasons, texts

from engine.text.tokenizer import tokenizer_from_folder
from tools.weights import default_model_folder

pytestmark = pytest.mark.weights

MAX_SEQ_LEN = 48
FRANCE = "The capital of France is"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """The default model with max_seq_len 48 and recommendations; a full stop is among its EOS tokens."""
    folder = tmp_path_factory.mktemp("tuned")
    for file in default_model_folder().iterdir():
        if file.suffix == ".safetensors":
            (folder / file.name).symlink_to(file)
        else:
            shutil.copy(file, folder)
    config_file = folder / "generation_config.json"
    config = json.loads(config_file.read_text())
    (full_stop,) = tokenizer_from_folder(folder).encode(".", add_special_tokens=False)
    config |= {"do_sample": False, "temperature": 0.3, "top_k": 5, "eos_token_id": [2, full_stop]}
    config_file.write_text(json.dumps(config))
    server = RealServer(folder, max_seq_len=MAX_SEQ_LEN)
    yield server.wait()
    server.stop()


def test_every_eos_of_the_list_ends_an_answer(tuned: RealServer) -> None:
    """The full stop ends it as EOS does: counted, not shown, no stop_reason; ignore_eos goes past it."""
    answer = tuned.whole(prompt=FRANCE, max_tokens=8)
    assert (texts(answer), reasons(answer), answer["choices"][0]["stop_reason"]) == ([" Paris"], ["stop"], None)
    assert answer["usage"]["completion_tokens"] == 2
    (ignored,) = texts(tuned.whole(prompt=FRANCE, max_tokens=4, ignore_eos=True))
    assert ignored.startswith(" Paris.")


def test_do_sample_false_is_greedy_until_a_sampling_field_is_sent(tuned: RealServer) -> None:
    """Without temperature, top_k and top_p seeds do nothing; with top_p the model's temperature and top_k count."""
    body = {"prompt": "My name is", "max_tokens": 3, "ignore_eos": True}
    (greedy,) = texts(tuned.whole(**body, temperature=0))
    assert texts(tuned.whole(**body, seed=1)) == texts(tuned.whole(**body, seed=2)) == [greedy]

    sampled = [texts(tuned.whole(**body, seed=seed, top_p=1.0)) for seed in (1, 2, 3)]
    spelled_out = [texts(tuned.whole(**body, seed=seed, top_p=1.0, temperature=0.3, top_k=5)) for seed in (1, 2, 3)]
    assert sampled == spelled_out
    assert len({text for (text,) in sampled}) > 1


def test_the_models_top_k_holds_unless_the_request_sends_one(tuned: RealServer) -> None:
    """At a high temperature every token is among the five likeliest; with top_k -1 some are not."""
    body = {"prompt": "Once", "max_tokens": 12, "ignore_eos": True, "temperature": 3.0, "seed": 3, "logprobs": 5}
    # The chosen token stands beside the five likeliest, so a sixth entry is one from outside.
    entries = [len(top) for top in tuned.whole(**body)["choices"][0]["logprobs"]["top_logprobs"]]
    assert max(entries) == 5
    wide = [len(top) for top in tuned.whole(**body, top_k=-1)["choices"][0]["logprobs"]["top_logprobs"]]
    assert max(wide) == 6


@pytest.mark.parametrize(("prompt_tokens", "output"), [(MAX_SEQ_LEN - 1, 1), (MAX_SEQ_LEN - 6, 6)])
def test_the_context_ends_an_answer_by_length(tuned: RealServer, prompt_tokens: int, output: int) -> None:
    """The longest prompt leaves room for one token; a shorter one is cut in the middle of its answer."""
    ids = [index % 1000 + 100 for index in range(prompt_tokens)]
    answer = tuned.whole(prompt=ids, max_tokens=100, ignore_eos=True)
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (prompt_tokens, output)
    assert reasons(answer) == ["length"]


def test_one_prompt_token_too_many_is_refused(tuned: RealServer) -> None:
    """424 with the limit, and nothing is generated."""
    answer = tuned.post(COMPLETIONS, {"prompt": [100] * MAX_SEQ_LEN})
    assert (answer.status_code, answer.json()["code"]) == (424, "prompt_too_long")
    assert f"{MAX_SEQ_LEN} tokens" in answer.json()["error"]
    assert f"at most {MAX_SEQ_LEN - 1}" in answer.json()["error"]


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Poll; fails when it does not become true in time."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def abandoned(server: RealServer, body: dict[str, Any]) -> None:
    """Open a stream, read its first event and go away."""
    with server.client.stream("POST", COMPLETIONS, json={"model": NAME, "stream": True, **body}) as stream:
        next(stream.iter_lines())


def resident_mb(pid: int | None) -> float:
    """Memory of a process that is in RAM, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_memory_stays_flat_over_finished_and_abandoned_requests(tuned: RealServer) -> None:
    """What a request computed takes 2 MB, and stays for others that begin alike; the same again leave no more."""

    def rounds(count: int) -> None:
        for number in range(count):
            tuned.whole(prompt=[200 + number] * 45, max_tokens=1)
            abandoned(tuned, {"prompt": [300 + number] * 45, "ignore_eos": True})
        wait_until(lambda: tuned.front.running == 0)

    rounds(8)
    before = resident_mb(tuned.front.pid)
    rounds(8)
    assert resident_mb(tuned.front.pid) - before < 10


def test_a_killed_engine_is_reported_and_started_again(tuned: RealServer) -> None:
    """A running stream ends in the documented event, a whole answer in 503 engine_down; the next engine answers."""
    wanted = texts(tuned.whole(prompt=FRANCE, max_tokens=2, ignore_eos=True))
    pid = tuned.front.pid
    assert pid is not None
    endless = {"prompt": FRANCE, "ignore_eos": True}
    sent = {"model": NAME, **endless, "stream": True}
    with ThreadPoolExecutor(1) as pool, tuned.client.stream("POST", COMPLETIONS, json=sent) as stream:
        lines = stream.iter_lines()
        assert json.loads(next(lines).removeprefix("data: "))["choices"][0]["text"] == " Paris"
        os.kill(pid, signal.SIGSTOP)  # so that neither request can end before both run
        whole = pool.submit(tuned.post, COMPLETIONS, endless)
        wait_until(lambda: tuned.front.running == 2)
        os.kill(pid, signal.SIGKILL)
        *_, event, done = [line.removeprefix("data: ") for line in lines if line]
    assert done == "[DONE]"
    assert json.loads(event)["error"]["code"] == "engine_down"
    assert (whole.result().status_code, whole.result().json()["code"]) == (503, "engine_down")

    wait_until(lambda: tuned.front.state == "ready" and tuned.front.pid != pid)
    assert texts(tuned.whole(prompt=FRANCE, max_tokens=2, ignore_eos=True)) == wanted
