"""Loads one rank's part of a model behind the packed runner, in step with the other ranks."""

from __future__ import annotations

import logging
from pathlib import Path

from engine.devices import NoDevice, device_of_rank, find_device, runner_type
from engine.executor import RankLost
from engine.forward import ModelMismatch
from engine.loader import DeviceMissing, LoadError, load, try_out
from engine.parallel.group import join_group
from engine.parallel.ranks import Followers, Ranks
from engine.torch_runner import PAGE_SIZE, ReplacementMismatch, TorchRunner, build

_log = logging.getLogger(__name__)


def load_part(
    ranks: Ranks,
    path: Path,
    *,
    dtype: str = "auto",
    device: str | None = None,
    trust_remote_code: bool = False,
    page_size: int = PAGE_SIZE,
    memory_bytes: int | None = None,
    memory_share: float = 1.0,
    memory_fraction: float | None = None,
) -> TorchRunner:
    """Load this rank's part of the model at ``path``, compare it with its dense forward, and make as many pages as all.

    All ranks call this with the same arguments. Where replaced modules do not agree on some rank, no rank has any.

    Args:
        ranks: this one and the others.
        path: see :func:`engine.loader.load`, as for ``dtype`` and ``trust_remote_code``.
        device: of the first rank; the others take those after it, on a CPU the same. None takes the best kind.
        page_size: tokens of a page.
        memory_bytes: for keys and values, of each rank; None takes a share of what its device has.
        memory_share: this engine's part of that share, where several serve.
        memory_fraction: instead, of a card's memory, for all that is on it.

    Raises:
        LoadError: not a model that can be shared out so.
        RankFailure: another rank could not load.
        RankLost: another rank is gone.
    """
    name = device_of_rank(device, ranks.rank)
    try:
        target = find_device(name)
    except NoDevice as error:
        raise DeviceMissing(str(error)) from error
    join_group(ranks, target)
    # Ranks on CPUs share one memory.
    share = memory_share / ranks.size if target.type == "cpu" else memory_share

    def attempt(*, fuse: bool) -> TorchRunner | None:
        loaded = load(
            path, dtype=dtype, device=name, trust_remote_code=trust_remote_code, tried=False, ranks=ranks.size
        )
        ranks.exchange(None)  # nobody waits in a sum for one whose weights cannot be read
        runner: TorchRunner | None = None
        try:
            try_out(loaded, path.name)
            runner = build(
                loaded,
                page_size=page_size,
                memory_bytes=memory_bytes,
                memory_share=share,
                memory_fraction=memory_fraction,
                fuse=fuse,
                kind=runner_type(target),
                least=lambda pages: min(ranks.exchange(pages)),
            )
        except ReplacementMismatch as mismatch:
            if not fuse:
                raise
            _log.warning("%s runs without replaced modules: %s", loaded.info.architecture, mismatch)
        except (ModelMismatch, LoadError) as error:
            if isinstance(ranks, Followers):
                ranks.raise_failure()  # a sum that failed here failed since the other rank did
            if isinstance(error, LoadError):
                raise
            raise LoadError(f"The model {path.name!r} cannot run on {ranks.size} devices: {error}") from error
        return runner if all(ranks.exchange(runner is not None)) else None

    try:
        runner = attempt(fuse=True) or attempt(fuse=False)
    except ReplacementMismatch as error:
        raise LoadError(f"The model {path.name!r} cannot run on {ranks.size} devices: {error}") from error
    if runner is None:
        raise RankLost("the ranks do not agree on how the model runs")
    return runner
