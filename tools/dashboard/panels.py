"""The panels of the dashboard: what each shows, and its queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MODEL: Final = '{model_name=~"$model_name"}'
"""The selector of MindIE's names, by the dashboard's variable."""
WINDOW: Final = "$__rate_interval"


@dataclass(frozen=True, slots=True)
class Query:
    """One line of a panel."""

    expression: str
    """PromQL, with Grafana's variables."""
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph."""

    title: str
    unit: str
    """Grafana's name for it."""
    queries: tuple[Query, ...]


def _rate(name: str) -> str:
    return f"sum(rate({name}{MODEL}[{WINDOW}]))"


def _quantiles(name: str) -> tuple[Query, ...]:
    return tuple(
        Query(f"histogram_quantile({part}, sum by (le) (rate({name}_bucket{MODEL}[{WINDOW}])))", legend)
        for part, legend in ((0.5, "median"), (0.9, "90 %"), (0.99, "99 %"))
    )


PANELS: Final = (
    Panel(
        "Requests a second",
        "reqps",
        (
            Query(_rate("request_received_total"), "received"),
            Query(_rate("request_success_total"), "succeeded"),
            Query(_rate("request_failed_total"), "failed"),
        ),
    ),
    Panel(
        "Answers by status",
        "reqps",
        (Query(f"sum by (status) (rate(mindspec_requests_total[{WINDOW}]))", "{{status}}"),),
    ),
    Panel("Failed requests since the start", "percentunit", (Query(f"failed_request_perc{MODEL}", "failed"),)),
    Panel(
        "Requests in the engine",
        "short",
        (
            Query(f"num_requests_running{MODEL}", "running"),
            Query(f"num_requests_waiting{MODEL}", "waiting"),
            Query(f"num_requests_swapped{MODEL}", "swapped"),
        ),
    ),
    Panel(
        "Sequences in the batch",
        "short",
        (
            Query("mindspec_sequences_running", "running"),
            Query("mindspec_sequences_waiting", "waiting"),
            Query(_rate("num_preemptions_total"), "preemptions a second"),
        ),
    ),
    Panel(
        "Engine",
        "short",
        (Query("mindspec_engine_state", "{{state}}"), Query("mindspec_engine_restarts_total", "restarts")),
    ),
    Panel(
        "Tokens a second",
        "short",
        (
            Query(_rate("prompt_tokens_total"), "prompt"),
            Query(_rate("generation_tokens_total"), "generated"),
            Query(f"avg_prompt_throughput_toks_per_s{MODEL}", "prompt, last minute"),
            Query(f"avg_generation_throughput_toks_per_s{MODEL}", "generated, last minute"),
        ),
    ),
    Panel("Time to first token", "s", _quantiles("time_to_first_token_seconds")),
    Panel("Time between tokens", "s", _quantiles("time_per_output_token_seconds")),
    Panel("Time of whole answers", "s", _quantiles("e2e_request_latency_seconds")),
    Panel("Prompt tokens of a request", "short", _quantiles("request_prompt_tokens")),
    Panel("Generated tokens of a request", "short", _quantiles("request_generation_tokens")),
    Panel(
        "Memory for keys and values",
        "percentunit",
        (Query(f"npu_cache_usage_perc{MODEL}", "in use"), Query(f"cpu_cache_usage_perc{MODEL}", "second memory")),
    ),
    Panel(
        "Prefix cache",
        "percentunit",
        (Query(f"npu_prefix_cache_hit_rate{MODEL}", "hit rate since the engine's start"),),
    ),
    Panel(
        "Tokens looked up in the prefix cache",
        "short",
        (Query(f"all_radix_match_num{MODEL}", "looked up"), Query(f"npu_radix_match_hit_num{MODEL}", "found")),
    ),
    Panel("Media a second", "short", (Query(f"sum by (kind) (rate(mindspec_media_total[{WINDOW}]))", "{{kind}}"),)),
    Panel("Time to read the media of a request", "s", _quantiles("mindspec_media_seconds")),
    Panel("Log lines lost", "short", (Query("mindspec_log_lines_lost_total", "lost"),)),
)
