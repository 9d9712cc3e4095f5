"""Rows on what tools in use exclude, and on the values and choices that are no use."""

from __future__ import annotations

from typing import Any

from hand.tools import WEATHER
from wire import Row, bad, chat, ok

STOP_IDS = "stop_token_ids"
INCLUDE = "include_stop_str_in_output"


def using(**fields: Any) -> dict[str, Any]:
    """A change that offers a tool, and sets these fields."""
    return {"tools": [WEATHER], **fields}


def unused(**fields: Any) -> dict[str, Any]:
    """The same with tool_choice none: the tools are not in use."""
    return {"tools": [WEATHER], "tool_choice": "none", **fields}


NAMED = {"type": "function", "function": {"name": "get_weather"}}

REFUSED: list[Row] = [
    chat("tools-with-stop", using(stop="x"), bad(("stop", "tools"), "tools-exclude-stop")),
    chat("tools-with-stop-list", using(stop=["x", "y"]), bad(("stop", "tools"), "tools-exclude-stop")),
    chat("tools-with-stop-ids", using(stop_token_ids=[2]), bad((STOP_IDS, "tools"), "tools-exclude-stop-token-ids")),
    chat(
        "tools-with-include-stop-alone",
        using(include_stop_str_in_output=True),
        bad((INCLUDE, "tools"), "tools-exclude-include-stop-str"),
    ),
    chat("tools-with-n", using(n=2), bad(("n", "tools"), "tools-exclude-n")),
    chat("tools-with-best-of", using(best_of=2), bad(("best_of", "tools"), "tools-exclude-best-of")),
    chat("tools-with-beams", using(use_beam_search=True), bad(("use_beam_search", "tools"), "tools-exclude-beams")),
    chat("tools-with-logprobs", using(logprobs=True), bad(("logprobs", "tools"), "tools-exclude-logprobs")),
    chat(
        "tools-with-top-logprobs",
        using(top_logprobs=3),
        bad(("logprobs", "top_logprobs", "tools"), "tools-exclude-logprobs"),
    ),
    chat(
        "tools-with-top-logprobs-zero",
        using(top_logprobs=0),
        bad(("logprobs", "top_logprobs", "tools"), "tools-exclude-logprobs"),
    ),
    chat("tools-auto-with-n", using(tool_choice="auto", n=2), bad(("n", "tools"), "tools-exclude-n")),
    chat("tools-null-choice-with-n", using(tool_choice=None, n=2), bad(("n", "tools"), "tools-exclude-n")),
    chat("tools-required-with-n", using(tool_choice="required", n=2), bad(("n", "tools"), "tools-exclude-n")),
    chat("tools-named-with-stop", using(tool_choice=NAMED, stop="x"), bad(("stop", "tools"), "tools-exclude-stop")),
    chat("tools-with-n-streamed", using(n=2, stream=True), bad(("n", "tools"), "tools-exclude-n")),
]

NO_USE: list[Row] = [
    chat("tools-with-stop-null", using(stop=None), ok()),
    chat("tools-with-stop-empty", using(stop=[]), ok()),
    chat("tools-with-stop-ids-null", using(stop_token_ids=None), ok()),
    chat("tools-with-stop-ids-empty", using(stop_token_ids=[]), ok()),
    chat("tools-with-include-stop-false", using(include_stop_str_in_output=False), ok()),
    chat("tools-with-include-stop-null", using(include_stop_str_in_output=None), ok()),
    chat("tools-with-n-one", using(n=1), ok()),
    chat("tools-with-n-null", using(n=None), ok()),
    chat("tools-with-best-of-one", using(best_of=1), ok()),
    chat("tools-with-best-of-null", using(best_of=None), ok()),
    chat("tools-with-n-and-best-of-one-streamed", using(n=1, best_of=1, stream=True), ok()),
    chat("tools-with-beams-false", using(use_beam_search=False), ok()),
    chat("tools-with-beams-null", using(use_beam_search=None), ok()),
    chat("tools-with-logprobs-false", using(logprobs=False), ok()),
    chat("tools-with-logprobs-null", using(logprobs=None), ok()),
    chat("tools-with-logprobs-false-and-top-zero", using(logprobs=False, top_logprobs=0), ok()),
    chat("tools-streamed", using(stream=True), ok()),
    chat("tools-with-sampling", using(temperature=0.5, top_k=5, top_p=0.9, seed=1), ok()),
    chat("tools-with-penalties", using(presence_penalty=1, frequency_penalty=1, repetition_penalty=1.1), ok()),
]

NOT_IN_USE: list[Row] = [
    chat("no-tools-stop", unused(stop="x"), ok()),
    chat("no-tools-stop-ids", unused(stop_token_ids=[2]), ok()),
    chat("no-tools-include-stop", unused(include_stop_str_in_output=True), ok()),
    chat("no-tools-n", unused(n=2), ok()),
    chat("no-tools-best-of", unused(best_of=2), ok()),
    chat("no-tools-beams", unused(use_beam_search=True), ok()),
    chat("no-tools-logprobs", unused(logprobs=True, top_logprobs=2), ok()),
    chat("empty-tools-stop", {"tools": [], "stop": "x"}, ok()),
    chat("empty-tools-n", {"tools": [], "n": 2}, ok()),
    chat("null-tools-logprobs", {"tools": None, "logprobs": True}, ok()),
]

RELAXED: list[Row] = [
    chat("relaxed-stop", using(stop="x"), ok(), relaxed_rules=("tools-exclude-stop",)),
    chat("relaxed-n", using(n=2), ok(), relaxed_rules=("tools-exclude-n",)),
    chat(
        "relaxed-n-only",
        using(best_of=2),
        bad(("best_of", "tools"), "tools-exclude-best-of"),
        relaxed_rules=("tools-exclude-n",),
    ),
]

ROWS: list[Row] = [*REFUSED, *NO_USE, *NOT_IN_USE, *RELAXED]
