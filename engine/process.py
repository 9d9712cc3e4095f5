"""The engine process: it loads an executor, obeys the front's commands and runs rounds until the front is gone.

Where several ranks share a model it is the first of them; the others are processes like it, which follow it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import logging
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from engine.executor import Executor, RankLost
from engine.heap import IDLE_S, trimmer
from engine.log_form import LOG_FORMS
from engine.lora_loading import AdapterLoading
from engine.parallel.ranks import Followers, Leader
from engine.scheduler import EngineBroken, Scheduler
from engine.types import LoadFailureCause
from engine.wire import (
    Channel,
    LoadAdapter,
    LoadFailed,
    LoadProgress,
    LongStep,
    Ping,
    Quit,
    Ready,
    Round,
    SetLogLevel,
    UnloadAdapter,
)
from engine.without_torchvision import leave_out_torchvision

KEPT_PRODUCTS = 256
"""Matrix products, by shape, whose machine code stays: those of some fifty numbers of rows."""
KEPT_PREPARED = 64
"""Products by shape that torch keeps prepared."""
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Which executor an engine process runs, by name, so that only that process imports what it needs."""

    factory: str
    """``"module:function"``. It is called with ``kwargs`` and returns an Executor; one that has a parameter
    ``on_progress`` also gets a function to call with sentences while it loads, one that has ``on_long_step`` a function
    to call with the expected processor time before a long step, and one that has ``threads`` the number that was asked
    for, or None. What it raises, it says in a sentence.
    """
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Picklable."""
    max_batch_size: int = 64
    """Sequences that run at the same time."""
    max_queue: int | None = None
    """Requests that may wait for room; None: any number."""
    threads: int | None = None
    """For arithmetic; None takes OMP_NUM_THREADS, and without that all usable cores. See :mod:`engine.step_threads`."""
    memory_share: float = 1.0
    """This process's part of the memory that nobody has set a size for; factories that have it get it."""
    ranks: int = 1
    """Processes that share the model; the first is the engine process."""
    follower: str = "engine.parallel.follower:follow"
    """``"module:function"`` of the others, which never returns: called with an ``engine.parallel.ranks.Leader`` and
    those of ``kwargs`` and of the factory's further arguments that it has parameters for."""
    log_level: int = logging.WARNING
    log_form: str = "text"
    """A key of ``LOG_FORMS``."""
    log_stream: str = "stderr"
    """Or "stdout"."""
    trace: bool = True
    """Log where a failure to load came from; its sentence is told in any case."""


