"""The mindspec command: serve a model, serve the mock, compare servers, generate the contract's code."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tools.load.options import add_options

if TYPE_CHECKING:
    from handlers.settings import Settings

ROOT = Path(__file__).resolve().parent.parent

_FEATURES = ("mtp", "pd", "prefix_cache", "splitfuse", "parallel_decoding", "reasoning")
_MODEL_TYPES = ("deepseek",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit code."""
    given = _parser().parse_args(arguments)
    code: int = given.run(given)
    return code


def _serve(given: argparse.Namespace) -> int:
    """Serve a model folder, or the embedded default model."""
    from engine.front import EngineSpec, HangLimits, Limits, ProcessFront
    from engine.text.tokenizer import tokenizer_from_folder
    from engine.types import AdapterError
    from handlers.adapters import adapter_book
    from handlers.defaults import ModelDefaults
    from handlers.server import run
    from handlers.service import Service
    from tools.weights import ensure_default_model
    from tools.weights_source import WeightsError

    folder: Path | None = given.model
    if folder is None:
        try:
            folder = ensure_default_model(lambda line: print(line, file=sys.stderr))
        except WeightsError as error:
            return _failed(str(error))
    elif not folder.is_dir():
        return _failed(f"{folder} is not a folder")
    folder = folder.resolve()
    try:
        tokenizer = tokenizer_from_folder(folder)
    except (OSError, ValueError) as error:
        return _failed(f"the tokenizer of {folder.name} cannot be used: {error}")
    name = given.model_name or (DEFAULT_NAME if given.model is None else folder.name)
    settings = replace(_settings(given, name), weights_name=folder.name)
    spec = EngineSpec(
        "engine.packed_loader:load_executor",
        {
            "path": str(folder),
            "dtype": given.dtype,
            "page_size": given.cache_block_size,
            "memory_bytes": None if given.npu_mem_size is None else int(given.npu_mem_size * 2**30),
            "max_batch_size": given.max_batch_size,
            "max_prefill_batch_size": min(given.max_prefill_batch_size, given.max_batch_size),
            "max_prefill_tokens": given.max_prefill_tokens,
            "prefill_chunk_size": given.prefill_chunk_size,
            "deterministic": given.deterministic,
            "adapters": bool(given.lora or given.lora_dir),
            "cpu_step": given.cpu_step,
            "cpu_variant": given.cpu_variant,
        },
        threads=given.threads,
    )
    limits = Limits(max_batch_size=given.max_batch_size, max_queue=given.max_queue)
    hang = HangLimits(given.engine_hang_timeout, given.engine_step_limit)
    try:
        adapters = adapter_book(settings)
    except AdapterError as error:
        return _failed(str(error))
    front = ProcessFront(tokenizer, spec, limits=limits, hang=hang, adapters=adapters)
    return run(Service(settings, front, ModelDefaults.read(folder)))


def _mock(given: argparse.Namespace) -> int:
    """Serve made-up text under the same contract."""
    from engine.mock_front import MockFront
    from engine.scheduler import Limits
    from engine.types import AdapterError
    from handlers.adapters import adapter_book
    from handlers.server import run
    from handlers.service import Service

    settings = _settings(given, given.model_name or "mock")
    limits = Limits(max_batch_size=given.max_batch_size, max_queue=given.max_queue)
    try:
        adapters = adapter_book(settings)
    except AdapterError as error:
        return _failed(str(error))
    front = MockFront(limits=limits, step_delay_s=given.step_delay_ms / 1000, adapters=adapters)
    return run(Service(settings, front))


def _generate(given: argparse.Namespace) -> int:
    """Write generated/ from spec/, or check that it is up to date."""
    from tools.generate.__main__ import run

    return run(given.spec, given.out, given.check)


def _bench(given: argparse.Namespace) -> int:
    """Compare servers under load."""
    from tools.load.command import run

    return run(given)


DEFAULT_NAME = "SmolLM2-135M-Instruct"
"""The name of the embedded default model."""


