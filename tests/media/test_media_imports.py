"""What a deployment for text only must not need: the packages that read media, and torch beside the engine."""

from __future__ import annotations

import subprocess
import sys

MODULES = "handlers.app, tools.cli, tools.serving, engine.multimodal.family, handlers.media.intake, handlers.media.pool"
NOT_NEEDED = ["PIL", "av", "soundfile", "soxr", "httpcore", "torchvision", "torch", "transformers"]


def test_the_http_side_imports_nothing_that_reads_media() -> None:
    """Neither the application nor the command line has a package of the extra `media`, or torch, in memory."""
    program = f"import sys, {MODULES}; print([name for name in {NOT_NEEDED} if name in sys.modules])"

    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert shown.strip() == "[]"
