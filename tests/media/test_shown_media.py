"""What a log shows of messages with media."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generated.models import ChatCompletionRequest
from handlers.media.shown import shown
from handlers.record import prompt_text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("demo.png", "demo.png"),
        ("file:///data/multimodal_inputs/demo.png", "file:///data/multimodal_inputs/demo.png"),
        ("https://host:8443/a/b.mp4?token=secret#x", "https://host:8443/a/b.mp4"),
        ("HTTPS://user:word@host/a.png", "HTTPS://host/a.png"),
        ("http://user@host?secret", "http://host"),
        ("data:image/png;base64,AAAA", "data:image/png;base64,(4 characters)"),
        ("A" * 5000, "(5000 characters)"),
        ("http://host/" + "a" * 5000, "http://host/" + "a" * 388),
    ],
)
def test_a_source_is_shown_without_payload_and_secrets(value: str, words: str) -> None:
    """Paths as they are, addresses without user and query, inline data by their length."""
    assert shown(value) == words


@given(st.text(alphabet="ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=101, max_size=3000), st.sampled_from(["", "data:,"]))
def test_no_payload_is_shown(payload: str, head: str) -> None:
    """Whatever is inline, no hundred characters of it are in the line."""
    assert payload[:50] not in shown(head + payload)


def test_a_megabyte_of_image_leaves_the_text_behind_it_in_the_line() -> None:
    """Only the payload is shortened."""
    parts = [{"type": "image_url", "image_url": {"url": "A" * 1_000_000}}, {"type": "text", "text": "What is this?"}]
    body = ChatCompletionRequest.model_validate({"model": "m", "messages": [{"role": "user", "content": parts}]})

    assert json.loads(prompt_text(body)) == [
        {"role": "user", "content": [{"image_url": "(1000000 characters)"}, {"text": "What is this?"}]}
    ]
