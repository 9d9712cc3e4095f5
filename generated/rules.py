"""The contract's cross-field rules and normalisations as plain Python. Generated from the spec's CEL; do not edit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

Path = tuple[str | int, ...]
"""The way from a request to one of its members: names and list indices."""


@dataclass(frozen=True)
class Deployment:
    """What rules may ask about a running server, and how it wants them applied."""

    features: frozenset[str] = frozenset()
    model_type: str = ""
    openai_form: bool = False
    """Answers in OpenAI's form; some members then have other bounds."""
    relaxed_rules: frozenset[str] = frozenset()
    """Relaxable rules that this deployment does not apply."""
    strict_unknown: bool = False
    """Unknown members are refused."""
    fields_only: bool = False
    """Check the fields, and leave unknown members, normalisations and rules to the caller."""


PLAIN: Final = Deployment()
"""A deployment without any feature."""


@dataclass(frozen=True)
class Rule:
    """A cross-field rule of one schema."""

    id: str
    message: str
    fields: tuple[str, ...]
    """The members to blame, the first is the error's `param`; relative to the rule's schema."""
    reads: tuple[str, ...] = ()
    """Every member that the rule looks at."""
    accepted: str = ""
    """Members that obey the rule, as JSON; {repeat, times} stands for a long string or list."""
    profile: Deployment = PLAIN
    """The deployment under which the rule can be broken."""
    relaxable: bool = False


@dataclass(frozen=True)
class Broken:
    """A rule that an object breaks, and where in the request that object is."""

    rule: Rule
    owner: Path

    @property
    def path(self) -> Path:
        """The way to the first member to blame."""
        return (*self.owner, *self.rule.fields[0].split("."))


Found = list[tuple[Rule, Path]]