def usable_cores() -> int:
    """Cores that this process may use: its affinity, and the quota of its control group where there is one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = _CPU_QUOTA.read_text().split()
        if quota != "max":
            cores = min(cores, math.ceil(int(quota) / int(period)))
    return max(1, cores)


def _threads_by_environment() -> int | None:
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def divided(spec: EngineSpec, instances: int) -> EngineSpec:
    """The spec of one of several engines, each of so many ranks, that share this machine's cores and memory."""
    processes = instances * spec.ranks
    if processes == 1:
        return spec
    threads = spec.threads or _threads_by_environment() or usable_cores()
    return replace(spec, threads=max(1, threads // processes), memory_share=spec.memory_share / instances)


def run_engine(front: socket.socket, spec: EngineSpec, pipes: Sequence[Connection] = ()) -> None:
    """The whole life of an engine process. ``front`` is its end of the socket to the front, ``pipes`` are to the other
    ranks."""
    _prepare(spec, "engine")
    channel = Channel(front)
    followers = Followers(pipes) if pipes else None
    # A front that is gone needs no answer.
    with contextlib.suppress(EOFError, ConnectionError):
        try:
            executor = _load(spec, channel, followers)
            if executor is not None:
                scheduler = Scheduler(executor, spec.max_batch_size, max_queue=spec.max_queue)
                channel.send(Ready(executor.info, scheduler.stats))
                serve(channel, scheduler, executor, followers)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:
            _end(error)


def run_follower(pipe: Connection, spec: EngineSpec, rank: int) -> None:
    """The whole life of a process of another rank. ``pipe`` is to the first one."""
    _prepare(spec, f"engine rank {rank}")
    leader = Leader(pipe, rank, spec.ranks)
    try:
        follow = _prepared_factory(spec, spec.follower, {"memory_share": spec.memory_share})
        with contextlib.suppress(RankLost):
            follow(leader)
    except Exception as error:
        _end(error)


def _end(error: Exception) -> NoReturn:
    """End the process; else multiprocessing would print the exception, in its own form."""
    if isinstance(error, RankLost):
        logging.getLogger(__name__).critical("the engine process ends: %s", error)
    else:
        logging.getLogger(__name__).critical("the engine process ends", exc_info=error)
    raise SystemExit(1) from None


def _prepare(spec: EngineSpec, name: str) -> None:
    """What any process of an engine does first."""
    # The front decides when to stop, also when a terminal or a service manager signals the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, name="parent-watch", daemon=True).start()
    handler = logging.StreamHandler(getattr(sys, spec.log_stream))
    handler.setFormatter(LOG_FORMS[spec.log_form](name))
    logging.basicConfig(level=spec.log_level, handlers=[handler])
    logging.captureWarnings(True)
    # Read when torch is first imported. Beside oneDNN's cache it has one of its own of what it prepared for each number
    # of rows, with 1,024 places: 0.1 to 0.4 GB within 200 requests. With 64 nothing becomes slower.
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(KEPT_PREPARED))


def serve(channel: Channel, scheduler: Scheduler, executor: Executor, followers: Followers | None = None) -> None:
    """Rounds and commands in turn, until ``Quit``; the rounds are the scheduler's, the adapters the executor's.

    Every round is answered, so that silence means trouble. A question is answered once ``followers`` have answered it.

    Raises:
        EOFError, ConnectionError: the front is gone.
        RankLost: a follower is gone.
        SystemExit: the executor is broken; its requests have been reported as failed.
    """
    adapters = AdapterLoading(executor, channel.wake)
    told = scheduler.stats
    trim, trimmed = trimmer(), False
    while True:
        idle = not scheduler.has_work
        commands = channel.receive(wait=idle, timeout_s=None if trimmed else IDLE_S)
        asked = Ping() in commands
        commands = [command for command in commands if command != Ping()]
        if idle and not commands and not trimmed:
            trim()
        trimmed = idle and (trimmed or not commands)
        for command in commands:
            match command:
                case Quit():
                    return
                case LoadAdapter():
                    adapters.start(command)
                case UnloadAdapter(number):
                    executor.unload_adapter(number)
                case SetLogLevel(level):
                    logging.getLogger().setLevel(level)
                case _:
                    scheduler.apply(command)
        for loaded in adapters.finish():
            channel.send(loaded)
        outputs = None
        if scheduler.has_work:
            try:
                outputs = scheduler.run_round()
            except EngineBroken as broken:
                channel.send(Round(broken.outputs))
                raise SystemExit(1) from broken
        if asked and followers is not None:
            followers.confirm()
        stats = scheduler.stats
        changed = stats != told
        if changed or asked or outputs is not None:
            channel.send(Round(outputs or [], stats if changed else None))
            told = stats


def _load(spec: EngineSpec, channel: Channel, followers: Followers | None = None) -> Executor | None:
    channel.send(LoadProgress("The engine process has started."))
    offered: dict[str, Any] = {
        "memory_share": spec.memory_share,
        "threads": spec.threads or _threads_by_environment(),
        "on_progress": lambda sentence: channel.send(LoadProgress(sentence)),
        "on_long_step": lambda expected_s: channel.send(LongStep(expected_s)),
        "followers": followers,
    }
    try:
        executor: Executor = _prepared_factory(spec, spec.factory, offered, all_kwargs=True)()
        gc.freeze()
    except (EOFError, ConnectionError, RankLost):
        raise
    except Exception as error:
        if spec.trace:
            logging.getLogger(__name__).exception("the engine did not load")
        channel.send(LoadFailed(str(error) or type(error).__name__, _cause(error)))
        return None
    finally:
        gc.enable()
    return executor


def _prepared_factory(
    spec: EngineSpec, place: str, offered: Mapping[str, Any], *, all_kwargs: bool = False
) -> Callable[..., Any]:
    """The function at ``place``, imported, with those of the arguments that it has parameters for.

    The garbage collector is off afterwards. ``spec.kwargs`` win over what is offered; with ``all_kwargs`` the function
    gets all of them.
    """
    threads = spec.threads or _threads_by_environment() or usable_cores()
    # Read when the numeric libraries are first imported: between the operators of a step threads wait actively for some
    # 50 us, since waking a sleeping one takes as long as many operators; longer and they take the core that HTTP needs.
    os.environ.update(OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="PASSIVE", KMP_BLOCKTIME="0", GOMP_SPINCOUNT="3000")
    # oneDNN keeps the code that it makes for each new number of rows, 1024 times unless told otherwise: 0.1 to 0.2 GB.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KEPT_PRODUCTS))
    # What is imported stays. Looking through it for garbage takes 0.6 s of a start, and later stops a round for
    # milliseconds, or for a third of a second.
    gc.disable()
    leave_out_torchvision()
    module_name, _, function_name = place.partition(":")
    function = getattr(importlib.import_module(module_name), function_name)
    gc.freeze()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
    parameters = inspect.signature(function).parameters
    given = {name: value for name, value in {**offered, **spec.kwargs}.items() if name in parameters}
    return partial(function, **({**spec.kwargs, **given} if all_kwargs else given))


def _cause(error: Exception) -> LoadFailureCause:
    """What a failure to load is about; exceptions that know it say so in ``cause``."""
    if isinstance(error, OSError):
        return "weights"
    cause: LoadFailureCause = getattr(error, "load_failure_cause", "other")
    return cause


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        # At once, since a long round or load would not notice; there is nobody left to tell and nothing to save.
        os._exit(1)
