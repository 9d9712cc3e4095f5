"""Rows on `model`, the plain switches and unknown fields."""

from __future__ import annotations

from pathlib import Path

from wire import CHAT_BASE, DROP, MODEL, Row, bad, both, chat, completions, missing, ok, refused, said, wrong_type

from handlers.settings import LoraModule

LORA = {"lora_modules": (LoraModule("adapter-1", Path("adapter-1")),)}

MODEL_ROWS: list[Row] = [
    *both("model-deployed", {"model": MODEL}, ok()),
    *both("model-missing", {"model": DROP}, missing("model")),
    *both("model-null", {"model": None}, bad("model", ("missing", "wrong_type"))),
    *both("model-empty", {"model": ""}, bad("model")),
    *both("model-blank", {"model": " "}, refused(422, "unknown_model", "model")),
    *both("model-unknown", {"model": "someone-else"}, refused(422, "unknown_model", "model")),
    *both("model-other-case", {"model": MODEL.upper()}, refused(422, "unknown_model", "model")),
    *both("model-trailing-space", {"model": MODEL + " "}, refused(422, "unknown_model", "model")),
    *both("model-trailing-newline", {"model": MODEL + "\n"}, refused(422, "unknown_model", "model")),
    *both("model-number", {"model": 5}, wrong_type("model")),
    *both("model-boolean", {"model": True}, wrong_type("model")),
    *both("model-list", {"model": [MODEL]}, wrong_type("model")),
    *both("model-object", {"model": {"name": MODEL}}, wrong_type("model")),
    *both("model-lora-name", {"model": "adapter-1"}, ok(), **LORA),
    *both("model-lora-name-unknown", {"model": "adapter-2"}, refused(422, "unknown_model", "model"), **LORA),
]

SWITCHES: list[Row] = [
    *both("stream-true", {"stream": True}, ok()),
    *both("stream-false", {"stream": False}, ok()),
    *both("stream-null", {"stream": None}, ok()),
    *both("stream-string", {"stream": "true"}, wrong_type("stream")),
    *both("stream-one", {"stream": 1}, wrong_type("stream")),
    *both("stream-zero", {"stream": 0}, wrong_type("stream")),
    *both("stream-float", {"stream": 1.0}, wrong_type("stream")),
    *both("stream-list", {"stream": [True]}, wrong_type("stream")),
    *both("skip-special-true", {"skip_special_tokens": True}, ok()),
    *both("skip-special-false", {"skip_special_tokens": False}, ok()),
    *both("skip-special-null", {"skip_special_tokens": None}, ok()),
    *both("skip-special-string", {"skip_special_tokens": "false"}, wrong_type("skip_special_tokens")),
    *both("skip-special-zero", {"skip_special_tokens": 0}, wrong_type("skip_special_tokens")),
    *both("ignore-eos-true", {"ignore_eos": True}, ok()),
    *both("ignore-eos-false", {"ignore_eos": False}, ok()),
    *both("ignore-eos-null", {"ignore_eos": None}, ok()),
    *both("ignore-eos-string", {"ignore_eos": "yes"}, wrong_type("ignore_eos")),
    *both("ignore-eos-one", {"ignore_eos": 1}, wrong_type("ignore_eos")),
    *both("beams-true", {"use_beam_search": True}, ok()),
    *both("beams-false", {"use_beam_search": False}, ok()),
    *both("beams-null", {"use_beam_search": None}, ok()),
    *both("beams-string", {"use_beam_search": "true"}, wrong_type("use_beam_search")),
    *both("beams-one", {"use_beam_search": 1}, wrong_type("use_beam_search")),
]