_RESPONSE_FORMAT: Final[dict[str, Rule]] = {
    "json-schema-needs-its-type": Rule(
        "json-schema-needs-its-type",
        "json_schema must be given when type is json_schema, and only then",
        ("json_schema", "type"),
        reads=("json_schema", "type"),
        accepted='{"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}',
    ),
}
_CONTENT_PART: Final[dict[str, Rule]] = {
    "part-has-its-own-payload": Rule(
        "part-has-its-own-payload",
        "a content part carries exactly one payload, the one that its type names",
        ("type",),
        reads=("audio_url", "image_url", "input_audio", "text", "type", "video_url"),
        accepted='{"type": "text", "text": "hello"}',
    ),
}
_MESSAGE: Final[dict[str, Rule]] = {
    "tool-message-needs-call-id": Rule(
        "tool-message-needs-call-id",
        "a message of role tool needs the tool_call_id that it answers",
        ("tool_call_id", "role"),
        reads=("role", "tool_call_id"),
        accepted='{"role": "tool", "content": "18", "tool_call_id": "call_1"}',
    ),
    "content-required": Rule(
        "content-required",
        "content must not be empty for this role",
        ("content", "role"),
        reads=("content", "role"),
        accepted='{"role": "user", "content": "hello"}',
    ),
    "assistant-content-or-tool-calls": Rule(
        "assistant-content-or-tool-calls",
        "an assistant message needs content or tool_calls",
        ("content", "tool_calls"),
        reads=("content", "role", "tool_calls"),
        accepted='{"role": "assistant", "content": "hello"}',
    ),
}
_CHAT_TEMPLATE_KWARGS: Final[dict[str, Rule]] = {
    "thinking-budget-needs-thinking": Rule(
        "thinking-budget-needs-thinking",
        "thinking_budget cannot be combined with enable_thinking false",
        ("thinking_budget", "enable_thinking"),
        reads=("enable_thinking", "thinking_budget"),
        accepted='{"thinking_budget": 100, "enable_thinking": true}',
    ),
}
_CHAT_COMPLETION_REQUEST: Final[dict[str, Rule]] = {
    "best-of-at-least-n": Rule(
        "best-of-at-least-n",
        "best_of must be at least n when both are given",
        ("best_of", "n"),
        reads=("best_of", "n", "stream", "use_beam_search"),
        accepted='{"n": 2, "best_of": 3}',
    ),
    "stream-best-of-equals-n": Rule(
        "stream-best-of-equals-n",
        "in a stream best_of must come with an equal n",
        ("best_of", "n"),
        reads=("best_of", "n", "stream", "use_beam_search"),
        accepted='{"stream": true, "n": 2, "best_of": 2}',
    ),
    "n-needs-temperature": Rule(
        "n-needs-temperature",
        "n above 1 needs a temperature above 0",
        ("n", "temperature"),
        reads=("n", "temperature", "use_beam_search"),
        accepted='{"n": 2, "temperature": 0.7}',
    ),
    "best-of-needs-temperature": Rule(
        "best-of-needs-temperature",
        "best_of above 1 needs a temperature above 0",
        ("best_of", "temperature"),
        reads=("best_of", "temperature", "use_beam_search"),
        accepted='{"best_of": 2, "temperature": 0.7}',
    ),
    "beam-excludes-stop": Rule(
        "beam-excludes-stop",
        "beam search cannot be combined with stop",
        ("use_beam_search", "stop"),
        reads=("stop", "use_beam_search"),
        accepted='{"use_beam_search": true, "n": 2}',
    ),
    "beam-excludes-stop-token-ids": Rule(
        "beam-excludes-stop-token-ids",
        "beam search cannot be combined with stop_token_ids",
        ("use_beam_search", "stop_token_ids"),
        reads=("stop_token_ids", "use_beam_search"),
        accepted='{"use_beam_search": true, "stop_token_ids": []}',
    ),
    "top-logprobs-needs-logprobs": Rule(
        "top-logprobs-needs-logprobs",
        "top_logprobs above 0 needs logprobs true or absent",
        ("top_logprobs", "logprobs"),
        reads=("logprobs", "top_logprobs"),
        accepted='{"top_logprobs": 2}',
    ),
    "stop-total-length": Rule(
        "stop-total-length",
        "the stop strings together must not exceed 32768 characters",
        ("stop",),
        reads=("stop",),
        accepted='{"stop": ["END", "STOP"]}',
    ),
    "messages-total-length": Rule(
        "messages-total-length",
        "the text of all messages together must not exceed 4194304 characters",
        ("messages",),
        reads=("messages",),
        accepted='{"messages": [{"role": "user", "content": "hello"}]}',
    ),
    "media-at-most-20": Rule(
        "media-at-most-20",
        "a request must not have more than 20 images, videos and recordings together",
        ("messages",),
        reads=("messages",),
        accepted='{"messages": [{"role": "user", "content": [{"text": "hello"}]}]}',
    ),
    "tool-choice-needs-tools": Rule(
        "tool-choice-needs-tools",
        "this tool_choice needs tools",
        ("tool_choice", "tools"),
        reads=("tool_choice", "tools"),
        accepted='{"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "get_time"}}]}',
    ),
    "tool-choice-names-a-tool": Rule(
        "tool-choice-names-a-tool",
        "tool_choice must name one of the tools",
        ("tool_choice", "tools"),
        reads=("tool_choice", "tools"),
        accepted='{"tool_choice": {"type": "function", "function": {"name": "get_time"}}, "tools": [{"type": "function", "function": {"name": "get_time"}}]}',
    ),
    "tool-names-unique": Rule(
        "tool-names-unique",
        "every tool needs a name of its own",
        ("tools",),
        reads=("tools",),
        accepted='{"tools": [{"type": "function", "function": {"name": "get_time"}}, {"type": "function", "function": {"name": "get_date"}}]}',
    ),
    "tools-exclude-stop": Rule(
        "tools-exclude-stop",
        "tools cannot be combined with stop",
        ("stop", "tools"),
        reads=("stop", "tool_choice", "tools"),
        accepted='{"tools": [{"type": "function", "function": {"name": "get_time"}}], "tool_choice": "none", "stop": "END"}',
        relaxable=True,
    ),
    "tools-exclude-stop-token-ids": Rule(
        "tools-exclude-stop-token-ids",
        "tools cannot be combined with stop_token_ids",
        ("stop_token_ids", "tools"),
        reads=("stop_token_ids", "tool_choice", "tools"),
        accepted='{"tools": [{"type": "function", "function": {"name": "get_time"}}], "stop_token_ids": []}',
        relaxable=True,
    ),
    "tools-exclude-include-stop-str": Rule(
        "tools-exclude-include-stop-str",
        "tools cannot be combined with include_stop_str_in_output",
        ("include_stop_str_in_output", "tools"),
        reads=("include_stop_str_in_output", "tool_choice", "tools"),
        accepted='{"tools": [{"type": "function", "function": {"name": "get_time"}}], "include_stop_str_in_output": false}',
        relaxable=True,
    ),
    "tools-exclude-n": Rule(
        "tools-exclude-n",
        "tools cannot be combined with n above 1",
        ("n", "tools"),
        reads=("n", "tool_choice", "tools"),
        accepted='{"tools": [{"type": "function", "function": {"name": "get_time"}}], "n": 1}',
        relaxable=True,
    ),
    "tools-exclude-best-of": Rule(
        "tools-exclude-best-of",
        "tools cannot be combined with best_of above 1",
        ("best_of", "tools"),
        reads=("best_of", "tool_choice", "tools"),
        accepted='{"tools": [{"type": "function", "function": {"name": "get_time"}}], "best_of": 1}',
        relaxable=True,
    ),
    "tools-exclude-beams": Rule(
        "tools-exclude-beams",
        "tools cannot be combined with beam search",
        ("use_beam_search", "tools"),
        reads=("tool_choice", "tools", "use_beam_search"),
        accepted='{"tools": [{"type": "function", "function": {"name": "get_time"}}], "use_beam_search": false}',
        relaxable=True,
    ),
    "tools-exclude-logprobs": Rule(
        "tools-exclude-logprobs",
        "tools cannot be combined with logprobs or top_logprobs",
        ("logprobs", "top_logprobs", "tools"),
        reads=("logprobs", "tool_choice", "tools"),
        accepted='{"tools": [{"type": "function", "function": {"name": "get_time"}}], "logprobs": false}',
        relaxable=True,
    ),
    "max-tokens-agree": Rule(
        "max-tokens-agree",
        "max_tokens and max_completion_tokens mean the same and must be equal when both are given",
        ("max_completion_tokens", "max_tokens"),
        reads=("max_completion_tokens", "max_tokens"),
        accepted='{"max_tokens": 7, "max_completion_tokens": 7}',
    ),
    "prefix-cache-excludes-logprobs": Rule(
        "prefix-cache-excludes-logprobs",
        "a deployment with prefix_cache refuses logprobs and top_logprobs",
        ("logprobs", "top_logprobs"),
        reads=("logprobs",),
        accepted='{"logprobs": false}',
        profile=Deployment(features=frozenset(["prefix_cache"])),
    ),
    "splitfuse-excludes-logprobs": Rule(
        "splitfuse-excludes-logprobs",
        "a deployment with splitfuse refuses logprobs and top_logprobs",
        ("logprobs", "top_logprobs"),
        reads=("logprobs",),
        accepted='{"logprobs": false}',
        profile=Deployment(features=frozenset(["splitfuse"])),
    ),
    "parallel-decoding-excludes-n": Rule(
        "parallel-decoding-excludes-n",
        "a deployment with parallel_decoding refuses n above 1",
        ("n",),
        reads=("n",),
        accepted='{"n": 1}',
        profile=Deployment(features=frozenset(["parallel_decoding"])),
    ),
    "parallel-decoding-excludes-best-of": Rule(
        "parallel-decoding-excludes-best-of",
        "a deployment with parallel_decoding refuses best_of above 1",
        ("best_of",),
        reads=("best_of",),
        accepted='{"best_of": 1}',
        profile=Deployment(features=frozenset(["parallel_decoding"])),
    ),
    "parallel-decoding-excludes-beams": Rule(
        "parallel-decoding-excludes-beams",
        "a deployment with parallel_decoding refuses beam search",
        ("use_beam_search",),
        reads=("use_beam_search",),
        accepted='{"use_beam_search": false}',
        profile=Deployment(features=frozenset(["parallel_decoding"])),
    ),
    "parallel-decoding-excludes-logprobs": Rule(
        "parallel-decoding-excludes-logprobs",
        "a deployment with parallel_decoding refuses logprobs and top_logprobs",
        ("logprobs", "top_logprobs"),
        reads=("logprobs",),
        accepted='{"logprobs": false}',
        profile=Deployment(features=frozenset(["parallel_decoding"])),
    ),
    "mtp-excludes-n": Rule(
        "mtp-excludes-n",
        "a deployment with mtp refuses n above 1",
        ("n",),
        reads=("n",),
        accepted='{"n": 1}',
        profile=Deployment(features=frozenset(["mtp"])),
    ),
    "mtp-excludes-best-of": Rule(
        "mtp-excludes-best-of",
        "a deployment with mtp refuses best_of above 1",
        ("best_of",),
        reads=("best_of",),
        accepted='{"best_of": 1}',
        profile=Deployment(features=frozenset(["mtp"])),
    ),
    "mtp-excludes-beams": Rule(
        "mtp-excludes-beams",
        "a deployment with mtp refuses beam search",
        ("use_beam_search",),
        reads=("use_beam_search",),
        accepted='{"use_beam_search": false}',
        profile=Deployment(features=frozenset(["mtp"])),
    ),
    "mtp-excludes-response-format": Rule(
        "mtp-excludes-response-format",
        "a deployment with mtp refuses response_format of a type other than text",
        ("response_format",),
        reads=("response_format",),
        accepted='{"response_format": {"type": "text"}}',
        profile=Deployment(features=frozenset(["mtp"])),
    ),
    "deepseek-excludes-n": Rule(
        "deepseek-excludes-n",
        "a DeepSeek deployment refuses n above 1",
        ("n",),
        reads=("n",),
        accepted='{"n": 1}',
        profile=Deployment(model_type="deepseek"),
    ),
    "deepseek-excludes-best-of": Rule(
        "deepseek-excludes-best-of",
        "a DeepSeek deployment refuses best_of above 1",
        ("best_of",),
        reads=("best_of",),
        accepted='{"best_of": 1}',
        profile=Deployment(model_type="deepseek"),
    ),
    "deepseek-excludes-beams": Rule(
        "deepseek-excludes-beams",
        "a DeepSeek deployment refuses beam search",
        ("use_beam_search",),
        reads=("use_beam_search",),
        accepted='{"use_beam_search": false}',
        profile=Deployment(model_type="deepseek"),
    ),
    "pd-excludes-n": Rule(
        "pd-excludes-n",
        "a deployment with separate prefill and decode nodes (pd) refuses n above 1",
        ("n",),
        reads=("n",),
        accepted='{"n": 1}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "pd-excludes-best-of": Rule(
        "pd-excludes-best-of",
        "a deployment with separate prefill and decode nodes (pd) refuses best_of above 1",
        ("best_of",),
        reads=("best_of",),
        accepted='{"best_of": 1}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "pd-excludes-beams": Rule(
        "pd-excludes-beams",
        "a deployment with separate prefill and decode nodes (pd) refuses beam search",
        ("use_beam_search",),
        reads=("use_beam_search",),
        accepted='{"use_beam_search": false}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "pd-excludes-logprobs": Rule(
        "pd-excludes-logprobs",
        "a deployment with separate prefill and decode nodes (pd) refuses logprobs and top_logprobs",
        ("logprobs", "top_logprobs"),
        reads=("logprobs",),
        accepted='{"logprobs": false}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "pd-excludes-stop": Rule(
        "pd-excludes-stop",
        "a deployment with separate prefill and decode nodes (pd) refuses stop on chat",
        ("stop",),
        reads=("stop",),
        accepted='{"stop": []}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "pd-excludes-stop-token-ids": Rule(
        "pd-excludes-stop-token-ids",
        "a deployment with separate prefill and decode nodes (pd) refuses stop_token_ids on chat",
        ("stop_token_ids",),
        reads=("stop_token_ids",),
        accepted='{"stop_token_ids": []}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "pd-excludes-include-stop-str": Rule(
        "pd-excludes-include-stop-str",
        "a deployment with separate prefill and decode nodes (pd) refuses include_stop_str_in_output on chat",
        ("include_stop_str_in_output",),
        reads=("include_stop_str_in_output",),
        accepted='{"include_stop_str_in_output": false}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "reasoning-excludes-stop": Rule(
        "reasoning-excludes-stop",
        "a deployment that parses reasoning refuses stop",
        ("stop",),
        reads=("stop",),
        accepted='{"stop": []}',
        profile=Deployment(features=frozenset(["reasoning"])),
    ),
    "reasoning-excludes-include-stop-str": Rule(
        "reasoning-excludes-include-stop-str",
        "a deployment that parses reasoning refuses include_stop_str_in_output",
        ("include_stop_str_in_output",),
        reads=("include_stop_str_in_output",),
        accepted='{"include_stop_str_in_output": false}',
        profile=Deployment(features=frozenset(["reasoning"])),
    ),
}
_COMPLETION_REQUEST: Final[dict[str, Rule]] = {
    "best-of-at-least-n": Rule(
        "best-of-at-least-n",
        "best_of must be at least n when both are given",
        ("best_of", "n"),
        reads=("best_of", "n", "stream", "use_beam_search"),
        accepted='{"n": 2, "best_of": 3}',
    ),
    "stream-best-of-equals-n": Rule(
        "stream-best-of-equals-n",
        "in a stream best_of must come with an equal n",
        ("best_of", "n"),
        reads=("best_of", "n", "stream", "use_beam_search"),
        accepted='{"stream": true, "n": 2, "best_of": 2}',
    ),
    "n-needs-temperature": Rule(
        "n-needs-temperature",
        "n above 1 needs a temperature above 0",
        ("n", "temperature"),
        reads=("n", "temperature", "use_beam_search"),
        accepted='{"n": 2, "temperature": 0.7}',
    ),
    "best-of-needs-temperature": Rule(
        "best-of-needs-temperature",
        "best_of above 1 needs a temperature above 0",
        ("best_of", "temperature"),
        reads=("best_of", "temperature", "use_beam_search"),
        accepted='{"best_of": 2, "temperature": 0.7}',
    ),
    "beam-excludes-stop": Rule(
        "beam-excludes-stop",
        "beam search cannot be combined with stop",
        ("use_beam_search", "stop"),
        reads=("stop", "use_beam_search"),
        accepted='{"use_beam_search": true, "n": 2}',
    ),
    "stop-total-length": Rule(
        "stop-total-length",
        "the stop strings together must not exceed 32768 characters",
        ("stop",),
        reads=("stop",),
        accepted='{"stop": ["END", "STOP"]}',
    ),
    "prefix-cache-excludes-logprobs": Rule(
        "prefix-cache-excludes-logprobs",
        "a deployment with prefix_cache refuses logprobs",
        ("logprobs",),
        reads=("logprobs",),
        accepted='{"logprobs": null}',
        profile=Deployment(features=frozenset(["prefix_cache"])),
    ),
    "splitfuse-excludes-logprobs": Rule(
        "splitfuse-excludes-logprobs",
        "a deployment with splitfuse refuses logprobs",
        ("logprobs",),
        reads=("logprobs",),
        accepted='{"logprobs": null}',
        profile=Deployment(features=frozenset(["splitfuse"])),
    ),
    "parallel-decoding-excludes-n": Rule(
        "parallel-decoding-excludes-n",
        "a deployment with parallel_decoding refuses n above 1",
        ("n",),
        reads=("n",),
        accepted='{"n": 1}',
        profile=Deployment(features=frozenset(["parallel_decoding"])),
    ),
    "parallel-decoding-excludes-best-of": Rule(
        "parallel-decoding-excludes-best-of",
        "a deployment with parallel_decoding refuses best_of above 1",
        ("best_of",),
        reads=("best_of",),
        accepted='{"best_of": 1}',
        profile=Deployment(features=frozenset(["parallel_decoding"])),
    ),
    "parallel-decoding-excludes-beams": Rule(
        "parallel-decoding-excludes-beams",
        "a deployment with parallel_decoding refuses beam search",
        ("use_beam_search",),
        reads=("use_beam_search",),
        accepted='{"use_beam_search": false}',
        profile=Deployment(features=frozenset(["parallel_decoding"])),
    ),
    "parallel-decoding-excludes-logprobs": Rule(
        "parallel-decoding-excludes-logprobs",
        "a deployment with parallel_decoding refuses logprobs",
        ("logprobs",),
        reads=("logprobs",),
        accepted='{"logprobs": null}',
        profile=Deployment(features=frozenset(["parallel_decoding"])),
    ),
    "mtp-excludes-n": Rule(
        "mtp-excludes-n",
        "a deployment with mtp refuses n above 1",
        ("n",),
        reads=("n",),
        accepted='{"n": 1}',
        profile=Deployment(features=frozenset(["mtp"])),
    ),
    "mtp-excludes-best-of": Rule(
        "mtp-excludes-best-of",
        "a deployment with mtp refuses best_of above 1",
        ("best_of",),
        reads=("best_of",),
        accepted='{"best_of": 1}',
        profile=Deployment(features=frozenset(["mtp"])),
    ),
    "mtp-excludes-beams": Rule(
        "mtp-excludes-beams",
        "a deployment with mtp refuses beam search",
        ("use_beam_search",),
        reads=("use_beam_search",),
        accepted='{"use_beam_search": false}',
        profile=Deployment(features=frozenset(["mtp"])),
    ),
    "mtp-excludes-response-format": Rule(
        "mtp-excludes-response-format",
        "a deployment with mtp refuses response_format of a type other than text",
        ("response_format",),
        reads=("response_format",),
        accepted='{"response_format": {"type": "text"}}',
        profile=Deployment(features=frozenset(["mtp"])),
    ),
    "deepseek-excludes-n": Rule(
        "deepseek-excludes-n",
        "a DeepSeek deployment refuses n above 1",
        ("n",),
        reads=("n",),
        accepted='{"n": 1}',
        profile=Deployment(model_type="deepseek"),
    ),
    "deepseek-excludes-best-of": Rule(
        "deepseek-excludes-best-of",
        "a DeepSeek deployment refuses best_of above 1",
        ("best_of",),
        reads=("best_of",),
        accepted='{"best_of": 1}',
        profile=Deployment(model_type="deepseek"),
    ),
    "deepseek-excludes-beams": Rule(
        "deepseek-excludes-beams",
        "a DeepSeek deployment refuses beam search",
        ("use_beam_search",),
        reads=("use_beam_search",),
        accepted='{"use_beam_search": false}',
        profile=Deployment(model_type="deepseek"),
    ),
    "pd-excludes-n": Rule(
        "pd-excludes-n",
        "a deployment with separate prefill and decode nodes (pd) refuses n above 1",
        ("n",),
        reads=("n",),
        accepted='{"n": 1}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "pd-excludes-best-of": Rule(
        "pd-excludes-best-of",
        "a deployment with separate prefill and decode nodes (pd) refuses best_of above 1",
        ("best_of",),
        reads=("best_of",),
        accepted='{"best_of": 1}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "pd-excludes-beams": Rule(
        "pd-excludes-beams",
        "a deployment with separate prefill and decode nodes (pd) refuses beam search",
        ("use_beam_search",),
        reads=("use_beam_search",),
        accepted='{"use_beam_search": false}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "pd-excludes-logprobs": Rule(
        "pd-excludes-logprobs",
        "a deployment with separate prefill and decode nodes (pd) refuses logprobs",
        ("logprobs",),
        reads=("logprobs",),
        accepted='{"logprobs": null}',
        profile=Deployment(features=frozenset(["pd"])),
    ),
    "reasoning-excludes-stop": Rule(
        "reasoning-excludes-stop",
        "a deployment that parses reasoning refuses stop",
        ("stop",),
        reads=("stop",),
        accepted='{"stop": []}',
        profile=Deployment(features=frozenset(["reasoning"])),
    ),
    "reasoning-excludes-include-stop-str": Rule(
        "reasoning-excludes-include-stop-str",
        "a deployment that parses reasoning refuses include_stop_str_in_output",
        ("include_stop_str_in_output",),
        reads=("include_stop_str_in_output",),
        accepted='{"include_stop_str_in_output": false}',
        profile=Deployment(features=frozenset(["reasoning"])),
    ),
}

