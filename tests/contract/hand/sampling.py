"""Rows on temperature, top_p, top_k, the penalties, seed and max_tokens."""

from __future__ import annotations

from wire import Raw, Row, both, chat, completions, ok, out_of_range, wrong_type

TEMPERATURE: list[Row] = [
    *both("temperature-zero", {"temperature": 0}, ok()),
    *both("temperature-zero-float", {"temperature": 0.0}, ok()),
    *both("temperature-minus-zero", {"temperature": -0.0}, ok()),
    *both("temperature-tiny", {"temperature": 1e-9}, ok()),
    *both("temperature-integer", {"temperature": 1}, ok()),
    *both("temperature-two", {"temperature": 2.0}, ok()),
    *both("temperature-largest", {"temperature": 3.4028234e38}, ok()),
    *both("temperature-null", {"temperature": None}, ok()),
    *both("temperature-above-largest", {"temperature": 3.41e38}, out_of_range("temperature")),
    *both("temperature-just-above-largest", {"temperature": 3.4028236e38}, out_of_range("temperature")),
    *both("temperature-negative", {"temperature": -0.1}, out_of_range("temperature")),
    *both("temperature-tiny-negative", {"temperature": -1e-300}, out_of_range("temperature")),
    *both("temperature-string", {"temperature": "1.0"}, wrong_type("temperature")),
    *both("temperature-boolean", {"temperature": True}, wrong_type("temperature")),
    *both("temperature-list", {"temperature": [1.0]}, wrong_type("temperature")),
    *both("temperature-object", {"temperature": {}}, wrong_type("temperature")),
]

TOP_P: list[Row] = [
    *both("top-p-one", {"top_p": 1}, ok()),
    *both("top-p-one-float", {"top_p": 1.0}, ok()),
    *both("top-p-half", {"top_p": 0.5}, ok()),
    *both("top-p-just-above-least", {"top_p": 1.0000001e-6}, ok()),
    *both("top-p-null", {"top_p": None}, ok()),
    *both("top-p-least-is-excluded", {"top_p": 1e-6}, out_of_range("top_p")),
    *both("top-p-zero", {"top_p": 0}, out_of_range("top_p")),
    *both("top-p-negative", {"top_p": -0.5}, out_of_range("top_p")),
    *both("top-p-above-one", {"top_p": 1.0001}, out_of_range("top_p")),
    *both("top-p-string", {"top_p": "0.9"}, wrong_type("top_p")),
    *both("top-p-boolean", {"top_p": True}, wrong_type("top_p")),
]

OPENAI = {"open_ai_support": "openai"}

TOP_K: list[Row] = [
    *both("top-k-off", {"top_k": -1}, ok()),
    *both("top-k-one", {"top_k": 1}, ok()),
    *both("top-k-largest", {"top_k": 2147483647}, ok()),
    *both("top-k-integral-float", {"top_k": 1.0}, ok()),
    *both("top-k-exponent", {"top_k": Raw("5e0")}, ok()),
    *both("top-k-minus-one-float", {"top_k": -1.0}, ok()),
    *both("top-k-null", {"top_k": None}, ok()),
    *both("top-k-zero", {"top_k": 0}, out_of_range("top_k")),
    *both("top-k-zero-float", {"top_k": 0.0}, out_of_range("top_k")),
    *both("top-k-minus-two", {"top_k": -2}, out_of_range("top_k")),
    *both("top-k-above-largest", {"top_k": 2147483648}, out_of_range("top_k")),
    *both("top-k-fraction", {"top_k": 1.5}, wrong_type("top_k")),
    *both("top-k-string", {"top_k": "10"}, wrong_type("top_k")),
    *both("top-k-boolean", {"top_k": True}, wrong_type("top_k")),
    *both("top-k-zero-in-openai-form", {"top_k": 0}, ok(), **OPENAI),
    *both("top-k-minus-one-in-openai-form", {"top_k": -1}, out_of_range("top_k"), **OPENAI),
    *both("top-k-largest-in-openai-form", {"top_k": 2147483647}, ok(), **OPENAI),
    *both("top-k-above-largest-in-openai-form", {"top_k": 2147483648}, out_of_range("top_k"), **OPENAI),
]

