"""The mindspec command: serve a model or the mock, check a config.json or a machine, compare servers, write code."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlers.exit_codes import CRASH_LOOP
from tools.access_options import access_of, add_access, tls_of
from tools.check.command import add_check
from tools.config.command_line import add_config
from tools.conform.command import add_conform
from tools.diff.command import add_diff
from tools.docs.command import add_docs
from tools.doctor.command import add_doctor
from tools.link_options import add_links, links_of
from tools.lint.command import add_lint
from tools.load.options import add_options
from tools.media_options import add_media, media_of
from tools.proxy.command import add_proxy
from tools.server_options import (
    FEATURES,
    MODEL_TYPES,
    add_contract,
    add_engine,
    add_life,
    add_mindie,
    add_watch,
    not_negative,
    read_profile,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from handlers.engine_settings import EngineSettings
    from handlers.listeners import Listener
    from handlers.service import Service
    from handlers.settings import Settings

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit code."""
    given = _parser().parse_args(arguments)
    given.arguments = arguments
    try:
        code: int = given.run(given)
    except Exception as error:
        if getattr(given, "trace", True):
            raise
        return _failed(f"{type(error).__name__}: {error} (--trace shows where)", CRASH_LOOP)
    return code


def _serve(given: argparse.Namespace) -> int:
    """Serve a model folder, the model of a config.json, or the embedded default model."""
    from tools.serving import served

    def parse(defaults: Mapping[str, Any]) -> argparse.Namespace:
        return _parser(defaults).parse_args(given.arguments)

    return _run(given, lambda: served(given, parse, _settings, os.environ))


def _mock(given: argparse.Namespace) -> int:
    """Serve made-up text, or what a script says, under the same contract."""
    from tools.mock.start import MockStart

    start = MockStart(_settings)
    return _run(given, lambda: start.service(given), start.app)


def _run(
    given: argparse.Namespace,
    make: Callable[[], tuple[Service, list[Listener]]],
    make_app: Callable[[Service], ASGIApp] | None = None,
) -> int:
    from tools.serving import CannotStart, teller

    try:
        service, listeners = make()
    except CannotStart as error:
        teller(given.log_form, logging.CRITICAL)(str(error))
        return error.code
    from handlers.server import run  # late, since an engine may load beside it

    return run(service, listeners) if make_app is None else run(service, listeners, make_app=make_app)


def _generate(given: argparse.Namespace) -> int:
    """Write generated/ from spec/, or check that it is up to date."""
    from tools.generate.__main__ import run

    return run(given.spec, given.out, given.check)


def _bench(given: argparse.Namespace) -> int:
    """Compare servers under load."""
    from tools.load.command import run

    return run(given)


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
        tls=tls_of(given),
        access=access_of(given),
        health=HealthLimits(given.npu_usage_threshold, getattr(given, "engine_stall_seconds", 60.0)),
        links=links_of(given),
        media=media_of(given),
        engine=_sizes(given),
        instances=getattr(given, "instances", 1),
        metrics=given.metrics,
        metrics_vllm=given.metrics_vllm,
        average_window_requests=given.average_window,
        logs=LogSettings(given.log_level, given.log_form, given.log_prompts, given.log_stream),
        max_n=given.max_n,
        max_seq_len=given.max_seq_len,
        max_iter_times=given.max_iter_times,
        max_input_token_len=given.max_input_token_len,
        truncation=given.truncation,
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
        early_stopping_text=given.early_stopping_text,
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


def _sizes(given: argparse.Namespace) -> EngineSettings:
    """Those that the command has options for; the mock has few."""
    from handlers.engine_settings import EngineSettings

    names = {field.name for field in fields(EngineSettings)}
    sizes = EngineSettings(**{name: value for name, value in vars(given).items() if name in names})
    return replace(sizes, max_prefill_batch_size=min(sizes.max_prefill_batch_size, sizes.max_batch_size))


def _failed(reason: str, code: int) -> int:
    print(f"mindspec: {reason}", file=sys.stderr)
    return code


def _parser(defaults: Mapping[str, Any] | None = None) -> argparse.ArgumentParser:
    """The command line; ``defaults`` of `serve` by option, from a config.json."""
    parser = argparse.ArgumentParser(prog="mindspec", description="An inference server for the MindIE LLM API.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve a model", description=_serve.__doc__)
    serve.add_argument("--model", type=Path, metavar="DIR", help="a model folder; by default the embedded model")
    serve.add_argument("--dtype", default="auto", choices=["auto", "float32", "float16", "bfloat16"])
    serve.add_argument("--config", type=Path, metavar="FILE", help="MindIE's config.json; options given here win")
    add_engine(serve)
    add_mindie(serve)
    add_contract(serve)
    add_watch(serve)
    add_life(serve)
    add_links(serve)
    add_access(serve)
    add_media(serve)
    serve.set_defaults(run=_serve, profile=())
    serve.set_defaults(**(defaults or {}))

    mock = commands.add_parser("mock", help="serve made-up text under the same contract", description=_mock.__doc__)
    add_contract(mock)
    add_watch(mock)
    add_life(mock)
    add_links(mock)
    add_access(mock)
    mock.add_argument(
        "--profile",
        type=read_profile,
        default=(),
        metavar="NAME,...",
        help="refuse what a MindIE with these would refuse: " + ", ".join(FEATURES + MODEL_TYPES),
    )
    mock.add_argument("--step-delay-ms", type=not_negative, default=0.0, metavar="MS", help="how long a token takes")
    mock.add_argument("--script", type=Path, metavar="FILE", help="YAML or JSON: what to answer to which requests")
    mock.set_defaults(run=_mock)

    generate = commands.add_parser("generate", help="write generated/ from spec/", description=_generate.__doc__)
    generate.add_argument("--spec", type=Path, default=ROOT / "spec" / "openapi.yaml", metavar="FILE")
    generate.add_argument("--out", type=Path, default=ROOT / "generated", metavar="DIR")
    generate.add_argument("--check", action="store_true", help="write nothing; fail when something would change")
    generate.set_defaults(run=_generate)

    add_config(commands)
    add_lint(commands)
    add_diff(commands)
    add_conform(commands)
    add_proxy(commands)
    add_check(commands)
    add_docs(commands)
    add_doctor(commands)

    bench = commands.add_parser("bench", help="compare servers under load")
    add_options(bench)
    bench.set_defaults(run=_bench)
    return parser


if __name__ == "__main__":
    sys.exit(main())