def _settings(given: argparse.Namespace, model_name: str) -> Settings:
    from handlers.settings import LoraModule, Settings

    profile = given.profile
    return Settings(
        model_name=model_name,
        host=given.host,
        port=given.port,
        metrics=given.metrics,
        max_n=given.max_n,
        max_seq_len=given.max_seq_len,
        max_iter_times=given.max_iter_times,
        max_input_token_len=given.max_input_token_len,
        max_request_length=given.max_request_length,
        max_json_depth=given.max_json_depth,
        max_json_containers=given.max_json_containers,
        max_json_members=given.max_json_members,
        max_json_values=given.max_json_values,
        full_text_enabled=given.full_text_enabled,
        open_ai_support=given.open_ai_support,
        strict_unknown=given.strict_unknown,
        relaxed_rules=tuple(given.relaxed_rules),
        tool_parser=given.tool_parser,
        reasoning_parser=given.reasoning_parser,
        features=tuple(name for name in profile if name not in _MODEL_TYPES),
        model_type=next((name for name in profile if name in _MODEL_TYPES), ""),
        chat_template=given.chat_template,
        chat_template_dir=given.chat_template_dir,
        token_timeout=given.token_timeout,
        e2e_timeout=given.e2e_timeout,
        template_time_s=given.chat_template_time,
        template_memory_bytes=int(given.chat_template_memory * 2**20),
        template_output_bytes=int(given.chat_template_output * 2**20),
        template_workers=given.chat_template_workers,
        drain_timeout_s=given.drain_timeout,
        lora_modules=tuple(LoraModule(name, path) for name, path in given.lora),
        max_loras=given.max_loras,
        max_lora_rank=given.max_lora_rank,
        lora_dir=given.lora_dir,
    )


def _failed(reason: str) -> int:
    print(f"mindspec: {reason}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mindspec", description="An inference server for the MindIE LLM API.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve a model", description=_serve.__doc__)
    serve.add_argument("--model", type=Path, metavar="DIR", help="a model folder; by default the embedded model")
    serve.add_argument("--dtype", default="auto", choices=["auto", "float32", "float16", "bfloat16"])
    _add_engine(serve)
    _add_contract(serve)
    serve.set_defaults(run=_serve, profile=())

    mock = commands.add_parser("mock", help="serve made-up text under the same contract", description=_mock.__doc__)
    _add_contract(mock)
    mock.add_argument(
        "--profile",
        type=_profile,
        default=(),
        metavar="NAME,...",
        help="refuse what a MindIE with these would refuse: " + ", ".join(_FEATURES + _MODEL_TYPES),
    )
    mock.add_argument("--step-delay-ms", type=_not_negative, default=0.0, metavar="MS", help="how long a token takes")
    mock.set_defaults(run=_mock)

    generate = commands.add_parser("generate", help="write generated/ from spec/", description=_generate.__doc__)
    generate.add_argument("--spec", type=Path, default=ROOT / "spec" / "openapi.yaml", metavar="FILE")
    generate.add_argument("--out", type=Path, default=ROOT / "generated", metavar="DIR")
    generate.add_argument("--check", action="store_true", help="write nothing; fail when something would change")
    generate.set_defaults(run=_generate)

    bench = commands.add_parser("bench", help="compare servers under load")
    add_options(bench)
    bench.set_defaults(run=_bench)
    return parser


def _add_engine(parser: argparse.ArgumentParser) -> None:
    """The sizes of the engine, under MindIE's names."""
    add = parser.add_argument
    add("--cache-block-size", type=_at_least_1, default=128, metavar="TOKENS", help="a page of keys and values")
    add("--npu-mem-size", type=_above_0, metavar="GB", help="for keys and values; a share of what is free if absent")
    add("--max-prefill-batch-size", type=_at_least_1, default=50, metavar="N", help="prompts in one step")
    add("--max-prefill-tokens", type=_at_least_1, default=8192, metavar="TOKENS", help="tokens of prompts in one step")
    add("--prefill-chunk-size", type=_at_least_1, metavar="TOKENS", help="tokens of one prompt in one step")
    add(
        "--deterministic",
        action="store_true",
        help="answers that do not depend on company; no batching, no prefix cache",
    )
    add("--threads", type=_at_least_1, metavar="N", help="of the model's arithmetic; all cores if absent")
    add(
        "--cpu-step",
        choices=["auto", "native", "torch"],
        default="auto",
        help="what computes on a CPU: the native step where it can, only that, or torch",
    )
    add("--cpu-variant", metavar="NAME", help="the native step for avx512_bf16, avx512 or avx2; the best if absent")
    add(
        "--engine-hang-timeout",
        type=_above_0,
        default=60.0,
        metavar="S",
        help="an engine that owes an answer and uses no processor for so long is started anew",
    )
    add("--engine-step-limit", type=_above_0, default=3600.0, metavar="S", help="the same, even if it computes")


