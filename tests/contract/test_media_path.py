"""Requests with media on their whole way, over HTTP to `serve` on a tiny model, in company and under attack."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.media.file_attacks import ATTACKS
from tests.media.files import base64_of, data_uri, image_file
from tests.media.media_server import CHAT, ClientOf, hanging_host

NAME = "Qwen2-VL"
TIME_S = 60.0
BEFORE_IMAGE = len("<|>system\nYou are a helpful assistant.<|>\n<|>user\n".replace("<|>", "*")) + 1
"""Tokens of the tiny model's prompt before those of a picture at its beginning: bytes, and special tokens."""
PART = "messages[0].content[0].image_url.url"


@pytest.fixture(scope="session")
def client(client_of: ClientOf) -> httpx.Client:
    """Of the model that takes images and video."""
    return client_of(NAME)


def body(*parts: Any, **members: Any) -> dict[str, Any]:
    """A greedy request of strings, which are text, and of addresses of media by their member."""
    content = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": part[0], part[0]: {"url": part[1]}}
        for part in parts
    ]
    messages = [{"role": "user", "content": content}]
    return {"model": NAME, "messages": messages, "temperature": 0, "max_tokens": 12, "ignore_eos": True, **members}


def image(data: bytes) -> tuple[str, str]:
    """A picture inside the request."""
    return "image_url", data_uri("png", data)


def text_of(client: httpx.Client, asked: dict[str, Any]) -> str:
    """The text of an answer, whole or streamed."""
    answer = client.post(CHAT, json=asked)
    assert answer.status_code == 200, answer.text
    if not asked.get("stream"):
        text: str = answer.json()["choices"][0]["message"]["content"]
        return text
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    return "".join(json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events[:-1])


def at_once(client: httpx.Client, bodies: Sequence[dict[str, Any]]) -> list[str]:
    """The texts of requests that run together."""
    with ThreadPoolExecutor(len(bodies)) as threads:
        return list(threads.map(lambda asked: text_of(client, asked), bodies))


def until_empty(spool: Path) -> None:
    """Wait until no request has a file any more."""
    assert list(spool.glob("*/.lock")), "no server has its files there"
    began_s = time.monotonic()
    while left := [path for path in spool.glob("*/*") if path.name != ".lock"]:
        assert time.monotonic() < began_s + TIME_S, left
        time.sleep(0.01)


def test_text_and_media_in_company_answer_as_alone(client: httpx.Client) -> None:
    """Whole and streamed, short and long, with one picture, several, and a film."""
    bodies = [
        body("Hello there"),
        body(image(image_file("png", 1)), "What is this?"),
        body("Tell me a story. " * 8, stream=True),
        body("First ", image(image_file("png", 2)), " then ", image(image_file("jpg", 3)), stream=True),
        body(("video_url", "demo.mp4"), "What happens?"),
        body("Hello there", max_tokens=40),
    ]
    alone = [text_of(client, asked) for asked in bodies]

    assert at_once(client, bodies) == alone
    assert len(set(alone[:5])) == 5


@pytest.mark.parametrize(
    "members",
    [{"n": 2, "temperature": 1, "seed": 3}, {"n": 2, "use_beam_search": True, "temperature": 1}, {"stream": True}],
    ids=["n", "beams", "stream"],
)
def test_choices_of_all_kinds_have_the_prompt_of_one(client: httpx.Client, members: dict[str, Any]) -> None:
    """Media count once in usage, whichever way the choices are drawn and sent."""
    asked = body(image(image_file("png", 9)), "What is this?")
    alone = client.post(CHAT, json=asked).json()["usage"]["prompt_tokens"]
    answer = client.post(CHAT, json={**asked, **members})

    assert answer.status_code == 200, answer.text
    assert set(re.findall(r'"prompt_tokens":(\d+)', answer.text)) == {str(alone)}


def test_a_completion_may_spell_a_placeholder(client: httpx.Client) -> None:
    """Its prompt is the tokens that the text has; no embedding stands for it, and the next picture is not disturbed."""
    asked = body(image(image_file("png", 10)), "What is this?")
    expected = text_of(client, asked)
    completion = {"model": NAME, "prompt": "<|vision_start|><|image_pad|><|vision_end|>Hi", "max_tokens": 4}
    answer = client.post("/v1/completions", json={**completion, "temperature": 0, "ignore_eos": True})

    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["prompt_tokens"] == 5
    assert text_of(client, asked) == expected


