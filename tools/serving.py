"""Makes the service of `mindspec serve` and `mindspec mock` from what the command line and a config.json say."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.front import EngineSpec, HangLimits, Limits, ProcessFront
from engine.log_form import LOG_FORMS
from engine.lora_book import AdapterBook
from engine.machine_memory import fraction_bytes
from engine.multi_front import MultiFront
from engine.multimodal.family import INPUTS, model_type
from engine.parallel.fit import refusal
from engine.process import divided
from engine.text.tokenizer import TextTokenizer, tokenizer_from_folder
from engine.types import AdapterError
from handlers import exit_codes
from handlers.adapter_book import adapter_book
from handlers.api_keys import KeyBook, KeysError
from handlers.console import say
from handlers.listeners import Listener, ListenError, open_listeners
from handlers.log_settings import level_number
from handlers.media.packages import missing_packages
from handlers.planes import addresses
from handlers.tls import TlsError, served_with
from handlers.tls_watch import TlsInUse
from tools.config.weights import WeightsProblem, weights_facts
from tools.link_options import max_queue
from tools.placing import NPU_PAGE_TOKENS, NoPlace, on_npu, places

if TYPE_CHECKING:
    from handlers.config_file import ConfigFile
    from handlers.config_reload import ConfigWatch
    from handlers.media.intake import Intake
    from handlers.service import Service
    from handlers.settings import Settings
    from tools.config.options import Chosen

DEFAULT_NAME: Final = "SmolLM2-135M-Instruct"
"""The name of the embedded default model."""

Parse = Callable[[Mapping[str, Any]], argparse.Namespace]
"""Reads the command line again, with other defaults."""
MakeSettings = Callable[[argparse.Namespace, str], "Settings"]


PATH_VARIABLE: Final = "MIES_CONFIG_JSON_PATH"
"""Names the config.json where the command line names neither it nor a model."""


class CannotStart(Exception):
    """The server cannot start; the message is for the operator."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def served(
    given: argparse.Namespace, parse: Parse, make_settings: MakeSettings, environment: Mapping[str, str]
) -> tuple[Service, list[Listener]]:
    """The service that a command line asks for, not yet started, and where it will listen.

    Raises:
        CannotStart: with the exit code.
    """
    chosen = _configured(given, environment)
    if chosen is None:
        return _modelled(given, make_settings)
    from tools.config.options import is_mock
    from tools.config.start import start_lines

    tell = teller(given.log_form)
    for line in start_lines(chosen):
        tell(line)
    first, given = given, parse(chosen.options)
    make = mocked if is_mock(chosen.file) else _modelled
    service, listeners = make(given, make_settings)
    service.watches.append(_watch(service, chosen.file, first, parse, make_settings, environment))
    return service, listeners


def _configured(given: argparse.Namespace, environment: Mapping[str, str]) -> Chosen | None:
    if given.config is None and PATH_VARIABLE not in environment:
        return None
    from handlers.config_file import ConfigError
    from tools.config.start import configured

    try:
        return configured(given, environment)
    except ConfigError as error:
        raise CannotStart(exit_codes.CONFIG, str(error)) from None
    except WeightsProblem as error:
        raise CannotStart(exit_codes.WEIGHTS, f"mindspec: {error}") from None


def _watch(
    service: Service,
    file: ConfigFile,
    first: argparse.Namespace,
    parse: Parse,
    make_settings: MakeSettings,
    environment: Mapping[str, str],
) -> Callable[[], ConfigWatch]:
    """What follows the file of a running server."""
    from handlers.config_file import ConfigError, Fault
    from handlers.config_reload import ConfigWatch
    from tools.config.start import configured

    def reread() -> tuple[ConfigFile, Settings]:
        try:
            chosen = configured(first, environment)
        except WeightsProblem as error:
            raise ConfigError(file.path, [Fault("", str(error))]) from None
        assert chosen is not None
        return chosen.file, make_settings(parse(chosen.options), service.settings.model_name)

    return lambda: ConfigWatch(service, file, reread, service.settings.logs.level)


