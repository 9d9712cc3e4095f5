"""The table of keys is whole: every honoured key is acted on, every default is what holds without a file."""

from __future__ import annotations

import json
import re

import pytest

from generated.config_keys import KEYS
from tools.cli import _parser
from tools.config.options import HANDLED, OPTIONS

PATTERNS = {re.sub(r"\[\d+\]", "[]", key): option for key, option in OPTIONS.items()}
DEFAULTS = _parser().parse_args(["serve"])


def test_every_honoured_key_is_acted_on() -> None:
    """Once: as an option, or by a function."""
    honoured = {pattern for pattern, key in KEYS.items() if key.honoured}
    assert honoured == set(PATTERNS) | HANDLED
    assert not set(PATTERNS) & HANDLED


def test_named_keys_have_no_option() -> None:
    """What is said to do nothing does nothing."""
    named = {pattern for pattern, key in KEYS.items() if key.honoured is False}
    assert not named & (set(PATTERNS) | HANDLED)


@pytest.mark.parametrize("pattern", [pattern for pattern in PATTERNS if KEYS[pattern].default[:1] in '"0123456789tf-['])
def test_a_default_is_what_holds_without_a_file(pattern: str) -> None:
    """The option's own default, wherever the schema gives a constant."""
    try:
        expected = json.loads(KEYS[pattern].default)
    except ValueError:
        return  # in words
    assert getattr(DEFAULTS, PATTERNS[pattern]) == expected
