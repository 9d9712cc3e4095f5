"""Rows on content parts: types, payloads, and every media form, which a text model refuses by name."""

from __future__ import annotations

from typing import Any

from wire import Refused, Row, bad, chat, missing, ok, said, wrong_type

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
AT = "messages[0].content[0]"
TEXT: dict[str, Any] = {"type": "text", "text": "What is this?"}
PAYLOAD = bad((AT, f"{AT}.*"), "part-has-its-own-payload")


def parts(*items: Any) -> dict[str, Any]:
    """A change that sets the user's content parts."""
    return {"messages": said(list(items))}


def media(kind: str, index: int = 0) -> Refused:
    """The refusal of a media part by a text model: it names the part, its payload or its type."""
    at = f"messages[0].content[{index}]"
    return bad((at, f"{at}.{kind}", f"{at}.type"))


TEXT_PARTS: list[Row] = [
    chat("part-text", parts(TEXT), ok()),
    chat("part-two-texts", parts(TEXT, TEXT), ok()),
    chat("part-type-absent", parts({"text": "Hi"}), ok()),
    chat("part-type-null", parts({"type": None, "text": "Hi"}), ok()),
    chat("part-other-payload-null", parts({"type": "text", "text": "Hi", "image_url": None}), ok()),
    chat("part-type-absent-other-payload-null", parts({"text": "Hi", "input_audio": None}), ok()),
    chat("part-text-blank", parts({"type": "text", "text": " "}), ok()),
    chat("part-text-empty", parts({"type": "text", "text": ""}), bad(f"{AT}.text")),
    chat("part-text-empty-among-others", parts(TEXT, {"type": "text", "text": ""}), bad("messages[0].content[1].text")),
    chat("part-text-empty-type-absent", parts({"text": ""}), bad(f"{AT}.text")),
    chat("part-text-number", parts({"type": "text", "text": 5}), wrong_type(f"{AT}.text")),
    chat("part-text-list", parts({"type": "text", "text": ["Hi"]}), wrong_type(f"{AT}.text")),
    chat("part-text-missing", parts({"type": "text"}), PAYLOAD),
    chat("part-text-null", parts({"type": "text", "text": None}), PAYLOAD),
    chat("part-without-anything", parts({}), PAYLOAD),
    chat("part-type-null-without-payload", parts({"type": None}), PAYLOAD),
    chat("part-type-empty", parts({"type": "", "text": "Hi"}), bad(f"{AT}.type")),
    chat("part-type-unknown", parts({"type": "smell", "text": "Hi"}), bad(f"{AT}.type")),
    chat("part-type-other-case", parts({"type": "Text", "text": "Hi"}), bad(f"{AT}.type")),
    chat("part-type-number", parts({"type": 5, "text": "Hi"}), wrong_type(f"{AT}.type")),
    chat("part-wrong-payload", parts({"type": "text", "image_url": "demo.png"}), PAYLOAD),
    chat("part-image-with-text", parts({"type": "image_url", "text": "Hi"}), PAYLOAD),
    chat("part-image-without-payload", parts({"type": "image_url"}), PAYLOAD),
    chat("part-image-with-video", parts({"type": "image_url", "video_url": "demo.mp4"}), PAYLOAD),
    chat("part-audio-url-with-input-audio", parts({"type": "audio_url", "input_audio": {}}), bad(f"{AT}*")),
    chat("part-two-payloads", parts({"type": "text", "text": "Hi", "image_url": "demo.png"}), PAYLOAD),
    chat("part-two-payloads-type-absent", parts({"text": "Hi", "image_url": "demo.png"}), PAYLOAD),
    chat("part-two-media-type-absent", parts({"image_url": "demo.png", "video_url": "demo.mp4"}), PAYLOAD),
    chat(
        "part-fault-in-second",
        parts(TEXT, {"type": "text"}),
        bad("messages[0].content[1]*", "part-has-its-own-payload"),
    ),
    chat(
        "part-fault-in-second-message",
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": [TEXT, {"text": 5}]}]},
        wrong_type("messages[1].content[1].text"),
    ),
]

IMAGE_URLS = {
    "plain": "demo.png",
    "http": "http://media.example/demo.png",
    "https": "https://media.example/demo.jpg",
    "base64": PIXEL,
    "path": "/data/multimodal_inputs/demo.jpeg",
}

