"""The documents' request samples: text is served in the contract's form, media are refused by name on a text model."""

from __future__ import annotations

import json

import pytest
import samples
from samples import Sample
from shapes import check_chat, check_completion, check_whole_headers
from stream_shapes import check_chat_stream, check_completion_beams_stream, read_stream
from wire import JSON_TYPE, Answer, ClientFor, bad, check_error, dumps

TEXT_MODEL_MODELS = ("llama3-70b", "Qwen3-30B-A3B", "Qwen2.5-7B-Instruct")


def send(client_for: ClientFor, sample: Sample) -> Answer:
    """Post the sample to a server that deploys the sample's own model name."""
    client = client_for(model_name=sample.body["model"])
    return client.post(sample.endpoint, content=dumps(sample.body), headers=JSON_TYPE)


def test_chat_stream_sample(client_for: ClientFor) -> None:
    """n and best_of 2 in a stream: two choices of at most five tokens, each finished once."""
    events = read_stream(send(client_for, samples.CHAT_STREAM))
    check_chat_stream(events, model="llama3-70b", choices=2)
    assert [event["usage"]["completion_tokens"] <= 5 for event in events if "usage" in event] == [True, True]


def test_chat_text_sample(client_for: ClientFor) -> None:
    """The same request whole: two choices, their tokens summed."""
    answer = send(client_for, samples.CHAT_TEXT)
    check_whole_headers(answer)
    body = json.loads(answer.content)
    check_chat(body, model="llama3-70b", choices=2)
    assert 2 <= body["usage"]["completion_tokens"] <= 10


@pytest.mark.parametrize("sample", [samples.CHAT_TURN_1, samples.CHAT_TURN_2], ids=lambda sample: sample.id)
def test_multi_turn_sample(sample: Sample, client_for: ClientFor) -> None:
    """The multi-turn samples, with null seed and best_of, give one choice within max_tokens."""
    answer = send(client_for, sample)
    check_whole_headers(answer)
    body = json.loads(answer.content)
    check_chat(body, model="Qwen3-30B-A3B")
    assert body["usage"]["completion_tokens"] <= sample.body["max_tokens"]


def test_completions_stream_sample(client_for: ClientFor) -> None:
    """Beams in a stream: one event with both sequences of five tokens, logprobs of two and the total usage."""
    events = read_stream(send(client_for, samples.COMPLETIONS_STREAM))
    check_completion_beams_stream(events, model="Qwen2.5-7B-Instruct", choices=2, top=2)
    assert events[0]["usage"]["completion_tokens"] == 10
    assert [choice["finish_reason"] for choice in events[0]["choices"]] == ["length", "length"]


def test_completions_text_sample(client_for: ClientFor) -> None:
    """Two sequences of exactly five tokens, text offsets running on from the first to the second."""
    answer = send(client_for, samples.COMPLETIONS_TEXT)
    check_whole_headers(answer)
    body = json.loads(answer.content)
    check_completion(body, model="llama3-70b", choices=2, top=2)
    assert body["usage"]["completion_tokens"] == 10
    assert len(body["usage"]["batch_size"]) == 5


@pytest.mark.parametrize("sample", samples.MEDIA, ids=lambda sample: sample.id)
def test_media_sample_on_a_text_model(sample: Sample, client_for: ClientFor) -> None:
    """A media sample is refused with 422 and the path of its media part."""
    assert sample.media is not None
    kind = next(part["type"] for part in sample.body["messages"][0]["content"] if part["type"] != "text")
    expect = bad((sample.media, f"{sample.media}.{kind}", f"{sample.media}.type"))
    check_error(send(client_for, sample), expect, f"sample {sample.id}")


@pytest.mark.parametrize("name", TEXT_MODEL_MODELS)
def test_another_models_name_is_refused(name: str, client_for: ClientFor) -> None:
    """A sample whose model is not the deployed one is refused as unknown_model."""
    client = client_for(model_name="another-model")
    body = dumps({**samples.SINGLE_TURN, "model": name})
    answer = client.post("/v1/chat/completions", content=body, headers=JSON_TYPE)
    check_error(answer, bad("model", "unknown_model"), f"model {name}")