RULES_OF: Final[dict[str, dict[str, Rule]]] = {
    "ResponseFormat": _RESPONSE_FORMAT,
    "ContentPart": _CONTENT_PART,
    "Message": _MESSAGE,
    "ChatTemplateKwargs": _CHAT_TEMPLATE_KWARGS,
    "ChatCompletionRequest": _CHAT_COMPLETION_REQUEST,
    "CompletionRequest": _COMPLETION_REQUEST,
}
"""Schema name to its rules by id, in the order in which they are checked."""
RULES: Final[dict[str, Rule]] = {name: rule for table in RULES_OF.values() for name, rule in table.items()}
"""Every rule by id; where two schemas word a rule differently, the last one's."""


class Enough(Exception):
    """Ends a check at the first broken rule that counts."""


class FirstBroken(Found):
    """Takes the first broken rule that a deployment does not relax, and ends the check there.

    A body of a million faulty members costs one finding, not a million.
    """

    def __init__(self, server: Deployment) -> None:
        super().__init__()
        self._relaxed = server.relaxed_rules

    def append(self, found: tuple[Rule, Path]) -> None:
        """Called by the checks for each broken rule."""
        if found[0].relaxable and found[0].id in self._relaxed:
            return
        super().append(found)
        raise Enough


@lru_cache(maxsize=None)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def matches(text: str, pattern: str) -> bool:
    """CEL's matches(): whether the pattern is found in the text."""
    return _compiled(pattern).search(text) is not None


