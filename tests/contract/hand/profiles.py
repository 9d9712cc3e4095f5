"""Rows on deployment profiles: what a MindIE with this feature or model refuses, and what it still serves."""

from __future__ import annotations

from typing import Any

from wire import Refused, Row, bad, both, chat, completions, ok

BEAMS: dict[str, Any] = {"use_beam_search": True}
INCLUDE: dict[str, Any] = {"include_stop_str_in_output": True}
LOGPROBS_PARAM = ("logprobs", "top_logprobs")


def excluded(rule: str, param: str | tuple[str, ...]) -> Refused:
    """The refusal by a profile's rule; the contract's plural headings leave "exclude" or "excludes" open."""
    return bad(param, (rule.replace("-exclude-", "-excludes-"), rule.replace("-excludes-", "-exclude-")))


PREFIX_CACHE = ("prefix_cache",)
SPLITFUSE = ("splitfuse",)
PARALLEL = ("parallel_decoding",)
MTP = ("mtp",)
DEEPSEEK = ("deepseek",)
PD = ("pd",)
REASONING = ("reasoning",)

CACHE_LOGPROBS = excluded("prefix-cache-excludes-logprobs", LOGPROBS_PARAM)
FUSE_LOGPROBS = excluded("splitfuse-excludes-logprobs", LOGPROBS_PARAM)

CACHE_AND_FUSE: list[Row] = [
    chat("cache-logprobs", {"logprobs": True}, CACHE_LOGPROBS, PREFIX_CACHE),
    chat("cache-top-logprobs", {"top_logprobs": 2}, CACHE_LOGPROBS, PREFIX_CACHE),
    chat("cache-logprobs-false", {"logprobs": False}, ok(), PREFIX_CACHE),
    chat("cache-logprobs-false-top-zero", {"logprobs": False, "top_logprobs": 0}, ok(), PREFIX_CACHE),
    chat("cache-logprobs-null", {"logprobs": None}, ok(), PREFIX_CACHE),
    completions("cache-logprobs", {"logprobs": 2}, CACHE_LOGPROBS, PREFIX_CACHE),
    completions("cache-logprobs-zero", {"logprobs": 0}, CACHE_LOGPROBS, PREFIX_CACHE),
    completions("cache-logprobs-null", {"logprobs": None}, ok(), PREFIX_CACHE),
    *both("cache-n", {"n": 2}, ok(), PREFIX_CACHE),
    *both("cache-beams", BEAMS, ok(), PREFIX_CACHE),
    *both("cache-stop", {"stop": "x"}, ok(), PREFIX_CACHE),
    chat("fuse-logprobs", {"logprobs": True}, FUSE_LOGPROBS, SPLITFUSE),
    chat("fuse-top-logprobs-zero", {"top_logprobs": 0}, FUSE_LOGPROBS, SPLITFUSE),
    chat("fuse-logprobs-false", {"logprobs": False}, ok(), SPLITFUSE),
    completions("fuse-logprobs", {"logprobs": 5}, FUSE_LOGPROBS, SPLITFUSE),
    completions("fuse-logprobs-zero", {"logprobs": 0}, FUSE_LOGPROBS, SPLITFUSE),
    *both("fuse-plain", {}, ok(), SPLITFUSE),
    *both("fuse-n", {"n": 2}, ok(), SPLITFUSE),
]

PARALLEL_LOGPROBS = excluded("parallel-decoding-excludes-logprobs", LOGPROBS_PARAM)

PARALLEL_DECODING: list[Row] = [
    *both("parallel-n", {"n": 2}, excluded("parallel-decoding-excludes-n", "n"), PARALLEL),
    *both("parallel-n-one", {"n": 1}, ok(), PARALLEL),
    *both("parallel-best-of", {"best_of": 2}, excluded("parallel-decoding-excludes-best-of", "best_of"), PARALLEL),
    *both("parallel-best-of-one", {"best_of": 1}, ok(), PARALLEL),
    *both("parallel-beams", BEAMS, excluded("parallel-decoding-excludes-beams", "use_beam_search"), PARALLEL),
    *both("parallel-beams-false", {"use_beam_search": False}, ok(), PARALLEL),
    chat(
        "parallel-logprobs",
        {"logprobs": True},
        excluded("parallel-decoding-excludes-logprobs", LOGPROBS_PARAM),
        PARALLEL,
    ),
    completions("parallel-logprobs", {"logprobs": 0}, PARALLEL_LOGPROBS, PARALLEL),
    *both("parallel-plain", {"temperature": 0.5}, ok(), PARALLEL),
    *both("parallel-stop", {"stop": "x"}, ok(), PARALLEL),
]

