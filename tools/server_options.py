"""The options of the servers on the command line, and how their values are read."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

FEATURES = ("mtp", "pd", "prefix_cache", "splitfuse", "parallel_decoding", "reasoning")
MODEL_TYPES = ("deepseek",)
MAX_INSTANCES = 10
"""MindIE's limit."""


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The sizes of the engine, under MindIE's names."""
    add = parser.add_argument
    add("--cache-block-size", type=at_least_1, default=128, metavar="TOKENS", help="a page of keys and values")
    add(
        "--device",
        type=_device,
        default="auto",
        metavar="NAME",
        help="cpu, cuda, npu or npu:N; auto: an NPU where torch_npu is installed, else CUDA if it is there, else CPU",
    )
    add(
        "--npu-device-ids",
        type=_device_ids,
        nargs="+",
        metavar="N,...",
        help="the NPUs of each instance, one after another from npu:0 on if absent",
    )
    add("--npu-mem-size", type=above_0, metavar="GB", help="for keys and values; a share of what is free if absent")
    add("--max-prefill-batch-size", type=at_least_1, default=50, metavar="N", help="prompts in one step")
    add("--max-prefill-tokens", type=at_least_1, default=8192, metavar="TOKENS", help="tokens of prompts in one step")
    add("--prefill-chunk-size", type=at_least_1, metavar="TOKENS", help="tokens of one prompt in one step")
    add(
        "--draft-tokens",
        type=_whole,
        default=3,
        metavar="N",
        help="guesses that a step of the native step tries after each token, up to 4 answers at a time; 0: none",
    )
    add(
        "--encoder-slice-ms",
        type=above_0,
        default=25.0,
        metavar="MS",
        help="that an encoder of media takes between two steps, at most, as far as it can be stopped",
    )
    add(
        "--encoder-cache-mb",
        type=at_least_1,
        default=256,
        metavar="MB",
        help="of what encoders made of media, kept for requests with the same",
    )
    add(
        "--deterministic",
        action="store_true",
        help="answers that do not depend on company; without the native step no batching and no prefix cache",
    )
    add("--threads", type=at_least_1, metavar="N", help="of the model's arithmetic; all cores if absent")
    add(
        "--cpu-step",
        choices=["auto", "native", "torch"],
        default="auto",
        help="what computes on a CPU: the native step where it can, only that, or torch",
    )
    add("--instances", type=_instances, default=1, metavar="N", help="engine processes that share the requests")
    add(
        "--world-size",
        type=at_least_1,
        default=1,
        metavar="N",
        help="devices that share the model, each with a process; on a CPU so many processes do, which is slower",
    )
    add("--cpu-variant", metavar="NAME", help="the native step for avx512_bf16, avx512 or avx2; the best if absent")
    add(
        "--cpu-weights",
        choices=["bf16", "int8"],
        default="bf16",
        help="of the native step: as they are, or rounded to int8, which is faster for few requests at a time",
    )
    add(
        *("--engine-stall-seconds", "--engine-hang-timeout"),
        type=above_0,
        default=60.0,
        metavar="S",
        help="a silent engine is started anew after so long; one that computes, once it used 10 times what is expected",
    )
    add("--engine-step-limit", type=above_0, default=3600.0, metavar="S", help="for any step, and for loading")


def add_mindie(parser: argparse.ArgumentParser) -> None:
    """What else of the engine MindIE's config.json can say."""
    add = parser.add_argument
    add("--prefix-cache", action=argparse.BooleanOptionalAction, default=True, help="beginnings are computed once")
    add(
        "--template-type",
        choices=["Mix", "Standard"],
        default="Mix",
        help="prompts and answers in the same steps, or in steps of their own that take turns",
    )
    add("--max-num-partial-prefills", type=at_least_1, metavar="N", help="prompts of a step that go on in later ones")
    add("--max-long-partial-prefills", type=at_least_1, metavar="N", help="long ones among them; others let pass")
    add(
        "--long-prefill-token-threshold",
        type=at_least_1,
        default=1024,
        metavar="TOKENS",
        help="a longer prompt is a long one",
    )
    add(
        "--npu-memory-fraction",
        type=_fraction,
        metavar="PART",
        help="of a card's memory, or of what a host has free, for weights, keys and values together",
    )
    add("--trust-remote-code", action="store_true", help="run code that lies beside the weights")
    add(
        "--generation-config",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="sampling defaults from the weights",
    )