def lower_ascii(text: str) -> str:
    """CEL's lowerAscii(): A to Z in lower case, all else as it is."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def distinct(items: Iterable[Any]) -> list[Any]:
    """Kubernetes' distinct(): each value once."""
    return list(dict.fromkeys(items))


def check_response_format(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """ResponseFormat: its members' rules, then its own 1, as the spec lists them."""
    if not ((self.json_schema is not None) == (self.type == "json_schema")):
        found.append((_RESPONSE_FORMAT["json-schema-needs-its-type"], path))


def check_content_part(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """ContentPart: its members' rules, then its own 1, as the spec lists them."""
    if not (
        (1 if self.text is not None else 0)
        + (1 if self.image_url is not None else 0)
        + (1 if self.video_url is not None else 0)
        + (1 if self.audio_url is not None else 0)
        + (1 if self.input_audio is not None else 0)
        == 1
        and (
            self.type is None
            or (self.type == "text" and self.text is not None)
            or (self.type == "image_url" and self.image_url is not None)
            or (self.type == "video_url" and self.video_url is not None)
            or (self.type == "audio_url" and self.audio_url is not None)
            or (self.type == "input_audio" and self.input_audio is not None)
        )
    ):
        found.append((_CONTENT_PART["part-has-its-own-payload"], path))


def check_message(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """Message: its members' rules, then its own 3, as the spec lists them."""
    if isinstance(self.content, list):
        for i1, item1 in enumerate(self.content):
            if item1 is not None:
                check_content_part(item1, (*path, "content", i1), server, found)
    if not (self.role != "tool" or self.tool_call_id is not None):
        found.append((_MESSAGE["tool-message-needs-call-id"], path))
    if not (self.role == "assistant" or self.role == "tool" or (self.content is not None and len(self.content) > 0)):
        found.append((_MESSAGE["content-required"], path))
    if not (
        self.role != "assistant"
        or (self.content is not None and len(self.content) > 0)
        or (self.tool_calls is not None and len(self.tool_calls) > 0)
    ):
        found.append((_MESSAGE["assistant-content-or-tool-calls"], path))


def check_chat_template_kwargs(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """ChatTemplateKwargs: its members' rules, then its own 1, as the spec lists them."""
    if not (self.thinking_budget is None or self.enable_thinking is None or self.enable_thinking):
        found.append((_CHAT_TEMPLATE_KWARGS["thinking-budget-needs-thinking"], path))


def check_chat_completion_request(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """ChatCompletionRequest: its members' rules, then its own 43, as the spec lists them."""
    if isinstance(self.messages, list):
        for i1, item1 in enumerate(self.messages):
            if item1 is not None:
                check_message(item1, (*path, "messages", i1), server, found)
    if self.chat_template_kwargs is not None:
        check_chat_template_kwargs(self.chat_template_kwargs, (*path, "chat_template_kwargs"), server, found)
    if self.response_format is not None:
        check_response_format(self.response_format, (*path, "response_format"), server, found)
    if not (
        self.use_beam_search is not None
        and self.use_beam_search
        or (self.stream is not None and self.stream)
        or self.n is None
        or (self.best_of is None)
        or (self.best_of >= self.n)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["best-of-at-least-n"], path))
    if not (
        self.use_beam_search is not None
        and self.use_beam_search
        or self.stream is None
        or (not self.stream)
        or (self.best_of is None)
        or (self.n is not None and self.best_of == self.n)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["stream-best-of-equals-n"], path))
    if not (
        self.use_beam_search is not None
        and self.use_beam_search
        or self.n is None
        or self.n <= 1
        or (self.temperature is None)
        or (self.temperature > 0.0)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["n-needs-temperature"], path))
    if not (
        self.use_beam_search is not None
        and self.use_beam_search
        or self.best_of is None
        or self.best_of <= 1
        or (self.temperature is None)
        or (self.temperature > 0.0)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["best-of-needs-temperature"], path))
    if not (self.use_beam_search is None or not self.use_beam_search or self.stop is None):
        found.append((_CHAT_COMPLETION_REQUEST["beam-excludes-stop"], path))
    if not (self.use_beam_search is None or not self.use_beam_search or self.stop_token_ids is None):
        found.append((_CHAT_COMPLETION_REQUEST["beam-excludes-stop-token-ids"], path))
    if not (self.top_logprobs is None or self.top_logprobs == 0 or (self.logprobs is not None and self.logprobs)):
        found.append((_CHAT_COMPLETION_REQUEST["top-logprobs-needs-logprobs"], path))
    if not (self.stop is None or isinstance(self.stop, str) or sum([len(s) for s in self.stop]) <= 32768):
        found.append((_CHAT_COMPLETION_REQUEST["stop-total-length"], path))
    if not (
        sum(
            [
                0
                if m.content is None
                else len(m.content)
                if isinstance(m.content, str)
                else sum([len(p.text) if p.text is not None else 0 for p in m.content])
                for m in self.messages
            ]
        )
        <= 4194304
    ):
        found.append((_CHAT_COMPLETION_REQUEST["messages-total-length"], path))
    if not (
        sum(
            [
                0
                if m.content is None
                else 0
                if isinstance(m.content, str)
                else sum([0 if p.text is not None else 1 for p in m.content])
                for m in self.messages
            ]
        )
        <= 20
    ):
        found.append((_CHAT_COMPLETION_REQUEST["media-at-most-20"], path))
    if not (
        self.tool_choice is None
        or self.tools is not None
        or (isinstance(self.tool_choice, str) and self.tool_choice != "required")
    ):
        found.append((_CHAT_COMPLETION_REQUEST["tool-choice-needs-tools"], path))
    if not (
        self.tool_choice is None
        or isinstance(self.tool_choice, str)
        or self.tools is None
        or any((t.function.name == self.tool_choice.function.name for t in self.tools))
    ):
        found.append((_CHAT_COMPLETION_REQUEST["tool-choice-names-a-tool"], path))
    if not (self.tools is None or len(distinct([t.function.name for t in self.tools])) == len(self.tools)):
        found.append((_CHAT_COMPLETION_REQUEST["tool-names-unique"], path))
    if not (
        self.tools is None
        or (self.tool_choice is not None and isinstance(self.tool_choice, str) and (self.tool_choice == "none"))
        or self.stop is None
    ):
        found.append((_CHAT_COMPLETION_REQUEST["tools-exclude-stop"], path))
    if not (
        self.tools is None
        or (self.tool_choice is not None and isinstance(self.tool_choice, str) and (self.tool_choice == "none"))
        or self.stop_token_ids is None
    ):
        found.append((_CHAT_COMPLETION_REQUEST["tools-exclude-stop-token-ids"], path))
    if not (
        self.tools is None
        or (self.tool_choice is not None and isinstance(self.tool_choice, str) and (self.tool_choice == "none"))
        or self.include_stop_str_in_output is None
        or (not self.include_stop_str_in_output)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["tools-exclude-include-stop-str"], path))
    if not (
        self.tools is None
        or (self.tool_choice is not None and isinstance(self.tool_choice, str) and (self.tool_choice == "none"))
        or self.n is None
        or (self.n <= 1)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["tools-exclude-n"], path))
    if not (
        self.tools is None
        or (self.tool_choice is not None and isinstance(self.tool_choice, str) and (self.tool_choice == "none"))
        or self.best_of is None
        or (self.best_of <= 1)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["tools-exclude-best-of"], path))
    if not (
        self.tools is None
        or (self.tool_choice is not None and isinstance(self.tool_choice, str) and (self.tool_choice == "none"))
        or self.use_beam_search is None
        or (not self.use_beam_search)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["tools-exclude-beams"], path))
    if not (
        self.tools is None
        or (self.tool_choice is not None and isinstance(self.tool_choice, str) and (self.tool_choice == "none"))
        or self.logprobs is None
        or (not self.logprobs)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["tools-exclude-logprobs"], path))
    if not (
        self.max_tokens is None or self.max_completion_tokens is None or self.max_tokens == self.max_completion_tokens
    ):
        found.append((_CHAT_COMPLETION_REQUEST["max-tokens-agree"], path))
    if not ("prefix_cache" not in server.features or self.logprobs is None or (not self.logprobs)):
        found.append((_CHAT_COMPLETION_REQUEST["prefix-cache-excludes-logprobs"], path))
    if not ("splitfuse" not in server.features or self.logprobs is None or (not self.logprobs)):
        found.append((_CHAT_COMPLETION_REQUEST["splitfuse-excludes-logprobs"], path))
    if not ("parallel_decoding" not in server.features or self.n is None or self.n <= 1):
        found.append((_CHAT_COMPLETION_REQUEST["parallel-decoding-excludes-n"], path))
    if not ("parallel_decoding" not in server.features or self.best_of is None or self.best_of <= 1):
        found.append((_CHAT_COMPLETION_REQUEST["parallel-decoding-excludes-best-of"], path))
    if not ("parallel_decoding" not in server.features or self.use_beam_search is None or (not self.use_beam_search)):
        found.append((_CHAT_COMPLETION_REQUEST["parallel-decoding-excludes-beams"], path))
    if not ("parallel_decoding" not in server.features or self.logprobs is None or (not self.logprobs)):
        found.append((_CHAT_COMPLETION_REQUEST["parallel-decoding-excludes-logprobs"], path))
    if not ("mtp" not in server.features or self.n is None or self.n <= 1):
        found.append((_CHAT_COMPLETION_REQUEST["mtp-excludes-n"], path))
    if not ("mtp" not in server.features or self.best_of is None or self.best_of <= 1):
        found.append((_CHAT_COMPLETION_REQUEST["mtp-excludes-best-of"], path))
    if not ("mtp" not in server.features or self.use_beam_search is None or (not self.use_beam_search)):
        found.append((_CHAT_COMPLETION_REQUEST["mtp-excludes-beams"], path))
    if not ("mtp" not in server.features or self.response_format is None or self.response_format.type == "text"):
        found.append((_CHAT_COMPLETION_REQUEST["mtp-excludes-response-format"], path))
    if not (server.model_type != "deepseek" or self.n is None or self.n <= 1):
        found.append((_CHAT_COMPLETION_REQUEST["deepseek-excludes-n"], path))
    if not (server.model_type != "deepseek" or self.best_of is None or self.best_of <= 1):
        found.append((_CHAT_COMPLETION_REQUEST["deepseek-excludes-best-of"], path))
    if not (server.model_type != "deepseek" or self.use_beam_search is None or (not self.use_beam_search)):
        found.append((_CHAT_COMPLETION_REQUEST["deepseek-excludes-beams"], path))
    if not ("pd" not in server.features or self.n is None or self.n <= 1):
        found.append((_CHAT_COMPLETION_REQUEST["pd-excludes-n"], path))
    if not ("pd" not in server.features or self.best_of is None or self.best_of <= 1):
        found.append((_CHAT_COMPLETION_REQUEST["pd-excludes-best-of"], path))
    if not ("pd" not in server.features or self.use_beam_search is None or (not self.use_beam_search)):
        found.append((_CHAT_COMPLETION_REQUEST["pd-excludes-beams"], path))
    if not ("pd" not in server.features or self.logprobs is None or (not self.logprobs)):
        found.append((_CHAT_COMPLETION_REQUEST["pd-excludes-logprobs"], path))
    if not ("pd" not in server.features or self.stop is None):
        found.append((_CHAT_COMPLETION_REQUEST["pd-excludes-stop"], path))
    if not ("pd" not in server.features or self.stop_token_ids is None):
        found.append((_CHAT_COMPLETION_REQUEST["pd-excludes-stop-token-ids"], path))
    if not (
        "pd" not in server.features or self.include_stop_str_in_output is None or (not self.include_stop_str_in_output)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["pd-excludes-include-stop-str"], path))
    if not ("reasoning" not in server.features or self.stop is None):
        found.append((_CHAT_COMPLETION_REQUEST["reasoning-excludes-stop"], path))
    if not (
        "reasoning" not in server.features
        or self.include_stop_str_in_output is None
        or (not self.include_stop_str_in_output)
    ):
        found.append((_CHAT_COMPLETION_REQUEST["reasoning-excludes-include-stop-str"], path))


