"""Every request sample with media of the documents, over HTTP to `serve` on tiny models, with real files.

Answers are held against transformers' processor and ``generate`` on the same files where they are greedy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import samples
from samples import Sample
from shapes import check_chat, check_whole_headers

from engine.text.tokenizer import tokenizer_from_folder
from tests.media.files import base64_of, data_uri
from tests.media.media_server import CHAT, MODELS, ClientOf
from tests.tiny_media import MediaModels, reference, reference_inputs

KINDS = {"image_url": "image", "video_url": "video", "audio_url": "audio", "input_audio": "audio"}
TOKENS = 6


def filled(sample: Sample, demos: dict[str, Path]) -> tuple[dict[str, Any], Path]:
    """A sample's body with Base64 in place of the documents' braces, and the file that it means."""
    text = json.dumps(sample.body)
    used = demos[_suffix(text)]
    for brace in ("{image_base64}", "{video_base64}", "{audio_base64}", "{audio_base64_data}"):
        text = text.replace(brace, base64_of(used.read_bytes()))
    return json.loads(text), used


def _suffix(text: str) -> str:
    marks = {"image/jpeg": "jpg", "demo.png": "png", "demo.mp4": "mp4", "x-msvideo": "avi", "demo.mp3": "mp3"}
    return next((suffix for mark, suffix in marks.items() if mark in text), "wav")


def template_parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The content of a body's only message as processors take it."""
    content = body["messages"][0]["content"]
    return [part if part["type"] == "text" else {"type": KINDS[part["type"]]} for part in content]


@pytest.mark.parametrize("sample", samples.MEDIA, ids=lambda sample: sample.id)
def test_media_sample_is_served(
    sample: Sample, client_of: ClientOf, demos: dict[str, Path], media_models: MediaModels
) -> None:
    """As the documents have it: one choice in the contract's form, whose prompt has the processor's tokens."""
    name: str = sample.body["model"]
    body, used = filled(sample, demos)
    answer = client_of(name).post(CHAT, json=body)
    assert answer.status_code == 200, answer.text
    check_whole_headers(answer)
    answered = answer.json()
    check_chat(answered, model=name)

    messages = [{"role": "user", "content": template_parts(body)}]
    wanted = reference_inputs(media_models.folder(MODELS[name]), messages, [used])["input_ids"].shape[1]
    assert answered["usage"]["prompt_tokens"] == wanted
    assert answered["usage"]["completion_tokens"] <= 20


@pytest.mark.parametrize(("name", "sample"), [("Qwen2-Audio", samples.MEDIA[0]), ("Qwen2-VL", samples.MEDIA[-1])])
def test_a_medium_of_another_kind_is_refused(
    name: str, sample: Sample, client_of: ClientOf, demos: dict[str, Path]
) -> None:
    """By the path of the part, on a model that takes others."""
    body, _ = filled(sample, demos)
    answer = client_of(name).post(CHAT, json={**body, "model": name})
    error = answer.json()
    assert (answer.status_code, error["code"]) == (422, "unsupported_media")
    assert error["param"].startswith(f"{sample.media}.")


FORMS = {
    "path": "demo.{suffix}",
    "whole path": "{path}",
    "file": "file://{path}",
    "http": "{host}/demo.{suffix}",
    "data": "{data}",
}
GREEDY = [
    ("Qwen2-VL", "image_url", "png", ["path", "whole path", "file", "http", "data", "base64"]),
    ("Qwen2-VL", "image_url", "jpg", ["path", "base64"]),
    ("Qwen2-VL", "video_url", "mp4", ["path", "file", "http", "data"]),
    ("Qwen2-VL", "video_url", "avi", ["http"]),
    ("Qwen2-VL", "video_url", "wmv", ["data"]),
    ("Qwen2-Audio", "audio_url", "wav", ["path", "file", "http", "data", "input"]),
    ("Qwen2-Audio", "audio_url", "mp3", ["input"]),
    ("Qwen2-Audio", "audio_url", "flac", ["path"]),
    ("Qwen3-VL", "image_url", "png", ["path"]),
    ("Qwen3-VL", "video_url", "mp4", ["path"]),
    ("InternVL", "image_url", "png", ["path"]),
    ("InternVL", "video_url", "mp4", ["path"]),
]


def carried(form: str, member: str, suffix: str, path: Path, host: str) -> dict[str, Any]:
    """A part with a file, in one of the forms."""
    if form == "input":
        sound = {"data": base64_of(path.read_bytes()), "format": suffix.upper()}
        return {"type": "input_audio", "input_audio": sound}
    if form == "base64":
        return {"type": member, member: base64_of(path.read_bytes())}
    data = data_uri(suffix, path.read_bytes())
    value = FORMS[form].format(suffix=suffix, path=path, host=host, data=data)
    return {"type": member, member: {"url": value}}


@pytest.mark.parametrize(("name", "member", "suffix", "forms"), GREEDY, ids=[f"{row[0]}-{row[2]}" for row in GREEDY])
def test_every_form_gives_the_tokens_of_transformers(
    name: str,
    member: str,
    suffix: str,
    forms: list[str],
    client_of: ClientOf,
    demos: dict[str, Path],
    demo_host: str,
    media_models: MediaModels,
) -> None:
    """Greedy answers on every format, in whatever way the file comes."""
    folder, path = media_models.folder(MODELS[name]), demos[suffix]
    words = {"type": "text", "text": "What is this?"}
    messages = [{"role": "user", "content": [words, {"type": KINDS[member]}]}]
    expected = reference(folder, messages, [path], TOKENS)
    text = tokenizer_from_folder(folder).decode(expected, skip_special_tokens=False)
    for form in forms:
        body = {
            "model": name,
            "messages": [{"role": "user", "content": [words, carried(form, member, suffix, path, demo_host)]}],
            "temperature": 0,
            "max_tokens": TOKENS,
            "ignore_eos": True,
            "skip_special_tokens": False,
            "logprobs": True,
        }
        answer = client_of(name).post(CHAT, json=body)
        assert answer.status_code == 200, (form, answer.text)
        (choice,) = answer.json()["choices"]
        given = [bytes(token["bytes"]) for token in choice["logprobs"]["content"]]
        assert (form, choice["message"]["content"]) == (form, text)
        assert given == [_bytes(folder, token) for token in expected]


def _bytes(folder: Path, token: int) -> bytes:
    return tokenizer_from_folder(folder).token_bytes(token)
