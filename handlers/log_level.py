"""The log level of this process, which may change while it runs."""

from __future__ import annotations

import logging


def set_level(name: str) -> None:
    """Log lines from this level on: debug, info, warn, warning, error or critical, in any letter case."""
    logging.getLogger().setLevel({"warn": "WARNING"}.get(name.lower(), name.upper()))
