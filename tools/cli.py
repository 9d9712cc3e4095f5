"""The mindspec command: serve a model, serve the mock, compare servers, generate the contract's code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from handlers.exit_codes import CONFIG, CRASH_LOOP, WEIGHTS
from tools.load.options import add_options
from tools.server_options import (
    FEATURES,
    MODEL_TYPES,
    add_contract,
    add_engine,
    add_life,
    add_watch,
    not_negative,
    read_profile,
)

if TYPE_CHECKING:
    from handlers.settings import Settings

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit code."""
    given = _parser().parse_args(arguments)
    try:
        code: int = given.run(given)
    except Exception as error:
        if getattr(given, "trace", True):
            raise
        return _failed(f"{type(error).__name__}: {error} (--trace shows where)", CRASH_LOOP)
    return code


def _serve(given: argparse.Namespace) -> int:
    """Serve a model folder, or the embedded default model."""
    from engine.front import EngineSpec, HangLimits, Limits, ProcessFront
    from engine.multi_front import MultiFront
    from engine.process import divided
    from engine.text.tokenizer import tokenizer_from_folder
    from engine.types import AdapterError
    from handlers.adapters import adapter_book
    from handlers.listeners import ListenError, open_listeners
    from handlers.log_settings import level_number
    from tools.weights import ensure_default_model
    from tools.weights_source import WeightsError

    folder: Path | None = given.model
    if folder is None:
        try:
            folder = ensure_default_model(_say)
        except WeightsError as error:
            return _failed(str(error), WEIGHTS)
    elif not folder.is_dir():
        return _failed(f"{folder} is not a folder", WEIGHTS)
    folder = folder.resolve()
    try:
        tokenizer = tokenizer_from_folder(folder)
    except (OSError, ValueError) as error:
        return _failed(f"the tokenizer of {folder.name} cannot be used: {error}", WEIGHTS)
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
            "draft_tokens": given.draft_tokens,
            "deterministic": given.deterministic,
            "adapters": bool(given.lora or given.lora_dir),
            "cpu_step": given.cpu_step,
            "cpu_variant": given.cpu_variant,
            "cpu_weights": given.cpu_weights,
        },
        threads=given.threads,
        log_level=level_number(settings.logs.level),
        log_form=settings.logs.form,
        log_stream=settings.logs.stream,
        trace=given.trace,
    )
    limits = Limits(max_batch_size=given.max_batch_size, max_queue=given.max_queue)
    hang = HangLimits(settings.health.engine_stall_s, given.engine_step_limit)
    spec = divided(spec, settings.instances)
    try:
        fronts = [
            ProcessFront(tokenizer, spec, limits=limits, hang=hang, adapters=adapter_book(settings), on_progress=_say)
            for _ in range(settings.instances)
        ]
    except AdapterError as error:
        return _failed(str(error), CONFIG)
    try:
        listeners = open_listeners(settings)
        for each in fronts:
            each.begin()
    except ListenError as error:
        return _failed(str(error), error.exit_code)
    except OSError as error:
        return _failed(f"the engine process cannot be started: {error}", CRASH_LOOP)
    front = fronts[0] if len(fronts) == 1 else MultiFront(fronts)
    # The engine loads beside these, which take nearly a second.
    from handlers.defaults import ModelDefaults
    from handlers.server import run
    from handlers.service import Service

    return run(Service(settings, front, ModelDefaults.read(folder)), listeners)


def _mock(given: argparse.Namespace) -> int:
    """Serve made-up text under the same contract."""
    from engine.mock_front import MockFront
    from engine.scheduler import Limits
    from engine.types import AdapterError
    from handlers.adapters import adapter_book
    from handlers.listeners import ListenError, open_listeners
    from handlers.server import run
    from handlers.service import Service

    settings = _settings(given, given.model_name or "mock")
    limits = Limits(max_batch_size=given.max_batch_size, max_queue=given.max_queue)
    try:
        adapters = adapter_book(settings)
    except AdapterError as error:
        return _failed(str(error), CONFIG)
    front = MockFront(limits=limits, step_delay_s=given.step_delay_ms / 1000, adapters=adapters)
    try:
        listeners = open_listeners(settings)
    except ListenError as error:
        return _failed(str(error), error.exit_code)
    return run(Service(settings, front), listeners)


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
    from handlers.health_limits import HealthLimits
    from handlers.log_settings import LogSettings
    from handlers.planes import Planes
    from handlers.settings import LoraModule, Settings

    profile = given.profile
    return Settings(
        model_name=model_name,
        host=given.host,
        port=given.port,
        planes=Planes(given.management_host, given.management_port, given.metrics_port, given.allow_all_zero_ip),
        health=HealthLimits(given.npu_usage_threshold, getattr(given, "engine_stall_seconds", 60.0)),
        instances=getattr(given, "instances", 1),
        metrics=given.metrics,
        metrics_vllm=given.metrics_vllm,
        average_window_requests=given.average_window,
        logs=LogSettings(given.log_level, given.log_form, given.log_prompts, given.log_stream),
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
        features=tuple(name for name in profile if name not in MODEL_TYPES),
        model_type=next((name for name in profile if name in MODEL_TYPES), ""),
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


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _failed(reason: str, code: int) -> int:
    print(f"mindspec: {reason}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mindspec", description="An inference server for the MindIE LLM API.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve a model", description=_serve.__doc__)
    serve.add_argument("--model", type=Path, metavar="DIR", help="a model folder; by default the embedded model")
    serve.add_argument("--dtype", default="auto", choices=["auto", "float32", "float16", "bfloat16"])
    add_engine(serve)
    add_contract(serve)
    add_watch(serve)
    add_life(serve)
    serve.set_defaults(run=_serve, profile=())

    mock = commands.add_parser("mock", help="serve made-up text under the same contract", description=_mock.__doc__)
    add_contract(mock)
    add_watch(mock)
    add_life(mock)
    mock.add_argument(
        "--profile",
        type=read_profile,
        default=(),
        metavar="NAME,...",
        help="refuse what a MindIE with these would refuse: " + ", ".join(FEATURES + MODEL_TYPES),
    )
    mock.add_argument("--step-delay-ms", type=not_negative, default=0.0, metavar="MS", help="how long a token takes")
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


if __name__ == "__main__":
    sys.exit(main())
