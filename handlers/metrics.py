"""GET /metrics: what the server did and the state of its engine, in Prometheus' text form; no part of the contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.front import State
from engine.stats import MediaStats
from engine.tally import Tally
from handlers.errors import Problem
from handlers.log_settings import log_lines_lost
from handlers.planes import offers
from handlers.record import record_of
from handlers.service import Service

PATH: Final = "/metrics"

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_STATES: Final[tuple[State, ...]] = get_args(State)
_MODEL: Final = ("model_name",)
_VLLM: Final = "vllm:"


class MetricsMiddleware:
    """Answers GET /metrics itself."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_State(service))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request for the metrics; all others pass untouched."""
        if scope["type"] == "http" and scope["path"] == PATH and offers(scope, "metrics"):
            await self._answer(scope)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        if scope["method"] != "GET":
            problem = Problem(405, "method_not_allowed", "This path takes GET only", headers={"Allow": "GET"})
            record_of(scope).problem = problem
            return problem.response(openai_form=self._service.openai_form)
        return Response(generate_latest(self._registry), headers={"Content-Type": _TEXT})


class _State(Collector):
    """Reads everything at the time of the question: nothing has to be kept up to date for it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        service = self._service
        yield from mindie_metrics(service)
        if service.settings.metrics_vllm:
            yield from vllm_metrics(service)
        yield from own_metrics(service)


def mindie_metrics(service: Service) -> Iterator[Metric]:
    """Under MindIE's names, with its one label."""
    front, traffic = service.front, service.traffic
    counts, executor, observed = front.counts, front.engine_stats.executor, front.observed
    named = _Named(service.settings.model_name)
    yield named.counter("request_received", "Inference requests that came.", traffic.received)
    yield named.counter("request_success", "Those of them that were answered whole.", traffic.succeeded)
    yield named.counter("request_failed", "Those that were refused, failed, or given up by the client.", traffic.failed)
    yield named.gauge("failed_request_perc", "Failed requests as a part of all, 1 for all.", traffic.failed_part)
    yield named.counter(
        "num_preemptions",
        "Sequences that gave up their memory and were computed again.",
        counts.preemptions + executor.preemptions,
    )
    yield named.counter("prompt_tokens", "Prompt tokens of requests that were begun.", counts.prompt_tokens)
    yield named.counter("generation_tokens", "Tokens in answers.", counts.generated_tokens)

    waiting = front.waiting
    yield named.gauge("num_requests_running", "Requests that the engine has begun.", front.running - waiting)
    yield named.gauge("num_requests_waiting", "Requests that wait to be worked on.", service.waiting)
    yield named.gauge("num_requests_swapped", "Always 0: what gives up its memory is computed again.", 0)
    prompt_rate, generated_rate = traffic.tokens_per_s
    yield named.gauge("avg_prompt_throughput_toks_per_s", "Prompt tokens a second in the last minute.", prompt_rate)
    yield named.gauge(
        "avg_generation_throughput_toks_per_s", "Generated tokens a second in the last minute.", generated_rate
    )
    memory = executor.memory
    used = memory.pages_used / memory.pages_total if memory is not None and memory.pages_total else 0.0
    asked, hits = (0, 0) if memory is None else (memory.prefix_query_tokens, memory.prefix_hit_tokens)
    yield named.gauge("npu_cache_usage_perc", "Pages of keys and values that sequences own, 1 for all.", used)
    yield named.gauge("cpu_cache_usage_perc", "Always 0: there is no second memory.", 0)
    yield named.gauge(
        "npu_prefix_cache_hit_rate", "Of the tokens looked up, the part in the cache.", hits / asked if asked else 0.0
    )
    yield named.gauge("all_radix_match_num", "Tokens looked up in the prefix cache since the engine's start.", asked)
    yield named.gauge("npu_radix_match_hit_num", "Those of them that it held.", hits)

    yield named.histogram("time_to_first_token_seconds", "From a request's coming to its first token.", traffic.ttft_s)
    yield named.histogram("time_per_output_token_seconds", "Between two tokens of a choice.", observed.gaps_s)
    yield named.histogram(
        "e2e_request_latency_seconds", "From a request's coming to the end of its whole answer.", traffic.latency_s
    )
    yield named.histogram("request_prompt_tokens", "Prompt tokens of a request that was begun.", observed.prompt_tokens)
    yield named.histogram(
        "request_generation_tokens", "Tokens of all choices of a request that was begun.", observed.generated_tokens
    )


