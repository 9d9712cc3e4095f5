"""The folder that holds everything this program downloads or derives."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """``$MINDSPEC_CACHE``, else ``mindspec`` in ``$XDG_CACHE_HOME``, else ``~/.cache/mindspec``."""
    own = os.environ.get("MINDSPEC_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache").absolute() / "mindspec"
