"""Every request sample of the three documents, typed as data, and the answer samples that keep the contract's form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wire import CHAT, COMPLETIONS

Json = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A request of the documents; media: the path of the part which a text model refuses, None where it serves."""

    id: str
    documents: tuple[str, ...]
    endpoint: str
    body: Json
    media: str | None = None


ALL_CHAT = ("chat_en", "chat_zh")

SINGLE_TURN: Json = {
    "model": "llama3-70b",
    "messages": [{"role": "user", "content": "You are a helpful assistant."}],
    "stream": False,
    "presence_penalty": 1.03,
    "frequency_penalty": 1.0,
    "repetition_penalty": 1.0,
    "temperature": 0.5,
    "top_p": 0.95,
    "top_k": 1,
    "seed": 1,
    "max_tokens": 5,
    "n": 2,
    "best_of": 2,
}

FIRST_TURN: list[Json] = [
    {"role": "system", "content": "You are a helpful customer support assistant."},
    {
        "role": "user",
        "content": "Hi, can you tell me what is the best city in China? Just tell me the answer.",
    },
]

MULTI_TURN_1: Json = {
    "model": "Qwen3-30B-A3B",
    "messages": FIRST_TURN,
    "stream": False,
    "presence_penalty": 1.03,
    "frequency_penalty": 1.0,
    "repetition_penalty": 1.0,
    "temperature": 0.5,
    "top_p": 0.95,
    "top_k": 1,
    "seed": None,
    "stop": ["stop1", "stop2"],
    "stop_token_ids": [2, 13],
    "include_stop_str_in_output": False,
    "skip_special_tokens": True,
    "ignore_eos": False,
    "max_tokens": 200,
    "chat_template_kwargs": {"enable_thinking": False},
}

MULTI_TURN_2: Json = {
    "model": "Qwen3-30B-A3B",
    "messages": [
        *FIRST_TURN,
        {"role": "assistant", "content": "Shanghai"},
        {"role": "user", "content": "What is the best thing in this city?"},
    ],
    "stream": False,
    "presence_penalty": 1.03,
    "frequency_penalty": 1.0,
    "repetition_penalty": 1.0,
    "temperature": 0.5,
    "top_p": 0.95,
    "top_k": 1,
    "seed": None,
    "stop": ["stop1", "stop2"],
    "stop_token_ids": [2, 13],
    "include_stop_str_in_output": False,
    "skip_special_tokens": True,
    "ignore_eos": False,
    "max_tokens": 20,
    "best_of": None,
    "chat_template_kwargs": {"enable_thinking": False},
}