def _add_contract(parser: argparse.ArgumentParser) -> None:
    """The settings that every server has; named as in MindIE's config.json."""
    add = parser.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=_port, default=1025)
    add(
        "--metrics",
        action=argparse.BooleanOptionalAction,
        help="serve GET /metrics; if neither is given, where the host is a loopback address",
    )
    add("--model-name", metavar="NAME", help="the name that requests must use")
    add("--max-n", type=_at_least_1, default=128, metavar="N", help="choices per request at most")
    add(
        "--max-seq-len",
        type=_at_least_1,
        metavar="TOKENS",
        help="prompt and answer together at most",
    )
    add("--max-iter-times", type=_at_least_1, metavar="TOKENS", help="answer at most; max-seq-len if absent")
    add("--max-input-token-len", type=_at_least_1, metavar="TOKENS", help="prompt at most")
    add("--max-request-length", type=_above_0, default=40, metavar="MB", help="request body at most")
    add("--max-json-depth", type=_at_least_1, default=100, metavar="LEVELS")
    add("--max-json-containers", type=_at_least_1, default=200_000, metavar="N", help="arrays and objects in a body")
    add("--max-json-members", type=_at_least_1, default=500_000, metavar="N", help="members of all its objects")
    add("--max-json-values", type=_at_least_1, default=2_500_000, metavar="N", help="all its values")
    add("--max-batch-size", type=_at_least_1, default=200, metavar="N", help="sequences that run at the same time")
    add("--max-queue", type=_whole, default=1024, metavar="N", help="requests that may wait before others get 429")
    add("--token-timeout", type=_token_timeout, default=600, metavar="S", help="for each token, the first included")
    add("--e2e-timeout", type=_e2e_timeout, default=600, metavar="S", help="for a whole request")
    add("--full-text-enabled", action="store_true", help="streamed chat events carry all the text so far")
    add("--open-ai-support", default="vllm", metavar="FORM", help='anything but "vllm" answers in OpenAI\'s form')
    add("--strict-unknown", action="store_true", help="refuse unknown fields")
    add("--relaxed-rules", type=_relaxable, default=(), metavar="ID,...", help="rules of the tools family not to apply")
    add("--tool-parser", type=_tool_parser, default="auto", metavar="NAME", help="how the model writes tool calls")
    add("--reasoning-parser", type=_reasoning_parser, default="auto", metavar="NAME", help="how it marks its thinking")
    add("--chat-template", type=_template, metavar="FILE", help="a Jinja file in place of the model's chat template")
    add("--chat-template-dir", type=Path, metavar="DIR", help="folder of template files that requests may name")
    add("--chat-template-time", type=_above_0, default=1.5, metavar="S", help="to render a request's own template")
    add("--chat-template-memory", type=_above_0, default=512, metavar="MB", help="of a process that renders such")
    add("--chat-template-output", type=_above_0, default=8, metavar="MB", help="that such a template may write")
    add("--chat-template-workers", type=_at_least_1, default=2, metavar="N", help="processes that render such")
    add("--lora", type=_lora, action="append", default=[], metavar="NAME=DIR", help="a LoRA adapter; may be repeated")
    add("--max-loras", type=_whole, default=0, metavar="N", help="adapters at most; 0: those of --lora and no other")
    add("--max-lora-rank", type=_whole, default=0, metavar="RANK", help="of an adapter at most; 0: any")
    add("--lora-dir", type=Path, metavar="DIR", help="folder from which requests may load adapters")
    add(
        "--drain-timeout",
        type=_not_negative,
        default=30.0,
        metavar="S",
        help="time for running requests after a stop signal",
    )


def _at_least_1(text: str) -> int:
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


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def _not_negative(text: str) -> float:
    number = _number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is below 0")
    return number


def _above_0(text: str) -> float:
    number = _number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
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


def _profile(text: str) -> tuple[str, ...]:
    names = _names(text)
    unknown = [name for name in names if name not in _FEATURES + _MODEL_TYPES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