def add_contract(parser: argparse.ArgumentParser) -> None:
    """The settings that every server has; named as in MindIE's config.json."""
    add = parser.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=port_number, default=1025)
    add("--model-name", metavar="NAME", help="the name that requests must use")
    add("--max-n", type=at_least_1, default=128, metavar="N", help="choices per request at most")
    add(
        "--max-seq-len",
        type=at_least_1,
        metavar="TOKENS",
        help="prompt and answer together at most",
    )
    add("--max-iter-times", type=at_least_1, metavar="TOKENS", help="answer at most; max-seq-len if absent")
    add("--max-input-token-len", type=at_least_1, metavar="TOKENS", help="prompt at most")
    add(
        "--truncation",
        type=int,
        choices=[-1, 0, 1],
        default=0,
        help="of longer prompts: 0 refuses them, -1 keeps their beginning, 1 their end",
    )
    add("--max-request-length", type=above_0, default=40, metavar="MB", help="request body at most")
    add("--max-json-depth", type=at_least_1, default=100, metavar="LEVELS")
    add("--max-json-containers", type=at_least_1, default=200_000, metavar="N", help="arrays and objects in a body")
    add("--max-json-members", type=at_least_1, default=500_000, metavar="N", help="members of all its objects")
    add("--max-json-values", type=at_least_1, default=2_500_000, metavar="N", help="all its values")
    add("--max-batch-size", type=at_least_1, default=200, metavar="N", help="sequences that run at the same time")
    add("--max-queue", type=_whole, metavar="N", help="of those worked on, wait in the engine; more get 429")
    add("--token-timeout", type=_token_timeout, default=600, metavar="S", help="for each token, the first included")
    add("--e2e-timeout", type=_e2e_timeout, default=600, metavar="S", help="for a whole request")
    add("--full-text-enabled", action="store_true", help="streamed chat events carry all the text so far")
    add("--open-ai-support", default="vllm", metavar="FORM", help='anything but "vllm" answers in OpenAI\'s form')
    add("--strict-unknown", action="store_true", help="refuse unknown fields")
    add("--relaxed-rules", type=_relaxable, default=(), metavar="ID,...", help="rules of the tools family not to apply")
    add("--tool-parser", type=_tool_parser, default="auto", metavar="NAME", help="how the model writes tool calls")
    add("--reasoning-parser", type=_reasoning_parser, default="auto", metavar="NAME", help="how it marks its thinking")
    add("--early-stopping-text", metavar="TEXT", help="closes a thought at its thinking_budget")
    add("--chat-template", type=_template, metavar="FILE", help="a Jinja file in place of the model's chat template")
    add("--chat-template-dir", type=Path, metavar="DIR", help="folder of template files that requests may name")
    add("--chat-template-time", type=above_0, default=1.5, metavar="S", help="to render a request's own template")
    add("--chat-template-memory", type=above_0, default=512, metavar="MB", help="of a process that renders such")
    add("--chat-template-output", type=above_0, default=8, metavar="MB", help="that such a template may write")
    add("--chat-template-workers", type=at_least_1, default=2, metavar="N", help="processes that render such")
    add("--lora", type=_lora, action="append", default=[], metavar="NAME=DIR", help="a LoRA adapter; may be repeated")
    add("--max-loras", type=_whole, default=0, metavar="N", help="adapters at most; 0: those of --lora and no other")
    add("--max-lora-rank", type=_whole, default=0, metavar="RANK", help="of an adapter at most; 0: any")
    add("--lora-dir", type=Path, metavar="DIR", help="folder from which requests may load adapters")


