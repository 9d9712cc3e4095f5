"""Makes the service and the application of `mindspec mock` from its command line."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from handlers import exit_codes
from handlers.answer_forms import AUTO, NONE
from tools.serving import CannotStart, MakeSettings, mocked

if TYPE_CHECKING:
    from handlers.listeners import Listener
    from handlers.server import MakeApp
    from handlers.service import Service
    from handlers.settings import Settings
    from tools.mock.script import Script

_THINKS: Final = "qwen3"
"""How a mock marks the thinking of its script, unless it is told."""


def mock_service(given: argparse.Namespace, make_settings: MakeSettings) -> tuple[Service, list[Listener], MakeApp]:
    """The service, where it listens, and what makes its application.

    Raises:
        CannotStart: with the exit code.
    """
    script: Script | None = None

    def with_script(given: argparse.Namespace, model_name: str) -> Settings:
        nonlocal script
        settings = make_settings(given, model_name)
        if given.script is None:
            return settings
        from tools.mock.script import ScriptError, read_script

        try:
            script = read_script(given.script, settings.deployment())
        except ScriptError as error:
            raise CannotStart(
                exit_codes.CONFIG, "\n".join(f"mindspec: {line}" for line in str(error).splitlines())
            ) from None
        if not script.thinks or settings.reasoning_parser not in (AUTO, NONE):
            return settings
        if settings.reasoning_parser == NONE:
            message = (
                f"mindspec: {given.script} has reasoning_content, which --reasoning-parser none leaves no place for"
            )
            raise CannotStart(exit_codes.CONFIG, message)
        return replace(settings, reasoning_parser=_THINKS)

    service, listeners = mocked(given, with_script)
    from tools.mock.app import mock_app

    return service, listeners, lambda service: mock_app(service, script)