def multimodal(model: str, *parts: Json) -> Json:
    """The body that all multimodal samples share, with these content parts."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": list(parts)}],
        "stream": False,
        "presence_penalty": 1.03,
        "frequency_penalty": 1.0,
        "repetition_penalty": 1.0,
        "temperature": 0.5,
        "top_p": 0.95,
        "top_k": -1,
        "seed": None,
        "stop": ["stop1", "stop2"],
        "stop_token_ids": [2, 13],
        "include_stop_str_in_output": False,
        "skip_special_tokens": True,
        "ignore_eos": False,
        "max_tokens": 20,
        "best_of": None,
        "n": None,
        "logprobs": False,
        "top_logprobs": None,
    }


def asked(model: str, text: str, kind: str, payload: Any) -> Json:
    """A multimodal body: a question in text, then the part."""
    return multimodal(model, {"type": "text", "text": text}, {"type": kind, kind: payload})


IMAGE_TEXT = "What is in this image?"
SECOND = "messages[0].content[1]"
FIRST = "messages[0].content[0]"


def image(name: str, payload: Any) -> Sample:
    """One of the four image samples."""
    return Sample(name, ALL_CHAT, CHAT, asked("Qwen2-VL", IMAGE_TEXT, "image_url", payload), SECOND)


def like_image(name: str, model: str, kind: str, payload: Any) -> Sample:
    """A video or audio form: the documents send the reader to the image samples for the body around it."""
    return Sample(name, ALL_CHAT, CHAT, asked(model, "What is this?", kind, payload), SECOND)


COMPLETION_STREAM: Json = {
    "model": "Qwen2.5-7B-Instruct",
    "prompt": "who are you",
    "temperature": 1,
    "max_tokens": 5,
    "use_beam_search": True,
    "ignore_eos": True,
    "n": 2,
    "best_of": 2,
    "stream": True,
    "logprobs": 2,
}

COMPLETION_TEXT: Json = {
    "model": "llama3-70b",
    "prompt": "who are you",
    "temperature": 1,
    "max_tokens": 5,
    "ignore_eos": True,
    "n": 2,
    "best_of": 2,
    "stream": False,
    "logprobs": 2,
}

CHAT_STREAM = Sample("chat-stream", ALL_CHAT, CHAT, {**SINGLE_TURN, "stream": True})
CHAT_TEXT = Sample("chat-text", ALL_CHAT, CHAT, SINGLE_TURN)
CHAT_TURN_1 = Sample("chat-first-turn", ("chat_zh",), CHAT, MULTI_TURN_1)
CHAT_TURN_2 = Sample("chat-second-turn", ALL_CHAT, CHAT, MULTI_TURN_2)
COMPLETIONS_STREAM = Sample("completions-stream", ("completions_zh",), COMPLETIONS, COMPLETION_STREAM)
COMPLETIONS_TEXT = Sample("completions-text", ("completions_zh",), COMPLETIONS, COMPLETION_TEXT)

MEDIA: list[Sample] = [
    image("image-plain", "demo.png"),
    image("image-object", {"url": "demo.png"}),
    image("image-file", {"url": "file://demo.png"}),
    image("image-data", {"url": "data:image/jpeg;base64,{image_base64}"}),
    like_image("video-plain", "Qwen2-VL", "video_url", "demo.mp4"),
    like_image("video-object", "Qwen2-VL", "video_url", {"url": "demo.mp4"}),
    like_image("video-file", "Qwen2-VL", "video_url", {"url": "file://demo.mp4"}),
    like_image("video-data", "Qwen2-VL", "video_url", {"url": "data:video/x-msvideo;base64,{video_base64}"}),
    like_image("audio-plain", "Qwen2-Audio", "audio_url", "demo.mp3"),
    like_image("audio-object", "Qwen2-Audio", "audio_url", {"url": "demo.mp3"}),
    like_image("audio-file", "Qwen2-Audio", "audio_url", {"url": "file://demo.mp3"}),
    like_image("audio-data", "Qwen2-Audio", "audio_url", {"url": "data:audio/x-wav;base64,{audio_base64}"}),
    Sample(
        "input-audio",
        ALL_CHAT,
        CHAT,
        multimodal(
            "Qwen2-Audio",
            {"type": "input_audio", "input_audio": {"data": "{audio_base64_data}", "format": "wav"}},
            {"type": "text", "text": "What is in this audio?assistant"},
        ),
        FIRST,
    ),
]


def chat_answer(number: int, created: int, content: str, finish: str, usage: Json, prefill: int, decode: Any) -> Json:
    """An answer of the multi-turn samples."""
    return {
        "id": f"endpoint_common_{number}",
        "object": "chat.completion",
        "created": created,
        "model": "Qwen3-30B-A3B",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "tool_calls": []},
                "logprobs": None,
                "finish_reason": finish,
            }
        ],
        "usage": usage,
        "prefill_time": prefill,
        "decode_time_arr": decode,
    }


FIRST_ANSWER = chat_answer(
    0,
    1768210927,
    "Shanghai",
    "stop",
    {
        "prompt_tokens": 45,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens": 3,
        "total_tokens": 48,
        "batch_size": [1, 1, 1],
        "queue_wait_time": [5556, 928, 1070],
    },
    615,
    [61, 26],
)

SECOND_ANSWER = chat_answer(
    1,
    1768211028,
    "The best thing in Shanghai is its vibrant mix of modern skyscrapers, historic architecture, and rich",
    "length",
    {
        "prompt_tokens": 66,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens": 20,
        "total_tokens": 86,
        "batch_size": [1] * 20,
        "queue_wait_time": [
            *(5513, 483, 137, 503, 139, 1108, 203, 323, 553, 389),
            *(357, 351, 237, 814, 877, 819, 300, 281, 130, 190),
        ],
    },
    122,
    [47, 22, 20, 22, 23, 19, 20, 20, 20, 20, 21, 21, 22, 22, 20, 20, 20, 20, 22],
)

# As printed, but with two lists of one entry a round: the sample has one for each token of both choices, and the
# tables win.
BEAM_EVENT: Json = {
    "id": "endpoint_common_1",
    "object": "text_completion",
    "created": 1744948803,
    "model": "Qwen2.5-7B-Instruct",
    "choices": [
        {
            "index": 0,
            "text": "\nI am a large",
            "logprobs": {
                "text_offset": [0, 1, 2, 5, 7],
                "token_logprobs": [-1.8828125, -0.018310546875, -0.054931640625, -0.435546875, -0.0286865234375],
                "tokens": ["\n", "I", " am", " a", " large"],
                "top_logprobs": [
                    {"\n": -1.8828125, "\n\n": -2.0},
                    {"I": -0.018310546875, "Hello": -4.53125},
                    {" am": -0.054931640625, "'m": -2.9375},
                    {" a": -0.435546875, " Q": -1.1875},
                    {" large": -0.0286865234375, " language": -4.78125},
                ],
            },
            "stop_reason": None,
            "finish_reason": "length",
        },
        {
            "index": 1,
            "text": "\n\nI am a large",
            "logprobs": {
                "text_offset": [13, 15, 16, 19, 21],
                "token_logprobs": [-2.0, -0.031494140625, -0.0791015625, -0.5546875, -0.01092529296875],
                "tokens": ["\n\n", "I", " am", " a", " large"],
                "top_logprobs": [
                    {"\n\n": -2.0, "\n": -1.8828125},
                    {"I": -0.031494140625, "Hello": -4.28125},
                    {" am": -0.0791015625, "'m": -2.578125},
                    {" a": -0.5546875, " Q": -1.0546875},
                    {" large": -0.01092529296875, " language": -6.375},
                ],
            },
            "stop_reason": None,
            "finish_reason": "length",
        },
    ],
    "usage": {
        "prompt_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens": 10,
        "total_tokens": 13,
        "batch_size": [1, 1, 1, 1, 1],
        "queue_wait_time": [5496, 146, 65, 60, 111],
    },
}