def check_completion_request(self: Any, path: Path, server: Deployment, found: Found) -> None:
    """CompletionRequest: its members' rules, then its own 25, as the spec lists them."""
    if self.response_format is not None:
        check_response_format(self.response_format, (*path, "response_format"), server, found)
    if not (
        self.use_beam_search is not None
        and self.use_beam_search
        or (self.stream is not None and self.stream)
        or self.n is None
        or (self.best_of is None)
        or (self.best_of >= self.n)
    ):
        found.append((_COMPLETION_REQUEST["best-of-at-least-n"], path))
    if not (
        self.use_beam_search is not None
        and self.use_beam_search
        or self.stream is None
        or (not self.stream)
        or (self.best_of is None)
        or (self.n is not None and self.best_of == self.n)
    ):
        found.append((_COMPLETION_REQUEST["stream-best-of-equals-n"], path))
    if not (
        self.use_beam_search is not None
        and self.use_beam_search
        or self.n is None
        or self.n <= 1
        or (self.temperature is None)
        or (self.temperature > 0.0)
    ):
        found.append((_COMPLETION_REQUEST["n-needs-temperature"], path))
    if not (
        self.use_beam_search is not None
        and self.use_beam_search
        or self.best_of is None
        or self.best_of <= 1
        or (self.temperature is None)
        or (self.temperature > 0.0)
    ):
        found.append((_COMPLETION_REQUEST["best-of-needs-temperature"], path))
    if not (self.use_beam_search is None or not self.use_beam_search or self.stop is None):
        found.append((_COMPLETION_REQUEST["beam-excludes-stop"], path))
    if not (self.stop is None or isinstance(self.stop, str) or sum([len(s) for s in self.stop]) <= 32768):
        found.append((_COMPLETION_REQUEST["stop-total-length"], path))
    if not ("prefix_cache" not in server.features or self.logprobs is None):
        found.append((_COMPLETION_REQUEST["prefix-cache-excludes-logprobs"], path))
    if not ("splitfuse" not in server.features or self.logprobs is None):
        found.append((_COMPLETION_REQUEST["splitfuse-excludes-logprobs"], path))
    if not ("parallel_decoding" not in server.features or self.n is None or self.n <= 1):
        found.append((_COMPLETION_REQUEST["parallel-decoding-excludes-n"], path))
    if not ("parallel_decoding" not in server.features or self.best_of is None or self.best_of <= 1):
        found.append((_COMPLETION_REQUEST["parallel-decoding-excludes-best-of"], path))
    if not ("parallel_decoding" not in server.features or self.use_beam_search is None or (not self.use_beam_search)):
        found.append((_COMPLETION_REQUEST["parallel-decoding-excludes-beams"], path))
    if not ("parallel_decoding" not in server.features or self.logprobs is None):
        found.append((_COMPLETION_REQUEST["parallel-decoding-excludes-logprobs"], path))
    if not ("mtp" not in server.features or self.n is None or self.n <= 1):
        found.append((_COMPLETION_REQUEST["mtp-excludes-n"], path))
    if not ("mtp" not in server.features or self.best_of is None or self.best_of <= 1):
        found.append((_COMPLETION_REQUEST["mtp-excludes-best-of"], path))
    if not ("mtp" not in server.features or self.use_beam_search is None or (not self.use_beam_search)):
        found.append((_COMPLETION_REQUEST["mtp-excludes-beams"], path))
    if not ("mtp" not in server.features or self.response_format is None or self.response_format.type == "text"):
        found.append((_COMPLETION_REQUEST["mtp-excludes-response-format"], path))
    if not (server.model_type != "deepseek" or self.n is None or self.n <= 1):
        found.append((_COMPLETION_REQUEST["deepseek-excludes-n"], path))
    if not (server.model_type != "deepseek" or self.best_of is None or self.best_of <= 1):
        found.append((_COMPLETION_REQUEST["deepseek-excludes-best-of"], path))
    if not (server.model_type != "deepseek" or self.use_beam_search is None or (not self.use_beam_search)):
        found.append((_COMPLETION_REQUEST["deepseek-excludes-beams"], path))
    if not ("pd" not in server.features or self.n is None or self.n <= 1):
        found.append((_COMPLETION_REQUEST["pd-excludes-n"], path))
    if not ("pd" not in server.features or self.best_of is None or self.best_of <= 1):
        found.append((_COMPLETION_REQUEST["pd-excludes-best-of"], path))
    if not ("pd" not in server.features or self.use_beam_search is None or (not self.use_beam_search)):
        found.append((_COMPLETION_REQUEST["pd-excludes-beams"], path))
    if not ("pd" not in server.features or self.logprobs is None):
        found.append((_COMPLETION_REQUEST["pd-excludes-logprobs"], path))
    if not ("reasoning" not in server.features or self.stop is None):
        found.append((_COMPLETION_REQUEST["reasoning-excludes-stop"], path))
    if not (
        "reasoning" not in server.features
        or self.include_stop_str_in_output is None
        or (not self.include_stop_str_in_output)
    ):
        found.append((_COMPLETION_REQUEST["reasoning-excludes-include-stop-str"], path))


