"""Times text streams beside images: how long tokens wait for each other while an encoder works between the steps."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.without_torchvision import leave_out_torchvision

if TYPE_CHECKING:
    from engine.packed_executor import PackedExecutor
    from engine.types import Request

_GRID = 16
"""Patches of an image's side; 2 x 2 of them are one token of the prompt."""
_IMAGE_TOKENS = (_GRID // 2) ** 2
_VOCAB = 1000
_PLACEHOLDER = 998
_TEXT_TOKENS = 64
"""Of a stream's answer, after which the next one begins: contexts are as long with images as without."""
_WARM_ROUNDS = 2 * _TEXT_TOKENS


@dataclass(slots=True)
class Readings:
    """What happened while it was watched."""

    gaps_s: list[float] = field(default_factory=list)
    """Between two tokens of the same stream, of all streams."""
    steps_s: list[float] = field(default_factory=list)
    """Of the model's forwards."""
    images_s: list[float] = field(default_factory=list)
    """From an image's submission to its answer's last token."""
    encoded_s: float = 0.0
    """That the encoder had, for all images."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The outcome; milliseconds."""

    alone_p50_ms: float
    beside_p50_ms: float
    ratio: float
    """Of the two; at most 2 is wanted."""
    beside_p99_ms: float
    step_p99_ms: float
    """Of steps beside images, those with a part of an image's prompt among them."""
    bound_ms: float
    """What ``beside_p99_ms`` may be: a slice of the encoder and two steps."""
    encoder_ms: float
    """An image."""
    images: int
    image_p50_s: float

    @property
    def holds(self) -> bool:
        """Whether texts are protected as they should be."""
        return self.ratio <= 2.0 and self.beside_p99_ms <= self.bound_ms


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many of a hundred are not above."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def figures(alone: Readings, beside: Readings, slice_ms: float) -> Figures:
    """What the readings without and with images say."""
    alone_p50, beside_p50 = (statistics.median(each.gaps_s) for each in (alone, beside))
    step_p99 = percentile(beside.steps_s, 99)
    return Figures(
        alone_p50_ms=1000 * alone_p50,
        beside_p50_ms=1000 * beside_p50,
        ratio=beside_p50 / alone_p50,
        beside_p99_ms=1000 * percentile(beside.gaps_s, 99),
        step_p99_ms=1000 * step_p99,
        bound_ms=slice_ms + 2000 * step_p99,
        encoder_ms=1000 * beside.encoded_s / len(beside.images_s),
        images=len(beside.images_s),
        image_p50_s=statistics.median(beside.images_s),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; 1 where they do not hold."""
    options = _options().parse_args(arguments)
    os.environ.update(OMP_NUM_THREADS=str(options.threads), OMP_WAIT_POLICY="PASSIVE", GOMP_SPINCOUNT="3000")
    # An engine process has none of it either: see engine/process.py.
    leave_out_torchvision()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), options)
    for name, value in asdict(found).items():
        print(f"{name:16} {value:9.2f}")
    print("holds" if found.holds else "does not hold")
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(found), indent=2) + "\n", encoding="utf-8")
    return 0 if found.holds else 1


def measure(folder: Path, options: argparse.Namespace) -> Figures:
    """Make a model in ``folder``, let its streams run alone, then beside the images."""
    executor = _executor(folder, options)
    streams = [_text(f"text-{index}", options) for index in range(options.streams)]
    images = [_image(f"image-{index}", folder) for index in range(options.images)]
    alone = _play(executor, streams, [], options.alone_rounds)
    beside = _play(executor, streams, images, 0)
    return figures(alone, beside, options.slice_ms)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_media", description=__doc__)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--streams", type=int, default=8, help="texts that are written at the same time")
    parser.add_argument("--images", type=int, default=20, help="requests with an image each, all at once")
    parser.add_argument("--slice-ms", type=float, default=25.0, help="of the encoder between two steps, at most")
    parser.add_argument("--depth", type=int, default=24, help="layers of the encoder; more cost more")
    parser.add_argument("--width", type=int, default=512, help="of the encoder and of the text model")
    parser.add_argument("--layers", type=int, default=8, help="of the text model")
    parser.add_argument("--alone-rounds", type=int, default=150)
    parser.add_argument("--json", type=Path)
    return parser


def _executor(folder: Path, options: argparse.Namespace) -> PackedExecutor:
    import torch
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    from engine.packed_executor import PackedExecutor
    from engine.packed_loader import load_executor

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    width = options.width
    text = {
        "vocab_size": _VOCAB,
        "hidden_size": width,
        "intermediate_size": 3 * width,
        "num_hidden_layers": options.layers,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 1 << 15,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [width // 64] * 2 + [0]},
    }
    text["rope_parameters"]["mrope_section"][2] = width // 16 - 2 * (width // 64)
    vision = {"depth": options.depth, "embed_dim": width, "hidden_size": width, "num_heads": 8, "mlp_ratio": 4}
    config = Qwen2VLConfig(text_config=text, vision_config=vision, image_token_id=_PLACEHOLDER, video_token_id=999)
    Qwen2VLForConditionalGeneration(config).save_pretrained(folder / "model")
    executor = load_executor(
        str(folder / "model"),
        dtype="float32",
        device="cpu",
        memory_bytes=1 << 30,
        encoder_slice_ms=options.slice_ms,
        threads=options.threads,
    )
    assert isinstance(executor, PackedExecutor), "the model does not run packed"
    return executor


def _text(name: str, options: argparse.Namespace) -> Request:
    from engine.types import Request, SamplingParams

    prompt = tuple((7 * index + len(name) * int(name.rpartition("-")[2])) % 900 for index in range(32))
    return Request(name, prompt, SamplingParams(max_tokens=_TEXT_TOKENS, temperature=0.0, ignore_eos=True))


def _image(name: str, folder: Path) -> Request:
    import torch

    from engine.multimodal.features import content_hash, save_features
    from engine.types import MediaItem, Request, SamplingParams

    features = {
        "pixel_values": torch.randn(_GRID * _GRID, 3 * 2 * 14 * 14),
        "image_grid_thw": torch.tensor([[1, _GRID, _GRID]]),
    }
    path = folder / name
    save_features(path, features)
    prompt = (1, 2, 3, *[_PLACEHOLDER] * _IMAGE_TOKENS, 4, 5)
    item = MediaItem("image", 3, _IMAGE_TOKENS, content_hash("image", features), str(path))
    return Request(name, prompt, SamplingParams(max_tokens=16, temperature=0.0, ignore_eos=True), media=(item,))


def _play(executor: PackedExecutor, streams: list[Request], images: list[Request], rounds: int) -> Readings:
    """Run the streams for so many rounds, or until all images are answered."""
    from engine.scheduler import Scheduler
    from engine.types import StepOutput

    readings = Readings()
    runner: Any = executor._runner
    run = runner.run

    def timed(plan: Any) -> Any:
        began_s = time.perf_counter()
        logits = run(plan)
        readings.steps_s.append(time.perf_counter() - began_s)
        return logits

    runner.run = timed
    scheduler = Scheduler(executor, 64)
    for request in streams:
        scheduler.submit(request, time.monotonic_ns())
    texts = {request.request_id: request for request in streams}

    def again(output: object) -> None:
        if isinstance(output, StepOutput) and output.done and output.request_id in texts:
            scheduler.submit(texts[output.request_id], time.monotonic_ns())

    for _ in range(_WARM_ROUNDS):
        for output in scheduler.run_round():
            again(output)
    readings.steps_s.clear()
    before = executor.stats.media
    assert before is not None, "the model takes no media"
    began_s = time.perf_counter()
    for request in images:
        scheduler.submit(request, time.monotonic_ns())
    waiting = {request.request_id for request in images}
    last_s: dict[str, float] = {}
    done = 0
    while waiting or done < rounds:
        outputs = scheduler.run_round()
        done += 1
        now_s = time.perf_counter()
        for output in outputs:
            assert isinstance(output, StepOutput), output
            if output.request_id in waiting:
                if output.done:
                    waiting.remove(output.request_id)
                    readings.images_s.append(now_s - began_s)
            elif output.tokens:
                if output.request_id in last_s:
                    readings.gaps_s.append(now_s - last_s[output.request_id])
                last_s[output.request_id] = now_s
                if output.done:
                    del last_s[output.request_id]
                    again(output)
    after = executor.stats.media
    assert after is not None
    readings.encoded_s = (after.turns_us - before.turns_us) / 1e6
    for request in streams:
        scheduler.cancel(request.request_id)
    runner.run = run
    return readings


if __name__ == "__main__":
    sys.exit(main())
