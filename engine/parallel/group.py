"""Puts the ranks of one model into one group of torch.distributed, on this machine."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import torch
from torch import distributed

from engine.loader import LoadError
from engine.parallel.ranks import Ranks

BACKENDS: Final[Mapping[str, str]] = {"npu": "hccl", "cuda": "nccl", "cpu": "gloo"}
"""What adds up tensors over the ranks, by kind of device."""
TIMEOUT: Final = timedelta(days=1)
"""A sum fails after so long. The front, which knows what a step may take, ends a hanging one much sooner."""
_LOOPBACK: Final = "127.0.0.1"


def join_group(ranks: Ranks, device: torch.device) -> None:
    """Join the group of all ranks, which is the process's default one; all ranks do so at the same time. Again is fine.

    They find each other by a store in the first rank, which listens on the loopback address alone, and so does gloo.

    Raises:
        LoadError: this torch cannot do it.
        RankFailure, RankLost: as in ``Ranks.exchange``.
    """
    backend = BACKENDS.get(device.type)
    if backend is None or not distributed.is_available() or not distributed.is_backend_available(backend):
        raise LoadError(f"This torch cannot share a model out over several {device.type} devices: worldSize 1 runs it.")
    if distributed.is_initialized():
        return
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # Where transformers puts this rank's weights.
    os.environ["LOCAL_RANK"] = str(device.index or 0)
    if ranks.rank == 0:
        listener = socket.create_server((_LOOPBACK, 0))
        port = listener.getsockname()[1]
        store = distributed.TCPStore(  # type: ignore[attr-defined]  # torch does not list it
            _LOOPBACK, port, ranks.size, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
        )
        ranks.exchange(port)
    else:
        port = ranks.exchange(None)[0]
        store = distributed.TCPStore(  # type: ignore[attr-defined]  # as above
            _LOOPBACK, port, ranks.size, is_master=False, wait_for_workers=False
        )
    distributed.init_process_group(backend, store=store, rank=ranks.rank, world_size=ranks.size, timeout=TIMEOUT)