def add_life(parser: argparse.ArgumentParser) -> None:
    """Where every server listens, how it tells its health, and how it ends."""
    add = parser.add_argument
    add("--management-host", metavar="HOST", help="of health checks and /stopService; the host if absent")
    add("--management-port", type=port_number, metavar="PORT", help="the port if absent")
    add("--metrics-port", type=port_number, metavar="PORT", help="on the management host; its port if absent")
    add("--allow-all-zero-ip", action="store_true", help="listen on 0.0.0.0 or :: where that is asked for")
    add(
        "--npu-usage-threshold",
        type=_percent,
        default=0,
        metavar="PERCENT",
        help="generate a token now and then; if that fails, the server is busy from this load on, else abnormal",
    )
    add(
        "--drain-timeout",
        type=not_negative,
        default=25.0,
        metavar="S",
        help="time for running requests after a stop signal",
    )
    add(
        "--trace",
        action="store_true",
        default=os.environ.get("MINDSPEC_TRACE", "") not in ("", "0"),
        help="say where in the program a failure came from; also with MINDSPEC_TRACE=1",
    )


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Metrics and logs."""
    add = parser.add_argument
    add("--metrics", action=argparse.BooleanOptionalAction, default=True, help="serve GET /metrics")
    add("--metrics-vllm", action="store_true", help="show vLLM's names for metrics beside MindIE's")
    add(
        "--average-window",
        type=at_least_1,
        default=1000,
        metavar="N",
        help="requests that averages of the metrics look back over at most",
    )
    add("--log-level", type=_log_level, default="info", metavar="LEVEL", help="debug, info, warn, error or critical")
    add("--log-form", choices=["text", "json"], default="text", help="of a log line")
    add("--log-stream", choices=["stderr", "stdout"], default="stderr", help="where log lines go")
    add("--log-prompts", action="store_true", help="show prompts and answers in the lines of requests")


def _log_level(text: str) -> str:
    from handlers.log_settings import level_number

    try:
        level_number(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text.lower()


def at_least_1(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _token_timeout(text: str) -> int:
    return _seconds(text, 3600)


def _e2e_timeout(text: str) -> int:
    return _seconds(text, 65535)


def _seconds(text: str, most: int) -> int:
    """MindIE's timeouts: whole seconds, from 1 on."""
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds from 1 to {most}")
    return int(text)


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def _lora(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not name or not equals or not folder:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=DIR")
    return name, Path(folder).resolve()


def _template(text: str) -> str:
    from handlers.template_file import deployed_template

    try:
        return deployed_template(Path(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _instances(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_INSTANCES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MAX_INSTANCES}")
    return int(text)


def _percent(text: str) -> int:
    if not text.isdecimal() or int(text) > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 100")
    return int(text)


def port_number(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def not_negative(text: str) -> float:
    number = _number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is below 0")
    return number


def above_0(text: str) -> float:
    number = _number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return number


def _device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|(?:cuda|npu)(?::\d{1,5})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not auto, cpu, cuda, npu, npu:N or cuda:N")
    return text


def _device_ids(text: str) -> list[int]:
    if not re.fullmatch(r"\d{1,5}(?:,\d{1,5})*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of device numbers such as 0 or 0,1")
    return [int(number) for number in text.split(",")]


def _fraction(text: str) -> float:
    number = above_0(text)
    if number > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is above 1")
    return number


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return number


def _relaxable(text: str) -> tuple[str, ...]:
    from generated.rules import RULES

    names = _names(text)
    unknown = [name for name in names if name not in RULES or not RULES[name].relaxable]
    if unknown:
        raise argparse.ArgumentTypeError(f"no rule of this name can be relaxed: {', '.join(unknown)}")
    return names


def _tool_parser(text: str) -> str:
    from handlers.answer_forms import tool_parsers

    return _one_of(tool_parsers(), text)


def _reasoning_parser(text: str) -> str:
    from handlers.answer_forms import reasoning_parsers

    return _one_of(reasoning_parsers(), text)


def _one_of(allowed: Sequence[str], text: str) -> str:
    if text not in allowed:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(allowed)}")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def read_profile(text: str) -> tuple[str, ...]:
    names = _names(text)
    unknown = [name for name in names if name not in FEATURES + MODEL_TYPES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
    return names