def normalise_chat_completion_request(self: Any, server: Deployment) -> None:
    """ChatCompletionRequest: what the spec's x-normalize lists, in its order, in place."""
    if self.stop is not None and self.stop in ("", []):
        self.stop = None
    if self.stop_token_ids is not None and not all(-2147483648 <= value <= 2147483647 for value in self.stop_token_ids):
        self.stop_token_ids = [value for value in self.stop_token_ids if -2147483648 <= value <= 2147483647]
    if self.stop_token_ids is not None and self.stop_token_ids in ("", []):
        self.stop_token_ids = None
    if self.tools is not None and self.tools in ("", []):
        self.tools = None
    if self.top_logprobs is not None and self.logprobs is None:
        self.logprobs = True


def normalise_completion_request(self: Any, server: Deployment) -> None:
    """CompletionRequest: what the spec's x-normalize lists, in its order, in place."""
    if self.stop is not None and self.stop in ("", []):
        self.stop = None
    if self.stop_token_ids is not None and not all(-2147483648 <= value <= 2147483647 for value in self.stop_token_ids):
        self.stop_token_ids = [value for value in self.stop_token_ids if -2147483648 <= value <= 2147483647]
    if self.stop_token_ids is not None and self.stop_token_ids in ("", []):
        self.stop_token_ids = None


Check = Callable[[Any, Path, Deployment, Found], None]
CHECKS: Final[dict[str, Check]] = {
    "ResponseFormat": check_response_format,
    "ContentPart": check_content_part,
    "Message": check_message,
    "ChatTemplateKwargs": check_chat_template_kwargs,
    "ChatCompletionRequest": check_chat_completion_request,
    "CompletionRequest": check_completion_request,
}
NORMALISERS: Final[dict[str, Callable[[Any, Deployment], None]]] = {
    "ChatCompletionRequest": normalise_chat_completion_request,
    "CompletionRequest": normalise_completion_request,
}