MEDIA: list[Row] = [
    chat("image-plain", parts({"type": "image_url", "image_url": IMAGE_URLS["plain"]}), media("image_url")),
    chat("image-http", parts({"type": "image_url", "image_url": IMAGE_URLS["http"]}), media("image_url")),
    chat("image-https", parts({"type": "image_url", "image_url": IMAGE_URLS["https"]}), media("image_url")),
    chat("image-base64", parts({"type": "image_url", "image_url": IMAGE_URLS["base64"]}), media("image_url")),
    chat("image-path", parts({"type": "image_url", "image_url": IMAGE_URLS["path"]}), media("image_url")),
    chat("image-object", parts({"type": "image_url", "image_url": {"url": "demo.png"}}), media("image_url")),
    chat("image-file", parts({"type": "image_url", "image_url": {"url": "file:///x/demo.png"}}), media("image_url")),
    chat(
        "image-data",
        parts({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}),
        media("image_url"),
    ),
    chat("image-type-absent", parts({"image_url": "demo.png"}), media("image_url")),
    chat("image-type-null", parts({"type": None, "image_url": {"url": "demo.png"}}), media("image_url")),
    chat("image-after-text", parts(TEXT, {"type": "image_url", "image_url": "demo.png"}), media("image_url", 1)),
    chat("video-plain", parts({"type": "video_url", "video_url": "demo.mp4"}), media("video_url")),
    chat("video-object", parts({"type": "video_url", "video_url": {"url": "demo.avi"}}), media("video_url")),
    chat("video-file", parts({"type": "video_url", "video_url": {"url": "file:///x/demo.wmv"}}), media("video_url")),
    chat(
        "video-data",
        parts({"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}),
        media("video_url"),
    ),
    chat("video-type-absent", parts({"video_url": "demo.mp4"}), media("video_url")),
    chat("audio-plain", parts({"type": "audio_url", "audio_url": "demo.mp3"}), media("audio_url")),
    chat("audio-object", parts({"type": "audio_url", "audio_url": {"url": "demo.wav"}}), media("audio_url")),
    chat("audio-file", parts({"type": "audio_url", "audio_url": {"url": "file:///x/demo.flac"}}), media("audio_url")),
    chat(
        "audio-data",
        parts({"type": "audio_url", "audio_url": {"url": "data:audio/mpeg;base64,AAAA"}}),
        media("audio_url"),
    ),
    chat(
        "input-audio",
        parts({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
        media("input_audio"),
    ),
    chat(
        "input-audio-upper-case-format",
        parts({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "WAV"}}),
        media("input_audio"),
    ),
    chat(
        "input-audio-mixed-case-format",
        parts({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "Flac"}}),
        media("input_audio"),
    ),
    chat(
        "input-audio-type-absent",
        parts({"input_audio": {"data": "AAAA", "format": "mp3"}}),
        media("input_audio"),
    ),
]


def audio(**payload: Any) -> dict[str, Any]:
    """An input_audio part with this payload."""
    return parts({"type": "input_audio", "input_audio": payload})


MEDIA_FIELDS: list[Row] = [
    chat("image-number", parts({"type": "image_url", "image_url": 5}), wrong_type(f"{AT}.image_url")),
    chat("image-list", parts({"type": "image_url", "image_url": ["demo.png"]}), wrong_type(f"{AT}.image_url")),
    chat("image-object-without-url", parts({"type": "image_url", "image_url": {}}), missing(f"{AT}.image_url.url")),
    chat("image-url-number", parts({"type": "image_url", "image_url": {"url": 5}}), wrong_type(f"{AT}.image_url.url")),
    chat("video-number", parts({"type": "video_url", "video_url": 5}), wrong_type(f"{AT}.video_url")),
    chat("video-object-without-url", parts({"type": "video_url", "video_url": {}}), missing(f"{AT}.video_url.url")),
    chat("audio-boolean", parts({"type": "audio_url", "audio_url": True}), wrong_type(f"{AT}.audio_url")),
    chat("audio-object-without-url", parts({"type": "audio_url", "audio_url": {}}), missing(f"{AT}.audio_url.url")),
    chat("input-audio-string", parts({"type": "input_audio", "input_audio": "AAAA"}), wrong_type(f"{AT}.input_audio")),
    chat("input-audio-data-missing", audio(format="wav"), missing(f"{AT}.input_audio.data")),
    chat("input-audio-format-missing", audio(data="AAAA"), missing(f"{AT}.input_audio.format")),
    chat("input-audio-data-number", audio(data=5, format="wav"), wrong_type(f"{AT}.input_audio.data")),
    chat("input-audio-format-number", audio(data="AAAA", format=5), wrong_type(f"{AT}.input_audio.format")),
    chat("input-audio-format-unknown", audio(data="AAAA", format="ogg"), bad(f"{AT}.input_audio.format")),
    chat("input-audio-format-empty", audio(data="AAAA", format=""), bad(f"{AT}.input_audio.format")),
]

ROWS: list[Row] = [*TEXT_PARTS, *MEDIA, *MEDIA_FIELDS]