MTP_AND_DEEPSEEK: list[Row] = [
    *both("mtp-n", {"n": 2}, excluded("mtp-excludes-n", "n"), MTP),
    *both("mtp-n-one", {"n": 1}, ok(), MTP),
    *both("mtp-n-null", {"n": None}, ok(), MTP),
    *both("mtp-best-of", {"best_of": 2}, excluded("mtp-excludes-best-of", "best_of"), MTP),
    *both("mtp-best-of-one", {"best_of": 1}, ok(), MTP),
    *both("mtp-beams", BEAMS, excluded("mtp-excludes-beams", "use_beam_search"), MTP),
    *both("mtp-beams-null", {"use_beam_search": None}, ok(), MTP),
    chat("mtp-logprobs", {"logprobs": True}, ok(), MTP),
    completions("mtp-logprobs", {"logprobs": 2}, ok(), MTP),
    *both("deepseek-n", {"n": 2}, excluded("deepseek-excludes-n", "n"), DEEPSEEK),
    *both("deepseek-n-one", {"n": 1}, ok(), DEEPSEEK),
    *both("deepseek-best-of", {"best_of": 2}, excluded("deepseek-excludes-best-of", "best_of"), DEEPSEEK),
    *both("deepseek-best-of-one", {"best_of": 1}, ok(), DEEPSEEK),
    *both("deepseek-beams", BEAMS, excluded("deepseek-excludes-beams", "use_beam_search"), DEEPSEEK),
    chat("deepseek-logprobs", {"logprobs": True}, ok(), DEEPSEEK),
    completions("deepseek-logprobs", {"logprobs": 2}, ok(), DEEPSEEK),
    *both("deepseek-stop", {"stop": "x"}, ok(), DEEPSEEK),
]

PD_STOP = excluded("pd-excludes-stop", "stop")
PD_STOP_IDS = excluded("pd-excludes-stop-token-ids", "stop_token_ids")
PD_INCLUDE = excluded("pd-excludes-include-stop-str", "include_stop_str_in_output")
PD_LOGPROBS = excluded("pd-excludes-logprobs", LOGPROBS_PARAM)

PD_ROWS: list[Row] = [
    *both("pd-n", {"n": 2}, excluded("pd-excludes-n", "n"), PD),
    *both("pd-n-one", {"n": 1}, ok(), PD),
    *both("pd-best-of", {"best_of": 2}, excluded("pd-excludes-best-of", "best_of"), PD),
    *both("pd-best-of-one", {"best_of": 1}, ok(), PD),
    *both("pd-beams", BEAMS, excluded("pd-excludes-beams", "use_beam_search"), PD),
    chat("pd-logprobs", {"logprobs": True}, PD_LOGPROBS, PD),
    chat("pd-top-logprobs", {"top_logprobs": 1}, PD_LOGPROBS, PD),
    chat("pd-logprobs-false", {"logprobs": False}, ok(), PD),
    completions("pd-logprobs-zero", {"logprobs": 0}, PD_LOGPROBS, PD),
    chat("pd-stop", {"stop": "x"}, PD_STOP, PD),
    chat("pd-stop-list", {"stop": ["x"]}, PD_STOP, PD),
    chat("pd-stop-empty", {"stop": []}, ok(), PD),
    chat("pd-stop-ids", {"stop_token_ids": [2]}, PD_STOP_IDS, PD),
    chat("pd-stop-ids-empty", {"stop_token_ids": []}, ok(), PD),
    chat("pd-include-stop", INCLUDE, PD_INCLUDE, PD),
    chat("pd-include-stop-false", {"include_stop_str_in_output": False}, ok(), PD),
    completions("pd-stop", {"stop": "x"}, ok(), PD),
    completions("pd-stop-ids", {"stop_token_ids": [2]}, ok(), PD),
    completions("pd-include-stop", {"stop": "x", **INCLUDE}, ok(), PD),
]

REASONING_ROWS: list[Row] = [
    *both("reasoning-stop", {"stop": "x"}, excluded("reasoning-excludes-stop", "stop"), REASONING),
    *both("reasoning-stop-list", {"stop": ["x"]}, excluded("reasoning-excludes-stop", "stop"), REASONING),
    *both("reasoning-stop-empty", {"stop": []}, ok(), REASONING),
    *both("reasoning-stop-ids", {"stop_token_ids": [2]}, ok(), REASONING),
    *both(
        "reasoning-include-stop",
        INCLUDE,
        excluded("reasoning-excludes-include-stop-str", "include_stop_str_in_output"),
        REASONING,
    ),
    *both("reasoning-include-stop-false", {"include_stop_str_in_output": False}, ok(), REASONING),
    *both("reasoning-n", {"n": 2}, ok(), REASONING),
    *both("reasoning-plain", {}, ok(), REASONING),
]

TWO_FEATURES: list[Row] = [
    *both("mtp-and-reasoning-n", {"n": 2}, excluded("mtp-excludes-n", "n"), ("mtp", "reasoning")),
    *both(
        "mtp-and-reasoning-stop",
        {"stop": "x"},
        excluded("reasoning-excludes-stop", "stop"),
        ("mtp", "reasoning"),
    ),
    *both("prefix-cache-and-mtp-plain", {}, ok(), ("prefix_cache", "mtp")),
]

ROWS: list[Row] = [
    *CACHE_AND_FUSE,
    *PARALLEL_DECODING,
    *MTP_AND_DEEPSEEK,
    *PD_ROWS,
    *REASONING_ROWS,
    *TWO_FEATURES,
]
