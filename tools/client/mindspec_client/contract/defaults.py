"""The documented defaults of the request fields. Generated from the spec; do not edit.

The models leave an absent field None, so that rules judge what was sent; whoever serves a request fills these in.
"""

from __future__ import annotations

from typing import Final


class ChatCompletionRequestDefaults:
    """Defaults of ChatCompletionRequest."""

    stream: Final = False
    presence_penalty: Final = 0.0
    frequency_penalty: Final = 0.0
    repetition_penalty: Final = 1.0
    temperature: Final = 1.0
    top_p: Final = 1.0
    top_k: Final = 1000
    stop: Final = None
    stop_token_ids: Final = None
    include_stop_str_in_output: Final = False
    skip_special_tokens: Final = True
    ignore_eos: Final = False
    use_beam_search: Final = False
    best_of: Final = 1
    n: Final = 1
    logprobs: Final = False
    top_logprobs: Final = 0
    tools: Final = None
    tool_choice: Final = "auto"
    parallel_tool_calls: Final = True


class CompletionRequestDefaults:
    """Defaults of CompletionRequest."""

    use_beam_search: Final = False
    best_of: Final = 1
    n: Final = 1
    logprobs: Final = None
    stop: Final = None
    stop_token_ids: Final = None
    include_stop_str_in_output: Final = False
    stream: Final = False
    repetition_penalty: Final = 1.0
    presence_penalty: Final = 0.0
    frequency_penalty: Final = 0.0
    temperature: Final = 1.0
    top_p: Final = 1.0
    top_k: Final = 1000
    ignore_eos: Final = False
    skip_special_tokens: Final = True


class TokenizerRequestDefaults:
    """Defaults of TokenizerRequest."""

    do_decode: Final = True


class StreamOptionsDefaults:
    """Defaults of StreamOptions."""

    include_usage: Final = False


class ToolFunctionDefaults:
    """Defaults of ToolFunction."""

    strict: Final = False


class JsonSchemaFormatDefaults:
    """Defaults of JsonSchemaFormat."""

    strict: Final = False