UNKNOWN: list[Row] = [
    *both("unknown-one", {"foo": 1}, ok("foo")),
    *both("unknown-null", {"foo": None}, ok("foo")),
    *both("unknown-nested-value", {"foo": {"bar": [1, {"baz": None}]}}, ok("foo")),
    *both("unknown-user", {"user": "u-1"}, ok("user")),
    *both("unknown-logit-bias", {"logit_bias": {"50256": -100}}, ok("logit_bias")),
    *both("unknown-min-p", {"min_p": 0.1}, ok("min_p")),
    *both("unknown-timeout-priority", {"timeout": 5, "priority": 1}, ok("timeout", "priority")),
    *both("unknown-other-case", {"Stream": "not a switch"}, ok("Stream")),
    completions("unknown-max-completion-tokens", {"max_completion_tokens": 7}, ok("max_completion_tokens")),
    completions("unknown-parallel-tool-calls", {"parallel_tool_calls": False}, ok("parallel_tool_calls")),
    completions("unknown-echo-suffix", {"echo": True, "suffix": "."}, ok("echo", "suffix")),
    completions("unknown-messages", {"messages": said("Hi")}, ok("messages")),
    completions("unknown-top-logprobs", {"top_logprobs": 99}, ok("top_logprobs")),
    completions("unknown-tools", {"tools": 5, "tool_choice": 5}, ok("tools", "tool_choice")),
    completions("unknown-chat-template", {"chat_template": 5}, ok("chat_template")),
    chat("unknown-prompt", {"prompt": "Hi"}, ok("prompt")),
    chat(
        "unknown-in-message",
        {"messages": [{"role": "user", "content": "Hi", "mood": "good"}]},
        ok("messages[0].mood"),
    ),
    chat(
        "unknown-in-part",
        {"messages": said([{"type": "text", "text": "Hi", "cache_control": {}}])},
        ok("messages[0].content[0].cache_control"),
    ),
    chat(
        "unknown-in-tool",
        {"tools": [{"type": "function", "function": {"name": "f", "extra": 1}, "more": 2}]},
        ok("tools[0].function.extra", "tools[0].more"),
    ),
    chat(
        "unknown-in-template-kwargs-is-no-unknown",
        {"chat_template_kwargs": {"mood": "good"}},
        ok(),
    ),
    *both("unknown-strict", {"foo": 1}, bad("foo"), strict_unknown=True),
    *both("known-strict", {"temperature": 1}, ok(), strict_unknown=True),
    chat(
        "unknown-strict-nested",
        {"messages": [{"role": "user", "content": "Hi", "mood": "good"}]},
        bad("messages[0].mood"),
        strict_unknown=True,
    ),
]

CHAT_OPTIONAL = [
    "stream",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "stop",
    "stop_token_ids",
    "include_stop_str_in_output",
    "skip_special_tokens",
    "ignore_eos",
    "max_tokens",
    "use_beam_search",
    "best_of",
    "n",
    "logprobs",
    "top_logprobs",
    "chat_template_kwargs",
    "tools",
    "tool_choice",
    "chat_template",
]

COMPLETIONS_OPTIONAL = [
    "use_beam_search",
    "best_of",
    "n",
    "logprobs",
    "max_tokens",
    "seed",
    "stop",
    "stop_token_ids",
    "include_stop_str_in_output",
    "stream",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "temperature",
    "top_p",
    "top_k",
    "ignore_eos",
    "skip_special_tokens",
]

ALL_NULL: list[Row] = [
    chat(
        "every-optional-null",
        dict.fromkeys(
            [
                "stream",
                "presence_penalty",
                "frequency_penalty",
                "repetition_penalty",
                "temperature",
                "top_p",
                "top_k",
                "seed",
                "stop",
                "stop_token_ids",
                "include_stop_str_in_output",
                "skip_special_tokens",
                "ignore_eos",
                "max_tokens",
                "use_beam_search",
                "best_of",
                "n",
                "logprobs",
                "top_logprobs",
                "chat_template_kwargs",
                "tools",
                "tool_choice",
                "chat_template",
            ]
        ),
        ok(),
    ),
    completions(
        "every-optional-null",
        dict.fromkeys(
            [
                "use_beam_search",
                "best_of",
                "n",
                "logprobs",
                "max_tokens",
                "seed",
                "stop",
                "stop_token_ids",
                "include_stop_str_in_output",
                "stream",
                "repetition_penalty",
                "presence_penalty",
                "frequency_penalty",
                "temperature",
                "top_p",
                "top_k",
                "ignore_eos",
                "skip_special_tokens",
            ]
        ),
        ok(),
    ),
    chat("only-required", {"max_tokens": DROP}, ok()),
    completions("only-required", {"max_tokens": DROP}, ok()),
    chat(
        "message-nulls",
        {
            "messages": [
                {**CHAT_BASE["messages"][0], "tool_calls": None, "tool_call_id": None, "reasoning_content": None},
            ]
        },
        ok(),
    ),
]

ROWS: list[Row] = [*MODEL_ROWS, *SWITCHES, *UNKNOWN, *ALL_NULL]
