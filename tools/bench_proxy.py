"""Measures what `mindspec proxy` costs before a paced mock, as ratios to the mock alone in the same run."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tools.load.client import Address, exchange
from tools.load.events import streamed_answer

ROOT: Final = Path(__file__).resolve().parent.parent
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
WORDS: Final = " the of and to in is that for it as was with be by on"
"""Each is one token of the mock."""
MAX_LOST_SHARE: Final = 0.03
"""Of the tokens a second."""
MAX_LATER_MS: Final = 5.0
"""Between two events, at the 99th percentile."""


@dataclass(slots=True)
class Side:
    """The rounds of one address."""

    rates: list[float] = field(default_factory=list)
    """Tokens a second of each round."""
    gaps_ms: list[float] = field(default_factory=list)
    """Between two events of one stream, of all rounds."""
    firsts_ms: list[float] = field(default_factory=list)
    """Until each stream's first token."""
    events: int = 0

    def percentile(self, percent: int) -> float:
        """Of the gaps, in milliseconds."""
        return statistics.quantiles(self.gaps_ms, n=100)[percent - 1]


@dataclass(frozen=True, slots=True)
class Figures:
    """What the proxy costs."""

    lost_share: float
    """Of the tokens a second; the median of pairs of neighbouring rounds."""
    later_ms: float
    """How much longer the 99th percentile of the gaps is."""
    later_first_ms: float
    """How much later the median first token comes."""
    cpu_us: float
    """Of the process that passes on, for each event."""
    judge_us: float
    """Of the process that judges."""

    @classmethod
    def of(cls, direct: Side, proxied: Side, cpu_s: float, judge_s: float) -> Figures:
        """From the rounds of both, which took turns, and the processor time of the proxied ones."""
        ratios = [through / own for own, through in zip(direct.rates, proxied.rates, strict=True)]
        return cls(
            1 - statistics.median(ratios),
            proxied.percentile(99) - direct.percentile(99),
            statistics.median(proxied.firsts_ms) - statistics.median(direct.firsts_ms),
            cpu_s * 1e6 / proxied.events,
            judge_s * 1e6 / proxied.events,
        )

    @property
    def good(self) -> bool:
        """Within what is aimed at."""
        return self.lost_share < MAX_LOST_SHARE and self.later_ms < MAX_LATER_MS


async def measure_round(address: Address, streams: int, tokens: int, side: Side) -> None:
    """One round: so many streams at once, of so many tokens each. Raises RuntimeError for one that fails."""
    body: dict[str, Any] = {
        "model": "mock",
        "prompt": "Hello",
        "max_tokens": tokens,
        "stream": True,
    }
    began_s = time.perf_counter()
    done = await asyncio.gather(
        *(exchange(address, "/v1/completions", {**body, "seed": seed}) for seed in range(1, streams + 1))
    )
    took_s = time.perf_counter() - began_s
    for one in done:
        answer = streamed_answer(one)
        if answer.failure is not None:
            raise RuntimeError(f"a stream failed: {answer.failure}")
        side.gaps_ms += [gap * 1000 for gap in answer.gaps_s]
        side.firsts_ms.append(answer.first_s * 1000)
        side.events += len(answer.times_s) + 1
    side.rates.append(streams * tokens / took_s)


@contextmanager
def running(*arguments: str) -> Iterator[tuple[int, Address]]:
    """A command of mindspec; its process id, and where it listens."""
    command = [sys.executable, "-m", "tools.cli", *arguments, "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.pid, Address.of(process.stdout.readline().split()[-1])
    finally:
        process.terminate()
        process.wait()


def script(folder: Path, tokens: int) -> str:
    """A script of the mock in which each token is a word, and so an event; returns its path."""
    path = folder / "words.json"
    path.write_text(json.dumps({"rules": [{"reply": {"content": WORDS, "tokens": tokens}}]}), encoding="utf-8")
    return str(path)


def cpu_s(pid: int) -> float:
    """Processor time of a process, in seconds."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS_PER_S


def child_of(pid: int) -> int:
    """The only child of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def measure(rounds: int, streams: int, tokens: int, pace_ms: float) -> Figures:
    """Rounds on the mock alone and through the proxy, in turns; the first of each is not counted."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running("mock", "--step-delay-ms", str(pace_ms), "--script", script(Path(folder), tokens)) as (_, mock),
        running("proxy", f"http://{mock.host}:{mock.port}") as (proxy_pid, proxy),
    ):
        judge_pid = child_of(proxy_pid)
        direct, proxied = Side(), Side()
        used_s = judged_s = 0.0
        for number in range(rounds + 1):
            if number == 1:
                direct, proxied, used_s, judged_s = Side(), Side(), 0.0, 0.0
            asyncio.run(measure_round(mock, streams, tokens, direct))
            before_s, judged_before_s = cpu_s(proxy_pid), cpu_s(judge_pid)
            asyncio.run(measure_round(proxy, streams, tokens, proxied))
            used_s += cpu_s(proxy_pid) - before_s
            judged_s += cpu_s(judge_pid) - judged_before_s
        for name, side in (("direct", direct), ("proxied", proxied)):
            rate = statistics.median(side.rates)
            gaps = f"gap p50 {side.percentile(50):6.2f} ms, p99 {side.percentile(99):6.2f} ms"
            first = f"first token {statistics.median(side.firsts_ms):6.1f} ms"
            print(f"{name:8} {rate:8.1f} tokens/s, {gaps}, {first}, {side.events} events")
        return Figures.of(direct, proxied, used_s, judged_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; the exit code is 1 where they are not within what is aimed at."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench_proxy", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="of each, after one that is not counted")
    parser.add_argument("--streams", type=int, default=16, help="at once")
    parser.add_argument("--tokens", type=int, default=120, help="of each stream")
    parser.add_argument("--pace-ms", type=float, default=20.0, help="a token")
    given = parser.parse_args(arguments)
    found = measure(given.rounds, given.streams, given.tokens, given.pace_ms)
    print(f"the proxy costs {found.lost_share:.2%} of tokens/s (below {MAX_LOST_SHARE:.0%} wanted),")
    print(
        f"{found.later_ms:.2f} ms an event at p99 (below {MAX_LATER_MS:g} ms wanted), {found.later_first_ms:.2f} ms to"
    )
    print(f"the first token; CPU an event: {found.cpu_us:.0f} us to pass it on, {found.judge_us:.0f} us to judge it")
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main())
