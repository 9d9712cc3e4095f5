"""Makes the service and the application of `mindspec mock` from its command line."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from handlers import exit_codes
from handlers.answer_forms import AUTO, NONE
from tools.serving import CannotStart, MakeSettings, mocked

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from handlers.listeners import Listener
    from handlers.service import Service
    from handlers.settings import Settings
    from tools.mock.script import Script

_THINKS: Final = "qwen3"
"""How a mock marks the thinking of its script, unless it is told."""


class MockStart:
    """Makes the service, and then the application around it."""

    def __init__(self, make_settings: MakeSettings) -> None:
        self._make_settings = make_settings
        self._script: Script | None = None

    def service(self, given: argparse.Namespace) -> tuple[Service, list[Listener]]:
        """The service, and where it listens.

        Raises:
            CannotStart: with the exit code.
        """
        return mocked(given, self._settings)

    def app(self, service: Service) -> ASGIApp:
        """The application, which knows the script."""
        from tools.mock.app import mock_app

        return mock_app(service, self._script)

    def _settings(self, given: argparse.Namespace, model_name: str) -> Settings:
        """Those of the command line, and what the script asks for besides."""
        settings = self._make_settings(given, model_name)
        if given.script is None:
            return settings
        from tools.mock.script import ScriptError, read_script

        try:
            self._script = script = read_script(given.script, settings.deployment())
        except ScriptError as error:
            lines = [f"mindspec: {line}" for line in str(error).splitlines()]
            raise CannotStart(exit_codes.CONFIG, "\n".join(lines)) from None
        if not script.thinks or settings.reasoning_parser not in (AUTO, NONE):
            return settings
        if settings.reasoning_parser == NONE:
            message = f"{given.script} has reasoning_content, which --reasoning-parser none leaves no place for"
            raise CannotStart(exit_codes.CONFIG, f"mindspec: {message}")
        return replace(settings, reasoning_parser=_THINKS)
