"""How far a server is from what the machine allows: its weights read once a step, its products at the measured peak."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.load.cases import Case
from tools.load.rounds import Turn

PEAK_BY: Final = "torch's bfloat16 product of 1024 x 1024 x 1024 on all cores"
"""What the peak is measured with."""
_BYTES: Final = {"F32": 4, "BF16": 2, "F16": 2, "I8": 1, "U8": 1}
_PROBE: Final = """
import sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
a, b = (torch.ones(1024, 1024, dtype=torch.bfloat16) for _ in range(2))
def once():
    begun = time.perf_counter()
    a @ b
    return time.perf_counter() - begun
print(2 * 1024**3 / min(once() for _ in range(40)) / 1e9)
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """A model's work and the machine's peak."""

    weight_bytes: int
    """Matrices that a step reads, the output layer among them."""
    weights: int
    """Their elements: each takes part in one multiplication and one addition a row."""
    output_weights: int
    """Those of the output layer, which a prompt needs for its last row only."""
    peak_gflop_s: float

    def step_ms(self, rows: int, memory_gb_s: float) -> float:
        """The least time of a decode step: the longer of reading the weights and of computing the products."""
        return max(self.weight_bytes / memory_gb_s, 2.0 * self.weights * rows / self.peak_gflop_s) / 1e6

    def prompt_ms(self, tokens: int, memory_gb_s: float) -> float:
        """The least time to a prompt's first token, attention left out."""
        products = 2.0 * ((self.weights - self.output_weights) * tokens + self.output_weights)
        return max(self.weight_bytes / memory_gb_s, products / self.peak_gflop_s) / 1e6


def limits_of(folder: Path) -> Limits | None:
    """Those of the model in a folder of safetensors files; None where there are none. It measures for 1 to 3 s."""
    shapes = [found for file in sorted(folder.glob("*.safetensors")) for found in _matrices(file)]
    heads = [found for found in shapes if "lm_head" in found[0]]
    inputs = [found for found in shapes if "embed" in found[0]]
    # Of a table of embeddings that is not the output layer as well, a step reads only its rows' lines.
    read = [found for found in shapes if not (heads and found in inputs)]
    if not read:
        return None
    return Limits(
        weight_bytes=sum(count * size for _, count, size in read),
        weights=sum(count for _, count, _ in read),
        output_weights=sum(count for _, count, _ in heads or inputs),
        peak_gflop_s=peak_gflop_s(),
    )


def peak_gflop_s() -> float:
    """Products of bfloat16 matrices, in a process of its own: torch's threads shall not stay beside the load."""
    command = [sys.executable, "-c", _PROBE, str(len(os.sched_getaffinity(0)))]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)


def limit_line(limits: Limits, case: Case, turns: list[Turn]) -> str | None:
    """How many times the least time a case took, by each turn's own memory speed; None where that says nothing."""
    rows = case.concurrency if "decode_ms" in case.figures else 1
    figure = "ttft_p50_ms" if case.name == "long" else "decode_ms" if "decode_ms" in case.figures else "tpot_p50_ms"
    if case.kind == "sharing" or (figure == "tpot_p50_ms" and case.concurrency > 1):
        return None
    took, least = [], []
    for turn in turns:
        if figure not in turn.figures:
            continue
        speed = statistics.mean(turn.memory_gb_s)
        tokens = round(statistics.mean(turn.prompt_tokens)) if turn.prompt_tokens else case.prompt_tokens
        took.append(turn.figures[figure])
        least.append(limits.prompt_ms(tokens, speed) if case.name == "long" else limits.step_ms(rows, speed))
    if not took:
        return None
    times = statistics.median(mine / its for mine, its in zip(took, least, strict=True))
    return f"{case.name}: {statistics.median(took):.1f} ms, at least {statistics.median(least):.1f}: {times:.2f} times"


def _matrices(file: Path) -> list[tuple[str, int, int]]:
    """Name, elements and bytes an element of each matrix in a safetensors file."""
    with file.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return [
        (name, math.prod(entry["shape"]), _BYTES[entry["dtype"]])
        for name, entry in header.items()
        if name != "__metadata__" and len(entry["shape"]) > 1 and entry["dtype"] in _BYTES
    ]
