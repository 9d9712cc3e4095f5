"""A rank that is not the first: it loads its part of the model and does what the first one orders."""

from __future__ import annotations

import gc
from pathlib import Path

from engine.parallel.loading import load_part
from engine.parallel.ranks import Answer, CopyBeginning, CopyPages, Failed, Leader, Run
from engine.plan import ModelRunner
from engine.torch_runner import PAGE_SIZE


def follow(
    leader: Leader,
    path: str,
    *,
    dtype: str = "auto",
    device: str | None = None,
    trust_remote_code: bool = False,
    page_size: int = PAGE_SIZE,
    memory_bytes: int | None = None,
    memory_share: float = 1.0,
    memory_fraction: float | None = None,
) -> None:
    """The life of a follower: load, then obey until the first rank is gone.

    Args:
        leader: the first rank.
        path: see :func:`engine.parallel.loading.load_part`, as for what follows; the same as the first rank's.

    Raises:
        RankLost: the first rank is gone.
    """
    try:
        runner = load_part(
            leader,
            Path(path),
            dtype=dtype,
            device=device,
            trust_remote_code=trust_remote_code,
            page_size=page_size,
            memory_bytes=memory_bytes,
            memory_share=memory_share,
            memory_fraction=memory_fraction,
        )
    except Exception as error:
        leader.say(Failed(str(error) or type(error).__name__, getattr(error, "load_failure_cause", "other")))
        raise
    gc.freeze()
    gc.enable()
    obey(leader, runner)


def obey(leader: Leader, runner: ModelRunner) -> None:
    """Carry out orders until the first rank is gone; its end of a failed one is the process's.

    Raises:
        RankLost: the first rank is gone.
    """
    while True:
        match leader.hear():
            case Run(plan):
                runner.run(plan)
            case CopyPages(source, target):
                runner.copy_pages(source, target)
            case CopyBeginning(source, target, tokens):
                runner.copy_beginning(source, target, tokens)
            case Answer() as answer:
                leader.say(answer)
            case order:
                raise TypeError(f"no order: {order!r}")