PENALTIES: list[Row] = [
    *both("repetition-one", {"repetition_penalty": 1.0}, ok()),
    *both("repetition-two", {"repetition_penalty": 2}, ok()),
    *both("repetition-tiny", {"repetition_penalty": 1e-9}, ok()),
    *both("repetition-null", {"repetition_penalty": None}, ok()),
    *both("repetition-zero", {"repetition_penalty": 0}, out_of_range("repetition_penalty")),
    *both("repetition-negative", {"repetition_penalty": -1}, out_of_range("repetition_penalty")),
    *both("repetition-above-two", {"repetition_penalty": 2.0001}, out_of_range("repetition_penalty")),
    *both("repetition-string", {"repetition_penalty": "1"}, wrong_type("repetition_penalty")),
    *both("repetition-boolean", {"repetition_penalty": True}, wrong_type("repetition_penalty")),
    *both("presence-least", {"presence_penalty": -2.0}, ok()),
    *both("presence-most", {"presence_penalty": 2}, ok()),
    *both("presence-zero", {"presence_penalty": 0}, ok()),
    *both("presence-null", {"presence_penalty": None}, ok()),
    *both("presence-above", {"presence_penalty": 2.0000001}, out_of_range("presence_penalty")),
    *both("presence-below", {"presence_penalty": -2.0000001}, out_of_range("presence_penalty")),
    *both("presence-string", {"presence_penalty": "0"}, wrong_type("presence_penalty")),
    *both("presence-boolean", {"presence_penalty": False}, wrong_type("presence_penalty")),
    *both("frequency-least", {"frequency_penalty": -2}, ok()),
    *both("frequency-most", {"frequency_penalty": 2.0}, ok()),
    *both("frequency-zero", {"frequency_penalty": 0.0}, ok()),
    *both("frequency-null", {"frequency_penalty": None}, ok()),
    *both("frequency-above", {"frequency_penalty": 2.1}, out_of_range("frequency_penalty")),
    *both("frequency-below", {"frequency_penalty": -2.1}, out_of_range("frequency_penalty")),
    *both("frequency-string", {"frequency_penalty": "0"}, wrong_type("frequency_penalty")),
    *both("frequency-boolean", {"frequency_penalty": True}, wrong_type("frequency_penalty")),
]

SEED: list[Row] = [
    chat("seed-zero", {"seed": 0}, ok()),
    completions("seed-zero", {"seed": 0}, out_of_range("seed")),
    completions("seed-zero-float", {"seed": 0.0}, out_of_range("seed")),
    *both("seed-one", {"seed": 1}, ok()),
    *both("seed-above-32-bits", {"seed": 4294967297}, ok()),
    *both("seed-above-53-bits", {"seed": 9007199254740993}, ok()),
    *both("seed-largest-signed", {"seed": 9223372036854775807}, ok()),
    *both("seed-above-largest-signed", {"seed": 9223372036854775808}, ok()),
    *both("seed-largest", {"seed": 18446744073709551615}, ok()),
    *both("seed-above-largest", {"seed": 18446744073709551616}, out_of_range("seed")),
    *both("seed-negative", {"seed": -1}, out_of_range("seed")),
    *both("seed-integral-float", {"seed": 1.0}, ok()),
    *both("seed-exponent", {"seed": Raw("1e3")}, ok()),
    *both("seed-fraction", {"seed": 1.5}, wrong_type("seed")),
    *both("seed-string", {"seed": "1"}, wrong_type("seed")),
    *both("seed-boolean", {"seed": True}, wrong_type("seed")),
    *both("seed-null", {"seed": None}, ok()),
]

MAX_TOKENS: list[Row] = [
    *both("max-tokens-one", {"max_tokens": 1}, ok()),
    *both("max-tokens-largest", {"max_tokens": 2147483647}, ok()),
    *both("max-tokens-integral-float", {"max_tokens": 2.0}, ok()),
    *both("max-tokens-exponent", {"max_tokens": Raw("2E0")}, ok()),
    *both("max-tokens-null", {"max_tokens": None}, ok()),
    *both("max-tokens-zero", {"max_tokens": 0}, out_of_range("max_tokens")),
    *both("max-tokens-negative", {"max_tokens": -1}, out_of_range("max_tokens")),
    *both("max-tokens-above-largest", {"max_tokens": 2147483648}, out_of_range("max_tokens")),
    *both("max-tokens-fraction", {"max_tokens": 1.5}, wrong_type("max_tokens")),
    *both("max-tokens-string", {"max_tokens": "5"}, wrong_type("max_tokens")),
    *both("max-tokens-boolean", {"max_tokens": True}, wrong_type("max_tokens")),
    *both("max-tokens-list", {"max_tokens": [5]}, wrong_type("max_tokens")),
]

ROWS: list[Row] = [*TEMPERATURE, *TOP_P, *TOP_K, *PENALTIES, *SEED, *MAX_TOKENS]
