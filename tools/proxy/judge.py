"""The process that judges what passes the proxy: frames on standard input, lines of breaches out."""

from __future__ import annotations

import argparse
import contextlib
import sys
import traceback
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from generated.rules import Deployment
from tools.laws.answers import Answers
from tools.laws.requests import Limits, Requests
from tools.proxy.exchange import Bench, Exchange
from tools.proxy.frames import Frame, Kind, read_frame, unpack_head
from tools.proxy.report import Report

MAX_PIPELINED: Final = 64
"""Requests of a connection that wait for their answers; where there are more, it is not judged any further."""


class Judge:
    """Follows all connections."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._links: dict[int, deque[Exchange]] = {}
        """Exchanges that are not over, by connection; the last is the one whose request comes, or came last."""
        self._left: set[int] = set()
        """Connections that are not judged any further."""

    def take(self, frame: Frame) -> None:
        """Judge the next frame."""
        link, time_s = frame.link, frame.time_s
        if frame.kind in (Kind.SERVER_CLOSED, Kind.CLIENT_CLOSED, Kind.UNREACHABLE):
            self._over(frame)
        elif link in self._left:
            return
        elif frame.kind is Kind.REQUEST:
            exchanges = self._links.setdefault(link, deque())
            if len(exchanges) >= MAX_PIPELINED:
                self.leave(link, "too many requests at once")
                return
            exchanges.append(Exchange(self._bench, *unpack_head(frame.payload)))
        elif frame.kind is Kind.RAW:
            self.leave(link, "another protocol")
        elif frame.kind is Kind.SKIPPED:
            self.leave(link, "too much to judge")
        elif frame.kind is Kind.ANSWER:
            self._answer(link, frame.payload, time_s)
        elif self._links.get(link):
            exchange = self._links[link][-1]
            if frame.kind is Kind.BODY:
                exchange.body(frame.payload)
            else:
                exchange.end(time_s)
                self._tidy(link)

    def _answer(self, link: int, data: bytes, time_s: float) -> None:
        exchanges = self._links.get(link, deque())
        while data:
            waiting = next((exchange for exchange in exchanges if not exchange.answered), None)
            if waiting is None:
                self.leave(link, "bytes that belong to no request")
                return
            data = waiting.take(data, time_s)
        self._tidy(link)

    def _tidy(self, link: int) -> None:
        exchanges = self._links.get(link, deque())
        while exchanges and exchanges[0].answered and exchanges[0].asked_whole:
            exchanges.popleft()

    def _over(self, frame: Frame) -> None:
        self._left.discard(frame.link)
        exchanges = self._links.pop(frame.link, deque())
        if frame.kind is Kind.UNREACHABLE:
            self._bench.report.counts["requests that did not reach the server"] += 1
        elif frame.kind is Kind.SERVER_CLOSED:
            for exchange in exchanges:
                exchange.server_closed(frame.time_s)
        for exchange in exchanges:
            exchange.leave()

    def leave(self, link: int, reason: str) -> None:
        """Judge a connection no further, and count why."""
        self._left.add(link)
        for exchange in self._links.pop(link, deque()):
            exchange.leave()
        self._bench.report.counts[f"connections left: {reason}"] += 1


def main(arguments: Sequence[str]) -> int:
    """Judge until standard input ends; the exit code is 1 where there was a breach."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--features", default="")
    parser.add_argument("--model-type", default="")
    parser.add_argument("--openai-form", action="store_true")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--report", type=Path)
    given = parser.parse_args(arguments)
    features = frozenset(name for name in given.features.split(",") if name)
    deployment = Deployment(features=features, model_type=given.model_type, openai_form=given.openai_form)
    with contextlib.ExitStack() as stack:
        sink = sys.stdout if given.report is None else stack.enter_context(given.report.open("w", encoding="utf-8"))
        report = Report(sink, given.format)
        judge_all(sys.stdin.buffer, report, deployment)
    return 1 if report.found else 0


def judge_all(source: BinaryIO, report: Report, deployment: Deployment) -> None:
    """Judge frames until there are no more, and write the counts."""
    limits = Limits()
    judge = Judge(Bench(Requests(deployment, limits), Answers(), report, limits))
    while (frame := read_frame(source)) is not None:
        try:
            judge.take(frame)
        except Exception:  # a fault of the judge's own stops no proxy
            traceback.print_exc()
            judge.leave(frame.link, "the judge failed")
    report.finish()