def mocked(given: argparse.Namespace, make_settings: MakeSettings) -> tuple[Service, list[Listener]]:
    """A service of made-up text.

    Raises:
        CannotStart: with the exit code.
    """
    from engine.mock_front import MockFront
    from engine.text.byte_tokenizer import mock_tokenizer
    from engine.text.reasoning import thinking_family
    from handlers.service import Service

    settings = make_settings(given, given.model_name or "mock")
    settings = replace(settings, engine=replace(settings.engine, instance_type="StandardMock"))
    delay_s = getattr(given, "step_delay_ms", 0.0) / 1000
    limits = Limits(max_batch_size=given.max_batch_size, max_queue=max_queue(given))
    keys, tls = _guards(settings)
    thinking = thinking_family(settings.reasoning_parser)
    tokenizer = None if thinking is None else mock_tokenizer(special_tokens=thinking.markers)
    front = MockFront(tokenizer, limits=limits, step_delay_s=delay_s, adapters=_adapters(settings))
    return Service(settings, front, keys=keys, tls=tls), _listeners(settings, tls)


def _modelled(given: argparse.Namespace, make_settings: MakeSettings) -> tuple[Service, list[Listener]]:
    """A service of a model folder, or of the embedded default model."""
    folder, size_bytes = _folder(given)
    try:
        tokenizer = tokenizer_from_folder(folder)
    except (OSError, ValueError) as error:
        raise CannotStart(exit_codes.WEIGHTS, f"mindspec: the tokenizer of {folder} cannot be used: {error}") from None
    name = given.model_name or (DEFAULT_NAME if given.model is None else folder.name)
    settings = replace(make_settings(given, name), weights_name=folder.name)
    keys, tls = _guards(settings)
    fronts = _fronts(given, folder, size_bytes, tokenizer, settings)
    media = _media(folder, settings)
    listeners = _listeners(settings, tls)
    try:
        for each in fronts:
            each.begin()
    except OSError as error:
        reason = f"mindspec: the engine process cannot be started: {error}"
        raise CannotStart(exit_codes.CRASH_LOOP, reason) from None
    # The engine loads beside these, which take nearly a second.
    from handlers.defaults import ModelDefaults
    from handlers.service import Service

    front = fronts[0] if len(fronts) == 1 else MultiFront(fronts)
    defaults = ModelDefaults.read(folder) if given.generation_config else ModelDefaults()
    return Service(settings, front, defaults, keys=keys, tls=tls, media=media), listeners


def _media(folder: Path, settings: Settings) -> Intake | str | None:
    """What reads media for a model that takes any, or why none are read."""
    if model_type(folder) not in INPUTS:
        return None
    missing = missing_packages()
    if missing:
        named = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        tell = teller(settings.logs.form, logging.WARNING)
        tell(f"mindspec: the model takes more than text, but {named}: pip install 'mindspec[media]'; text is served")
        return f"This deployment reads text only, since {named} (pip install 'mindspec[media]')"
    from handlers.media.intake import Intake

    if not settings.media.domains:
        tell = teller(settings.logs.form)
        tell("mindspec: no media are fetched over the network: ALLOWED_MEDIA_DOMAINS_ENV and mediaDomains list no host")
    try:
        return Intake.of(settings.media, folder)
    except OSError as error:
        where = settings.media.spool_folder or "the system's folder for temporary files"
        reason = f"mindspec: no folder for the media of requests can be made in {where}: {error.strerror}"
        raise CannotStart(exit_codes.CONFIG, reason) from None


def _guards(settings: Settings) -> tuple[KeyBook, TlsInUse]:
    """The keys and the TLS files of a start."""
    try:
        tls = TlsInUse.load(served_with(settings.tls, addresses(settings.host, settings.port, settings.planes)))
        return KeyBook(settings.access, os.environ), tls
    except (KeysError, TlsError) as error:
        raise CannotStart(exit_codes.CONFIG, f"mindspec: {error}") from None


def _listeners(settings: Settings, tls: TlsInUse) -> list[Listener]:
    try:
        return open_listeners(settings, tls.contexts)
    except ListenError as error:
        raise CannotStart(error.exit_code, f"mindspec: {error}") from None


def _folder(given: argparse.Namespace) -> tuple[Path, int]:
    """The model's folder and the size of its weights, in bytes."""
    from tools.weights import ensure_default_model
    from tools.weights_source import WeightsError

    try:
        folder: Path = given.model or ensure_default_model(teller(given.log_form))
        facts = weights_facts(folder)
    except (WeightsError, WeightsProblem) as error:
        raise CannotStart(exit_codes.WEIGHTS, f"mindspec: {error}") from None
    why = refusal(facts.heads, given.world_size, folder.name)
    if why is not None:
        raise CannotStart(exit_codes.CONFIG, f"mindspec: worldSize {why}.")
    return folder.resolve(), facts.size_bytes


