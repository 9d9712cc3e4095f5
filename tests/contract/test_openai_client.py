"""OpenAI's own Python client against a real server: it reads our answers, our streams and our errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam
from wire import MODEL, ServerUrl

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]

Connect = Callable[..., openai.OpenAI]


@pytest.fixture
def connect(server_url: ServerUrl, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Makes a client of a server with these settings; no retries, no proxies, closed at the end."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    clients: list[openai.OpenAI] = []

    def make(**settings: Any) -> openai.OpenAI:
        url = server_url(**settings)
        clients.append(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=30))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@contextmanager
def refusal() -> Iterator[list[openai.UnprocessableEntityError]]:
    """Expects a 422 and hands it over in a list."""
    caught: list[openai.UnprocessableEntityError] = []
    with pytest.raises(openai.UnprocessableEntityError) as info:
        yield caught
    caught.append(info.value)


def test_chat(connect: Connect) -> None:
    """A whole chat answer in the client's types."""
    answer = connect().chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=4, temperature=0, extra_body={"ignore_eos": True}
    )
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert isinstance(answer.choices[0].message.content, str)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4


def test_chat_stream_joins_to_the_whole(connect: Connect) -> None:
    """The joined deltas are the whole answer's text; exactly one event has a finish_reason."""
    client = connect()
    body = {"ignore_eos": True}
    whole = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=6, temperature=0, extra_body=body)
    events = list(
        client.chat.completions.create(
            model=MODEL, messages=HELLO, max_tokens=6, temperature=0, stream=True, extra_body=body
        )
    )
    joined = "".join(event.choices[0].delta.content or "" for event in events)
    assert joined == whole.choices[0].message.content
    assert [event.choices[0].finish_reason for event in events if event.choices[0].finish_reason] == ["length"]
    assert events[0].choices[0].delta.role == "assistant"


def test_chat_of_two_choices(connect: Connect) -> None:
    """n=2, whole and streamed: indices 0 and 1."""
    client = connect()
    whole = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=3, n=2)
    assert [choice.index for choice in whole.choices] == [0, 1]
    stream = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=3, n=2, stream=True)
    assert {event.choices[0].index for event in stream} == {0, 1}


def test_chat_logprobs(connect: Connect) -> None:
    """The client's logprob types hold token, bytes and candidates."""
    answer = connect().chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=2, temperature=0, logprobs=True, top_logprobs=3
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert [len(token.top_logprobs) for token in logprobs.content] == [3] * len(logprobs.content)
    assert logprobs.content[0].token == logprobs.content[0].top_logprobs[0].token


def test_completions_with_logprobs(connect: Connect) -> None:
    """The legacy logprobs: one entry a token in each list, offsets from 0."""
    answer = connect().completions.create(
        model=MODEL, prompt="who are you", max_tokens=5, temperature=0, logprobs=2, extra_body={"ignore_eos": True}
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens is not None
    assert logprobs.text_offset is not None
    assert logprobs.top_logprobs is not None
    assert len(logprobs.tokens) == len(logprobs.top_logprobs) == 5
    assert logprobs.text_offset[0] == 0


def test_completions_stream(connect: Connect) -> None:
    """The joined texts are the whole answer's."""
    client = connect()
    whole = client.completions.create(model=MODEL, prompt="who are you", max_tokens=5, temperature=0)
    events = client.completions.create(model=MODEL, prompt="who are you", max_tokens=5, temperature=0, stream=True)
    assert "".join(event.choices[0].text for event in events) == whole.choices[0].text


def test_models(connect: Connect) -> None:
    """The deployed model is listed, with the time of its creation, and can be asked for."""
    client = connect()
    listed = list(client.models.list())
    assert [model.id for model in listed] == [MODEL]
    assert listed[0].object == "model"
    assert isinstance(listed[0].created, int)
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("someone-else")


def test_flat_error_hands_over_our_sentence(connect: Connect) -> None:
    """In MindIE's form the client's e.body is our sentence, which names the field."""
    client = connect()
    with refusal() as caught:
        client.chat.completions.create(model=MODEL, messages=HELLO, temperature=-1)
    body = caught[0].body
    assert isinstance(body, str)
    assert "temperature" in body
    assert caught[0].response.json()["param"] == "temperature"


def test_flat_error_of_a_stream(connect: Connect) -> None:
    """A bad request is an ordinary error for stream=True, too."""
    client = connect()
    with refusal() as caught:
        client.chat.completions.create(model="someone-else", messages=HELLO, stream=True)
    assert caught[0].response.json()["code"] == "unknown_model"


def test_openai_form_error_has_message_param_and_code(connect: Connect) -> None:
    """In OpenAI's form the client reads param and code by itself."""
    client = connect(open_ai_support="openai")
    with refusal() as caught:
        client.chat.completions.create(model=MODEL, messages=HELLO, temperature=-1)
    error = caught[0]
    assert (error.param, error.code, error.type) == ("temperature", "out_of_range", "Input Validation Error")
    assert isinstance(error.body, dict)
    assert list(error.body) == ["message", "type", "param", "code"]
    assert "temperature" in error.body["message"]
    assert error.body["message"] in str(error.response.json())


def test_openai_form_rule_error(connect: Connect) -> None:
    """A broken rule's id is the code."""
    client = connect(open_ai_support="openai")
    with refusal() as caught:
        client.chat.completions.create(model=MODEL, messages=HELLO, logprobs=False, top_logprobs=2)
    assert caught[0].code == "top-logprobs-needs-logprobs"


@pytest.mark.parametrize("form", ["vllm", "openai"])
@pytest.mark.parametrize("fail_round", [2, 4])
def test_failure_in_mid_stream_raises(form: str, fail_round: int, connect: Connect) -> None:
    """The engine fails after some rounds: the client raises our sentence, in both forms, after the first deltas."""
    client = connect(open_ai_support=form, mock_fail_at_round=fail_round)
    stream = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=8, stream=True, extra_body={"ignore_eos": True}
    )
    seen: list[str | None] = []
    with pytest.raises(openai.APIError) as info:
        seen.extend(event.choices[0].finish_reason for event in stream)
    assert not isinstance(info.value, openai.APIStatusError)
    assert len(info.value.message.split()) >= 3
    assert info.value.message != "An error occurred during streaming"
    assert isinstance(info.value.body, dict)
    assert list(info.value.body) == ["message", "type", "param", "code"]
    assert set(seen) <= {None}


def test_failure_before_the_first_token_is_a_500(connect: Connect) -> None:
    """A failure in the first round, before any token, is an ordinary error for stream=True, too."""
    client = connect(mock_fail_at_round=1)
    with pytest.raises(openai.InternalServerError) as info:
        client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8, stream=True)
    assert info.value.response.json()["error_type"] == "Incomplete Generation"


def test_failure_of_a_whole_answer_is_a_500(connect: Connect) -> None:
    """Without a stream the same failure is an ordinary 500 with our sentence."""
    client = connect(mock_fail_at_round=3)
    with pytest.raises(openai.InternalServerError) as info:
        client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8, extra_body={"ignore_eos": True})
    assert info.value.status_code == 500
    assert info.value.response.json()["error_type"] == "Incomplete Generation"


def test_unknown_options_of_the_client_are_ignored(connect: Connect) -> None:
    """Fields that MindIE does not know are let through and named in the answer's header."""
    raw = connect().chat.completions.with_raw_response.create(
        model=MODEL, messages=HELLO, max_tokens=2, user="u-1", extra_body={"min_p": 0.1}
    )
    named = raw.headers["x-ignored-parameters"]
    assert "user" in named
    assert "min_p" in named