def test_equal_pictures_share_a_prefix_and_others_never(client: httpx.Client, demos: dict[str, Path]) -> None:
    """By what they show: one name with other bytes is computed anew, other names with the same bytes are not."""
    path = demos["png"].parent / "shared.png"

    def asked(*part: str) -> tuple[int, str]:
        answer = client.post(CHAT, json=body(part, "Describe it.")).json()
        usage = answer["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"], answer["choices"][0]["message"]["content"]

    found = []
    for seed in (21, 22):
        path.write_bytes(image_file("png", seed))
        path.chmod(0o640)
        found.append(asked("image_url", "shared.png"))
    (_, first), (shared, second) = found
    again, same = asked("image_url", data_uri("png", image_file("png", 22)))

    assert first != second == same
    assert shared <= BEFORE_IMAGE < again


def test_attacks_are_refused_by_name_and_harm_nobody(client: httpx.Client, media_spool: Path) -> None:
    """Beside them a text and a picture are answered as ever; nothing of theirs is left on the disk."""
    files = [attack for attack in ATTACKS if attack.kind == "image" and attack.data()]
    wanted = [body("Hello there", max_tokens=40, stream=True), body(image(image_file("png", 5)), "What is this?")]
    expected = [text_of(client, asked) for asked in wanted]
    others = {
        "http://10.0.0.1/a.png": "media_forbidden",
        "http://127.0.0.1@10.0.0.1/a.png": "media_forbidden",
        "http://2130706433/a.png": "media_forbidden",
        "file:///etc/passwd": "media_forbidden",
        "../../etc/passwd.png": "media_forbidden",
        "http://127.0.0.1:1/a.png": "media_unreachable",
        "nothing.png": "media_unreachable",
        "data:image/gif;base64,AAAA": "media_invalid",
        "!" * 5000: "media_invalid",
    }
    attacks = [(attack.name, base64_of(attack.data()), attack.code, attack.words) for attack in files]
    attacks += [(value[:40], value, code, PART) for value, code in others.items()]

    def attack(value: str) -> tuple[int, str, str, str]:
        answer = client.post(CHAT, json=body(("image_url", value)))
        error = answer.json()
        return answer.status_code, error["code"], error["param"], error["error"]

    with ThreadPoolExecutor(10) as threads:
        refusals = [threads.submit(attack, value) for _, value, _, _ in attacks]
        rounds = 0
        while not all(refusal.done() for refusal in refusals) or not rounds:
            assert at_once(client, wanted) == expected
            rounds += 1
    for (name, _, code, words), refusal in zip(attacks, refusals, strict=True):
        status, given, param, message = refusal.result()
        assert (name, status, given, param) == (name, 422, code, PART)
        assert words in message
    until_empty(media_spool)


def test_a_client_that_leaves_ends_the_fetch_and_its_files(client: httpx.Client, media_spool: Path) -> None:
    """The host sees the connection close while it still sends, and the disk is as before."""
    with hanging_host() as host:
        asked = body(("image_url", f"{host.address}/a.png"))
        with httpx.Client(base_url=client.base_url, trust_env=False) as leaving, ThreadPoolExecutor(1) as thread:
            given_up = thread.submit(_ask_and_leave, leaving, asked)
            host.asked.get(timeout=TIME_S)
            assert given_up.result(TIME_S)
        host.left.get(timeout=TIME_S)
    until_empty(media_spool)


def _ask_and_leave(client: httpx.Client, asked: dict[str, Any]) -> bool:
    try:
        client.post(CHAT, json=asked, timeout=httpx.Timeout(TIME_S, read=1.0))
    except httpx.ReadTimeout:
        return True
    return False


def test_a_source_that_hangs_holds_up_nobody(client: httpx.Client) -> None:
    """Text and pictures are answered while twenty requests wait for it."""
    wanted = [body("Hello there"), body(image(image_file("png", 6)), "What is this?")]
    expected = [text_of(client, asked) for asked in wanted]
    with hanging_host() as host, ThreadPoolExecutor(20) as threads:
        asked = body(("image_url", f"{host.address}/a.png"))
        with httpx.Client(base_url=client.base_url, trust_env=False) as leaving:
            waiting = [threads.submit(_ask_and_leave, leaving, asked) for _ in range(20)]
            host.asked.get(timeout=TIME_S)
            assert at_once(client, wanted) == expected
            assert all(each.result(TIME_S) for each in waiting)


def test_metrics_count_what_was_read(client: httpx.Client) -> None:
    """By kind; what was refused is not among them."""

    def images() -> float:
        found = re.search(r'^mindspec_media_total\{kind="image"\} (\S+)$', client.get("/metrics").text, re.MULTILINE)
        assert found is not None
        return float(found[1])

    before = images()
    text_of(client, body(image(image_file("png", 7)), image(image_file("png", 8))))
    client.post(CHAT, json=body(image(b"no picture")))

    assert images() == before + 2