def _adapters(settings: Settings) -> AdapterBook:
    try:
        return adapter_book(settings)
    except AdapterError as error:
        raise CannotStart(exit_codes.CONFIG, f"mindspec: {error}") from None


def _fronts(
    given: argparse.Namespace, folder: Path, size_bytes: int, tokenizer: TextTokenizer, settings: Settings
) -> list[ProcessFront]:
    """One for each instance."""
    tell = teller(settings.logs.form)
    devices = _devices(given, settings.instances, tell)
    memory_bytes = None if given.npu_mem_size is None else int(given.npu_mem_size * 2**30)
    fraction = None if memory_bytes is not None else given.npu_memory_fraction
    if fraction is not None and not on_npu(given.device) and not given.device.startswith("cuda"):
        # Before the weights are read; a card's memory is asked in the engine process.
        memory_bytes, fraction = fraction_bytes(fraction, size_bytes) // settings.engine.world_size, None
    spec = EngineSpec(
        "engine.packed_loader:load_executor",
        {
            "path": str(folder),
            "dtype": given.dtype,
            "trust_remote_code": given.trust_remote_code,
            "page_size": given.cache_block_size,
            "memory_bytes": memory_bytes,
            "memory_fraction": fraction,
            "max_batch_size": given.max_batch_size,
            "max_prefill_batch_size": settings.engine.max_prefill_batch_size,
            "max_prefill_tokens": given.max_prefill_tokens,
            "prefill_chunk_size": given.prefill_chunk_size,
            "apart": given.template_type == "Standard",
            "max_partial_prefills": given.max_num_partial_prefills,
            "max_long_partial_prefills": given.max_long_partial_prefills,
            "long_prefill_tokens": given.long_prefill_token_threshold,
            "prefix_cache": given.prefix_cache,
            "draft_tokens": given.draft_tokens,
            "encoder_slice_ms": given.encoder_slice_ms,
            "encoder_cache_bytes": given.encoder_cache_mb << 20,
            "deterministic": given.deterministic,
            "adapters": bool(given.lora or given.lora_dir),
            "cpu_step": given.cpu_step,
            "cpu_variant": given.cpu_variant,
            "cpu_weights": given.cpu_weights,
        },
        threads=given.threads,
        ranks=settings.engine.world_size,
        log_level=level_number(settings.logs.level),
        log_form=settings.logs.form,
        log_stream=settings.logs.stream,
        trace=given.trace,
    )
    limits = Limits(max_batch_size=given.max_batch_size, max_queue=max_queue(given))
    hang = HangLimits(settings.health.engine_stall_s, given.engine_step_limit)
    spec = divided(spec, settings.instances)
    specs = [replace(spec, kwargs={**spec.kwargs, "device": device}) for device in devices]
    if on_npu(given.device):
        # What instances on other cards have is no part of it.
        specs = [replace(each, memory_share=1 / devices.count(each.kwargs["device"])) for each in specs]
    return [
        ProcessFront(tokenizer, each, limits=limits, hang=hang, adapters=_adapters(settings), on_progress=tell)
        for each in specs
    ]


def _devices(given: argparse.Namespace, instances: int, tell: Callable[[str], None]) -> list[str | None]:
    """Of each instance; see ``places``."""
    if given.npu_device_ids is not None and given.device != "npu" and (given.device != "auto" or not on_npu("auto")):
        why = "torch_npu is not installed" if given.device == "auto" else f"--device {given.device} was asked for"
        tell(f"npuDeviceIds has no effect: {why}.")
    if on_npu(given.device) and given.cache_block_size != NPU_PAGE_TOKENS:
        reason = (
            f"cacheBlockSize is {given.cache_block_size}; on an NPU it must be {NPU_PAGE_TOKENS}, torch_npu's block."
        )
        raise CannotStart(exit_codes.CONFIG, f"mindspec: {reason}")
    try:
        return places(given.device, given.npu_device_ids, instances, os.environ, given.world_size)
    except NoPlace as error:
        raise CannotStart(exit_codes.CONFIG, f"mindspec: {error}") from None


def teller(form: str, level: int = logging.INFO) -> Callable[[str], None]:
    """What prints a sentence on standard error, in the form of the log."""
    if form != "json":
        return partial(say, stream=sys.stderr)
    lines = LOG_FORMS[form]("server")

    def tell(sentence: str) -> None:
        say(lines.format(logging.LogRecord(__name__, level, "", 0, sentence, None, None)), sys.stderr)

    return tell
