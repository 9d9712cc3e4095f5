"""What decodes media is not imported by the server's process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_modules_that_only_ask_the_processes_import_no_decoder() -> None:
    """A text deployment need not have them, and no hostile byte meets them here."""
    modules = "{'PIL', 'av', 'soundfile', 'soxr', 'torchvision', 'transformers'}"
    code = f"import sys, handlers.media.pool; assert not {modules} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
