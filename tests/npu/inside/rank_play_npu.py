"""``rank_play`` on the NPU's runner: both ranks import torch_npu, with kernels of ours behind its operators."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def use_npu_runner() -> object:
    """Let this process's ranks run on ``CpuNpuRunner``; the kernels last as long as what this gives."""
    sys.path[:0] = [str(HERE.parents[2]), str(HERE.parent), str(HERE), str(HERE.parents[1] / "engine")]
    import stand_in

    sys.path.append(str(stand_in.package(stand_in.VERSION)))
    sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)
    sys.modules.setdefault("torchvision", None)  # type: ignore[arg-type]  # None: it cannot be imported
    import kernels
    import torch
    import torch_npu  # noqa: F401
    from cpu_npu import CpuNpuRunner

    from engine.parallel import loading

    # The tensors are on the CPU, and transformers would put them on the accelerator that torch_npu has told torch of.
    torch._C._get_accelerator = lambda *_: torch.device("cpu")  # type: ignore[assignment]  # for this process
    loading.runner_type = lambda _: CpuNpuRunner  # type: ignore[assignment]  # for this process
    return kernels.register()


REGISTERED = use_npu_runner()
"""Made in both ranks: the second one imports the first one's main module."""

if __name__ == "__main__":
    from tests.engine import rank_play

    rank_play.main()
