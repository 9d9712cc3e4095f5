"""What each rule's CEL reads: a table, since a client has no compiler. Generated from the spec; do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Compiled:
    """What a rule reads."""

    fields: tuple[str, ...]
    """Members of the rule's schema."""
    numbers: tuple[int, ...]
    """Integer literals, ascending."""
    texts: tuple[str, ...]
    """String literals, sorted."""


def compile_rule(cel: str, contract: Any, model: str) -> Compiled:
    """What a rule of a schema reads; KeyError where the spec has no such rule."""
    return COMPILED[model, cel]


COMPILED: Final[dict[tuple[str, str], Compiled]] = {
    ("ResponseFormat", 'has(self.json_schema) == (self.type == "json_schema")'): Compiled(
        ("json_schema", "type"), (), ("json_schema",)
    ),
    (
        "ContentPart",
        '(has(self.text) ? 1 : 0) + (has(self.image_url) ? 1 : 0) + (has(self.video_url) ? 1 : 0) + (has(self.audio_url) ? 1 : 0) + (has(self.input_audio) ? 1 : 0) == 1 && (!has(self.type) || (self.type == "text" && has(self.text)) || (self.type == "image_url" && has(self.image_url)) || (self.type == "video_url" && has(self.video_url)) || (self.type == "audio_url" && has(self.audio_url)) || (self.type == "input_audio" && has(self.input_audio)))',
    ): Compiled(
        ("audio_url", "image_url", "input_audio", "text", "type", "video_url"),
        (0, 1),
        ("audio_url", "image_url", "input_audio", "text", "video_url"),
    ),
    ("Message", 'self.role != "tool" || has(self.tool_call_id)'): Compiled(("role", "tool_call_id"), (), ("tool",)),
    (
        "Message",
        'self.role == "assistant" || self.role == "tool" || (has(self.content) && size(self.content) > 0)',
    ): Compiled(("content", "role"), (0,), ("assistant", "tool")),
    (
        "Message",
        'self.role != "assistant" || (has(self.content) && size(self.content) > 0) || (has(self.tool_calls) && size(self.tool_calls) > 0)',
    ): Compiled(("content", "role", "tool_calls"), (0,), ("assistant",)),
    (
        "ChatTemplateKwargs",
        "!has(self.thinking_budget) || !has(self.enable_thinking) || self.enable_thinking",
    ): Compiled(("enable_thinking", "thinking_budget"), (), ()),
    (
        "ChatCompletionRequest",
        "(has(self.use_beam_search) && self.use_beam_search) || (has(self.stream) && self.stream) || !has(self.n) || !has(self.best_of) || self.best_of >= self.n",
    ): Compiled(("best_of", "n", "stream", "use_beam_search"), (), ()),
    (
        "ChatCompletionRequest",
        "(has(self.use_beam_search) && self.use_beam_search) || !has(self.stream) || !self.stream || !has(self.best_of) || (has(self.n) && self.best_of == self.n)",
    ): Compiled(("best_of", "n", "stream", "use_beam_search"), (), ()),
    (
        "ChatCompletionRequest",
        "(has(self.use_beam_search) && self.use_beam_search) || !has(self.n) || self.n <= 1 || !has(self.temperature) || self.temperature > 0.0",
    ): Compiled(("n", "temperature", "use_beam_search"), (1,), ()),
    (
        "ChatCompletionRequest",
        "(has(self.use_beam_search) && self.use_beam_search) || !has(self.best_of) || self.best_of <= 1 || !has(self.temperature) || self.temperature > 0.0",
    ): Compiled(("best_of", "temperature", "use_beam_search"), (1,), ()),
    ("ChatCompletionRequest", "!has(self.use_beam_search) || !self.use_beam_search || !has(self.stop)"): Compiled(
        ("stop", "use_beam_search"), (), ()
    ),
    (
        "ChatCompletionRequest",
        "!has(self.use_beam_search) || !self.use_beam_search || !has(self.stop_token_ids)",
    ): Compiled(("stop_token_ids", "use_beam_search"), (), ()),
    (
        "ChatCompletionRequest",
        "!has(self.top_logprobs) || self.top_logprobs == 0 || (has(self.logprobs) && self.logprobs)",
    ): Compiled(("logprobs", "top_logprobs"), (0,), ()),
    (
        "ChatCompletionRequest",
        "!has(self.stop) || type(self.stop) == string || self.stop.map(s, size(s)).sum() <= 32768",
    ): Compiled(("stop",), (32768,), ()),
    (
        "ChatCompletionRequest",
        "self.messages.map(m, !has(m.content) ? 0 : (type(m.content) == string ? size(m.content) : m.content.map(p, has(p.text) ? size(p.text) : 0).sum())).sum() <= 4194304",
    ): Compiled(("messages",), (0, 4194304), ()),
    (
        "ChatCompletionRequest",
        "self.messages.map(m, !has(m.content) ? 0 : (type(m.content) == string ? 0 : m.content.map(p, has(p.text) ? 0 : 1).sum())).sum() <= 20",
    ): Compiled(("messages",), (0, 1, 20), ()),
    (
        "ChatCompletionRequest",
        '!has(self.tool_choice) || has(self.tools) || (type(self.tool_choice) == string && self.tool_choice != "required")',
    ): Compiled(("tool_choice", "tools"), (), ("required",)),
    (
        "ChatCompletionRequest",
        "!has(self.tool_choice) || type(self.tool_choice) == string || !has(self.tools) || self.tools.exists(t, t.function.name == self.tool_choice.function.name)",
    ): Compiled(("tool_choice", "tools"), (), ()),
    (
        "ChatCompletionRequest",
        "!has(self.tools) || size(self.tools.map(t, t.function.name).distinct()) == size(self.tools)",
    ): Compiled(("tools",), (), ()),
    (
        "ChatCompletionRequest",
        '!has(self.tools) || (has(self.tool_choice) && type(self.tool_choice) == string && self.tool_choice == "none") || !has(self.stop)',
    ): Compiled(("stop", "tool_choice", "tools"), (), ("none",)),
    (
        "ChatCompletionRequest",
        '!has(self.tools) || (has(self.tool_choice) && type(self.tool_choice) == string && self.tool_choice == "none") || !has(self.stop_token_ids)',
    ): Compiled(("stop_token_ids", "tool_choice", "tools"), (), ("none",)),
    (
        "ChatCompletionRequest",
        '!has(self.tools) || (has(self.tool_choice) && type(self.tool_choice) == string && self.tool_choice == "none") || !has(self.include_stop_str_in_output) || !self.include_stop_str_in_output',
    ): Compiled(("include_stop_str_in_output", "tool_choice", "tools"), (), ("none",)),
    (
        "ChatCompletionRequest",
        '!has(self.tools) || (has(self.tool_choice) && type(self.tool_choice) == string && self.tool_choice == "none") || !has(self.n) || self.n <= 1',
    ): Compiled(("n", "tool_choice", "tools"), (1,), ("none",)),
    (
        "ChatCompletionRequest",
        '!has(self.tools) || (has(self.tool_choice) && type(self.tool_choice) == string && self.tool_choice == "none") || !has(self.best_of) || self.best_of <= 1',
    ): Compiled(("best_of", "tool_choice", "tools"), (1,), ("none",)),
    (
        "ChatCompletionRequest",
        '!has(self.tools) || (has(self.tool_choice) && type(self.tool_choice) == string && self.tool_choice == "none") || !has(self.use_beam_search) || !self.use_beam_search',
    ): Compiled(("tool_choice", "tools", "use_beam_search"), (), ("none",)),
    (
        "ChatCompletionRequest",
        '!has(self.tools) || (has(self.tool_choice) && type(self.tool_choice) == string && self.tool_choice == "none") || !has(self.logprobs) || !self.logprobs',
    ): Compiled(("logprobs", "tool_choice", "tools"), (), ("none",)),
    (
        "ChatCompletionRequest",
        "!has(self.max_tokens) || !has(self.max_completion_tokens) || self.max_tokens == self.max_completion_tokens",
    ): Compiled(("max_completion_tokens", "max_tokens"), (), ()),
    (
        "ChatCompletionRequest",
        '!("prefix_cache" in server.features) || !has(self.logprobs) || !self.logprobs',
    ): Compiled(("logprobs",), (), ("prefix_cache",)),
    ("ChatCompletionRequest", '!("splitfuse" in server.features) || !has(self.logprobs) || !self.logprobs'): Compiled(
        ("logprobs",), (), ("splitfuse",)
    ),
    ("ChatCompletionRequest", '!("parallel_decoding" in server.features) || !has(self.n) || self.n <= 1'): Compiled(
        ("n",), (1,), ("parallel_decoding",)
    ),
    (
        "ChatCompletionRequest",
        '!("parallel_decoding" in server.features) || !has(self.best_of) || self.best_of <= 1',
    ): Compiled(("best_of",), (1,), ("parallel_decoding",)),
    (
        "ChatCompletionRequest",
        '!("parallel_decoding" in server.features) || !has(self.use_beam_search) || !self.use_beam_search',
    ): Compiled(("use_beam_search",), (), ("parallel_decoding",)),
    (
        "ChatCompletionRequest",
        '!("parallel_decoding" in server.features) || !has(self.logprobs) || !self.logprobs',
    ): Compiled(("logprobs",), (), ("parallel_decoding",)),
    ("ChatCompletionRequest", '!("mtp" in server.features) || !has(self.n) || self.n <= 1'): Compiled(
        ("n",), (1,), ("mtp",)
    ),
    ("ChatCompletionRequest", '!("mtp" in server.features) || !has(self.best_of) || self.best_of <= 1'): Compiled(
        ("best_of",), (1,), ("mtp",)
    ),
    (
        "ChatCompletionRequest",
        '!("mtp" in server.features) || !has(self.use_beam_search) || !self.use_beam_search',
    ): Compiled(("use_beam_search",), (), ("mtp",)),
    (
        "ChatCompletionRequest",
        '!("mtp" in server.features) || !has(self.response_format) || self.response_format.type == "text"',
    ): Compiled(("response_format",), (), ("mtp", "text")),
    ("ChatCompletionRequest", 'server.model_type != "deepseek" || !has(self.n) || self.n <= 1'): Compiled(
        ("n",), (1,), ("deepseek",)
    ),
    ("ChatCompletionRequest", 'server.model_type != "deepseek" || !has(self.best_of) || self.best_of <= 1'): Compiled(
        ("best_of",), (1,), ("deepseek",)
    ),
    (
        "ChatCompletionRequest",
        'server.model_type != "deepseek" || !has(self.use_beam_search) || !self.use_beam_search',
    ): Compiled(("use_beam_search",), (), ("deepseek",)),
    ("ChatCompletionRequest", '!("pd" in server.features) || !has(self.n) || self.n <= 1'): Compiled(
        ("n",), (1,), ("pd",)
    ),
    ("ChatCompletionRequest", '!("pd" in server.features) || !has(self.best_of) || self.best_of <= 1'): Compiled(
        ("best_of",), (1,), ("pd",)
    ),
    (
        "ChatCompletionRequest",
        '!("pd" in server.features) || !has(self.use_beam_search) || !self.use_beam_search',
    ): Compiled(("use_beam_search",), (), ("pd",)),
    ("ChatCompletionRequest", '!("pd" in server.features) || !has(self.logprobs) || !self.logprobs'): Compiled(
        ("logprobs",), (), ("pd",)
    ),
    ("ChatCompletionRequest", '!("pd" in server.features) || !has(self.stop)'): Compiled(("stop",), (), ("pd",)),
    ("ChatCompletionRequest", '!("pd" in server.features) || !has(self.stop_token_ids)'): Compiled(
        ("stop_token_ids",), (), ("pd",)
    ),
    (
        "ChatCompletionRequest",
        '!("pd" in server.features) || !has(self.include_stop_str_in_output) || !self.include_stop_str_in_output',
    ): Compiled(("include_stop_str_in_output",), (), ("pd",)),
    ("ChatCompletionRequest", '!("reasoning" in server.features) || !has(self.stop)'): Compiled(
        ("stop",), (), ("reasoning",)
    ),
    (
        "ChatCompletionRequest",
        '!("reasoning" in server.features) || !has(self.include_stop_str_in_output) || !self.include_stop_str_in_output',
    ): Compiled(("include_stop_str_in_output",), (), ("reasoning",)),
    (
        "CompletionRequest",
        "(has(self.use_beam_search) && self.use_beam_search) || (has(self.stream) && self.stream) || !has(self.n) || !has(self.best_of) || self.best_of >= self.n",
    ): Compiled(("best_of", "n", "stream", "use_beam_search"), (), ()),
    (
        "CompletionRequest",
        "(has(self.use_beam_search) && self.use_beam_search) || !has(self.stream) || !self.stream || !has(self.best_of) || (has(self.n) && self.best_of == self.n)",
    ): Compiled(("best_of", "n", "stream", "use_beam_search"), (), ()),
    (
        "CompletionRequest",
        "(has(self.use_beam_search) && self.use_beam_search) || !has(self.n) || self.n <= 1 || !has(self.temperature) || self.temperature > 0.0",
    ): Compiled(("n", "temperature", "use_beam_search"), (1,), ()),
    (
        "CompletionRequest",
        "(has(self.use_beam_search) && self.use_beam_search) || !has(self.best_of) || self.best_of <= 1 || !has(self.temperature) || self.temperature > 0.0",
    ): Compiled(("best_of", "temperature", "use_beam_search"), (1,), ()),
    ("CompletionRequest", "!has(self.use_beam_search) || !self.use_beam_search || !has(self.stop)"): Compiled(
        ("stop", "use_beam_search"), (), ()
    ),
    (
        "CompletionRequest",
        "!has(self.stop) || type(self.stop) == string || self.stop.map(s, size(s)).sum() <= 32768",
    ): Compiled(("stop",), (32768,), ()),
    ("CompletionRequest", '!("prefix_cache" in server.features) || !has(self.logprobs)'): Compiled(
        ("logprobs",), (), ("prefix_cache",)
    ),
    ("CompletionRequest", '!("splitfuse" in server.features) || !has(self.logprobs)'): Compiled(
        ("logprobs",), (), ("splitfuse",)
    ),
    ("CompletionRequest", '!("parallel_decoding" in server.features) || !has(self.n) || self.n <= 1'): Compiled(
        ("n",), (1,), ("parallel_decoding",)
    ),
    (
        "CompletionRequest",
        '!("parallel_decoding" in server.features) || !has(self.best_of) || self.best_of <= 1',
    ): Compiled(("best_of",), (1,), ("parallel_decoding",)),
    (
        "CompletionRequest",
        '!("parallel_decoding" in server.features) || !has(self.use_beam_search) || !self.use_beam_search',
    ): Compiled(("use_beam_search",), (), ("parallel_decoding",)),
    ("CompletionRequest", '!("parallel_decoding" in server.features) || !has(self.logprobs)'): Compiled(
        ("logprobs",), (), ("parallel_decoding",)
    ),
    ("CompletionRequest", '!("mtp" in server.features) || !has(self.n) || self.n <= 1'): Compiled(
        ("n",), (1,), ("mtp",)
    ),
    ("CompletionRequest", '!("mtp" in server.features) || !has(self.best_of) || self.best_of <= 1'): Compiled(
        ("best_of",), (1,), ("mtp",)
    ),
    (
        "CompletionRequest",
        '!("mtp" in server.features) || !has(self.use_beam_search) || !self.use_beam_search',
    ): Compiled(("use_beam_search",), (), ("mtp",)),
    (
        "CompletionRequest",
        '!("mtp" in server.features) || !has(self.response_format) || self.response_format.type == "text"',
    ): Compiled(("response_format",), (), ("mtp", "text")),
    ("CompletionRequest", 'server.model_type != "deepseek" || !has(self.n) || self.n <= 1'): Compiled(
        ("n",), (1,), ("deepseek",)
    ),
    ("CompletionRequest", 'server.model_type != "deepseek" || !has(self.best_of) || self.best_of <= 1'): Compiled(
        ("best_of",), (1,), ("deepseek",)
    ),
    (
        "CompletionRequest",
        'server.model_type != "deepseek" || !has(self.use_beam_search) || !self.use_beam_search',
    ): Compiled(("use_beam_search",), (), ("deepseek",)),
    ("CompletionRequest", '!("pd" in server.features) || !has(self.n) || self.n <= 1'): Compiled(("n",), (1,), ("pd",)),
    ("CompletionRequest", '!("pd" in server.features) || !has(self.best_of) || self.best_of <= 1'): Compiled(
        ("best_of",), (1,), ("pd",)
    ),
    (
        "CompletionRequest",
        '!("pd" in server.features) || !has(self.use_beam_search) || !self.use_beam_search',
    ): Compiled(("use_beam_search",), (), ("pd",)),
    ("CompletionRequest", '!("pd" in server.features) || !has(self.logprobs)'): Compiled(("logprobs",), (), ("pd",)),
    ("CompletionRequest", '!("reasoning" in server.features) || !has(self.stop)'): Compiled(
        ("stop",), (), ("reasoning",)
    ),
    (
        "CompletionRequest",
        '!("reasoning" in server.features) || !has(self.include_stop_str_in_output) || !self.include_stop_str_in_output',
    ): Compiled(("include_stop_str_in_output",), (), ("reasoning",)),
}
"""By schema and by the rule's text."""
