"""GET /metrics: what the server did and the state of its engine, in Prometheus' text form; no part of the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.front import State
from handlers.errors import Problem
from handlers.planes import offers
from handlers.service import Service

PATH: Final = "/metrics"

CLIENT_GONE: Final = 499
"""Counted where a client hung up before there was a status; the number is the one that nginx logs then."""

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_STATES: Final[tuple[State, ...]] = get_args(State)
_OTHER: Final = "other"
_ANSWER_LABELS: Final = ("endpoint", "status")


class MetricsMiddleware:
    """The outermost layer: counts every answer by its endpoint and status, and answers GET /metrics itself.

    Endpoints are the paths of the contract, so that a client cannot make up new ones; all others count as "other".
    """

    def __init__(self, app: ASGIApp, *, service: Service, paths: Iterable[str]) -> None:
        """``paths`` are those of the contract, with their parameters in braces at the end."""
        self._app = app
        self._openai_form = service.openai_form
        self._exact = {path: path for path in paths}
        self._prefixes = [(path.partition("{")[0], path) for path in self._exact if "{" in path]
        self._answers: Counter[tuple[str, int]] = Counter()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_State(service, self._answers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or count one request; other scope types pass untouched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] == PATH and offers(scope, "metrics"):
            await self._answer(scope["method"])(scope, receive, send)
            return
        status = CLIENT_GONE

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            self._answers[self._endpoint(scope["path"]), status] += 1

    def _answer(self, method: str) -> Response:
        if method != "GET":
            problem = Problem(
                405, "method_not_allowed", "This path does not take this method", headers={"Allow": "GET"}
            )
            return problem.response(openai_form=self._openai_form)
        return Response(generate_latest(self._registry), headers={"Content-Type": _TEXT})

    def _endpoint(self, path: str) -> str:
        known = self._exact.get(path)
        if known is not None:
            return known
        return next((template for prefix, template in self._prefixes if path.startswith(prefix)), _OTHER)


class _State(Collector):
    """Reads everything at the time of the question: nothing has to be kept up to date for it."""

    def __init__(self, service: Service, answers: Counter[tuple[str, int]]) -> None:
        self._service = service
        self._answers = answers

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        front = self._service.front
        stats, counts = front.engine_stats, front.counts
        executor = stats.executor
        answered = CounterMetricFamily("mindspec_requests", "Answers by endpoint and status.", labels=_ANSWER_LABELS)
        for (endpoint, status), count in sorted(self._answers.items()):
            answered.add_metric((endpoint, str(status)), count)
        yield answered
        state = GaugeMetricFamily("mindspec_engine_state", "1 for the state that the engine is in.", labels=("state",))
        for name in _STATES:
            state.add_metric((name,), front.state == name)
        yield state

        waiting = front.waiting
        yield _gauge("requests_running", "Requests that the engine has begun.", front.running - waiting)
        yield _gauge("requests_waiting", "Requests that wait for a place or for memory.", waiting)
        yield _gauge("sequences_running", "Sequences in the batch.", executor.running)
        yield _gauge("sequences_waiting", "Admitted sequences that are not in the batch.", executor.waiting)
        yield _counter("prompt_tokens", "Prompt tokens of requests that were begun.", counts.prompt_tokens)
        yield _counter("generated_tokens", "Tokens in answers.", counts.generated_tokens)
        yield _counter("engine_restarts", "Times that the engine was started again.", counts.engine_restarts)
        yield _counter(
            "preemptions", "Sequences that gave up their memory, since the engine's start.", executor.preemptions
        )
        yield _counter(
            "draft_tokens", "Tokens that were guessed and run, since the engine's start.", executor.drafted_tokens
        )
        yield _counter(
            "draft_tokens_accepted",
            "Those of them that were drawn, since the engine's start.",
            executor.accepted_tokens,
        )
        memory = executor.memory
        if memory is None:  # an engine that is not there, or keeps no pages
            return
        yield _gauge("pages_in_use", "Pages of keys and values that running sequences own.", memory.pages_used)
        yield _gauge("pages_cached", "Pages of no sequence, kept for prompts that begin alike.", memory.pages_cached)
        yield _gauge("pages_total", "All pages.", memory.pages_total)
        yield _counter(
            "prefix_query_tokens",
            "Tokens looked up in the cache, since the engine's start.",
            memory.prefix_query_tokens,
        )
        yield _counter(
            "prefix_hit_tokens", "Those of them that it held, since the engine's start.", memory.prefix_hit_tokens
        )


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"mindspec_{name}", meaning, value)


def _counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(f"mindspec_{name}", meaning, value)