def vllm_metrics(service: Service) -> Iterator[Metric]:
    """What vLLM has a name for, under that name, in the buckets of MindIE's."""
    front, traffic = service.front, service.traffic
    counts, executor, observed = front.counts, front.engine_stats.executor, front.observed
    named = _Named(service.settings.model_name, _VLLM)
    waiting = front.waiting
    yield named.gauge("num_requests_running", "See num_requests_running.", front.running - waiting)
    yield named.gauge("num_requests_waiting", "See num_requests_waiting.", service.waiting)
    memory = executor.memory
    used = memory.pages_used / memory.pages_total if memory is not None and memory.pages_total else 0.0
    yield named.gauge("kv_cache_usage_perc", "See npu_cache_usage_perc.", used)
    asked, hits = (0, 0) if memory is None else (memory.prefix_query_tokens, memory.prefix_hit_tokens)
    yield named.counter("prefix_cache_queries", "See all_radix_match_num.", asked)
    yield named.counter("prefix_cache_hits", "See npu_radix_match_hit_num.", hits)
    preemptions = counts.preemptions + executor.preemptions
    yield named.counter("num_preemptions", "See num_preemptions_total.", preemptions)
    yield named.counter("prompt_tokens", "See prompt_tokens_total.", counts.prompt_tokens)
    yield named.counter("generation_tokens", "See generation_tokens_total.", counts.generated_tokens)
    yield named.labelled(
        "request_success",
        "Requests answered whole, by why their first choice ended.",
        "finished_reason",
        sorted(traffic.reasons.items()),
    )
    yield named.histogram("time_to_first_token_seconds", "See time_to_first_token_seconds.", traffic.ttft_s)
    yield named.histogram("inter_token_latency_seconds", "See time_per_output_token_seconds.", observed.gaps_s)
    yield named.histogram("time_per_output_token_seconds", "See time_per_output_token_seconds.", observed.gaps_s)
    yield named.histogram("e2e_request_latency_seconds", "See e2e_request_latency_seconds.", traffic.latency_s)
    yield named.histogram("request_prompt_tokens", "See request_prompt_tokens.", observed.prompt_tokens)
    yield named.histogram("request_generation_tokens", "See request_generation_tokens.", observed.generated_tokens)


def _encoder_metrics(media: MediaStats) -> Iterator[Metric]:
    yield _counter("media_encoded", "Media that an encoder made embeddings of.", media.encoded_items)
    yield _counter("media_reused", "Media of requests whose embeddings were kept from earlier ones.", media.kept_items)
    yield _counter("encoder_seconds", "That encoders had between steps.", media.turns_us / 1e6)
    yield _gauge("media_embedding_bytes", "Of embeddings that are kept.", media.embedding_bytes)


def own_metrics(service: Service) -> Iterator[Metric]:
    """What MindIE has no name for."""
    front = service.front
    executor = front.engine_stats.executor
    named = _Named(service.settings.model_name, "mindspec_")
    answered = CounterMetricFamily(
        "mindspec_requests", "Answers by endpoint and status.", labels=("endpoint", "status")
    )
    for (endpoint, status), count in sorted(service.traffic.answers.items()):
        answered.add_metric((endpoint, str(status)), count)
    yield answered
    state = GaugeMetricFamily("mindspec_engine_state", "1 for the state that the engine is in.", labels=("state",))
    for name in _STATES:
        state.add_metric((name,), front.state == name)
    yield state
    yield _gauge("sequences_running", "Sequences in the batch.", executor.running)
    yield _gauge("sequences_waiting", "Admitted sequences that are not in the batch.", executor.waiting)
    yield _counter("engine_restarts", "Times that the engine was started again.", front.counts.engine_restarts)
    yield _counter(
        "draft_tokens", "Tokens that were guessed and run, since the engine's start.", executor.drafted_tokens
    )
    yield _counter(
        "draft_tokens_accepted",
        "Those of them that were drawn, since the engine's start.",
        executor.accepted_tokens,
    )
    if front.info is not None and front.info.media_tokens:
        taken = CounterMetricFamily("mindspec_media", "Media made ready for the engine.", labels=("kind",))
        for kind, _ in front.info.media_tokens:
            taken.add_metric((kind,), service.traffic.media[kind])
        yield taken
        yield named.histogram(
            "media_seconds", "What reading and decoding the media of a request took.", service.traffic.media_s
        )
    if executor.media is not None:
        yield from _encoder_metrics(executor.media)
    yield _counter("log_lines_lost", "Log lines that could not be written.", log_lines_lost())
    if service.tls.planes:
        ends = GaugeMetricFamily(
            "mindspec_tls_certificate_end_seconds",
            "When the certificate of a plane ends, in seconds since 1970.",
            labels=("plane",),
        )
        for plane, tls in service.tls.planes.items():
            ends.add_metric((plane,), tls.cert_until.timestamp())
        yield ends
    memory = executor.memory
    if memory is None:  # an engine that is not there, or keeps no pages
        return
    yield _gauge("pages_in_use", "Pages of keys and values that running sequences own.", memory.pages_used)
    yield _gauge("pages_cached", "Pages of no sequence, kept for prompts that begin alike.", memory.pages_cached)
    yield _gauge("pages_total", "All pages.", memory.pages_total)


class _Named:
    """Makes metrics with the model's name as their label."""

    def __init__(self, model_name: str, prefix: str = "") -> None:
        self._values = (model_name,)
        self._prefix = prefix

    def counter(self, name: str, meaning: str, value: float) -> Metric:
        made = CounterMetricFamily(self._prefix + name, meaning, labels=_MODEL)
        made.add_metric(self._values, value)
        return made

    def gauge(self, name: str, meaning: str, value: float) -> Metric:
        made = GaugeMetricFamily(self._prefix + name, meaning, labels=_MODEL)
        made.add_metric(self._values, value)
        return made

    def labelled(self, name: str, meaning: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
        made = CounterMetricFamily(self._prefix + name, meaning, labels=(*_MODEL, label))
        for text, value in values:
            made.add_metric((*self._values, text), value)
        return made

    def histogram(self, name: str, meaning: str, tally: Tally) -> Metric:
        ends = [*(f"{bound:g}" for bound in tally.bounds), "+Inf"]
        made = HistogramMetricFamily(self._prefix + name, meaning, labels=_MODEL)
        made.add_metric(self._values, list(zip(ends, tally.cumulative, strict=True)), tally.total)
        return made


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"mindspec_{name}", meaning, value)


def _counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(f"mindspec_{name}", meaning, value)
