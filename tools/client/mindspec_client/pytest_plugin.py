"""The pytest plugin: the fixture ``mindspec_mock``, a mock server for the whole session, and its options.

Loaded at every start of pytest, so nothing that takes time is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import pytest

from . import mock

URL_VARIABLE: Final = "MINDSPEC_URL"
"""Names a server that runs already."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line win over those of the ini file."""
    group = parser.getgroup("mindspec", "mock of the MindIE LLM API")
    group.addoption("--mindspec-url", metavar="URL", help=f"use this server instead of a mock (or {URL_VARIABLE})")
    group.addoption("--mindspec-profile", metavar="NAME,...", help="what kind of MindIE the mock refuses like")
    group.addoption("--mindspec-script", metavar="FILE", help="what the mock answers (mindspec mock --script)")
    parser.addini("mindspec_command", "what starts mindspec; found by itself if absent", default="")
    parser.addini("mindspec_profile", "what kind of MindIE the mock refuses like, such as deepseek", default="")
    parser.addini("mindspec_script", "a file, from the root folder, that says what the mock answers", default="")
    parser.addini("mindspec_options", "more options of `mindspec mock`", type="args", default=[])
    parser.addini("mindspec_model", "the model's name where MINDSPEC_URL names a server", default="mock")
    parser.addini("mindspec_start_timeout", "seconds until the mock must answer", default="60")
    parser.addini("mindspec_missing", "without a mindspec: fail, or skip", default="fail")


def mock_options(config: pytest.Config) -> list[str]:
    """The options of ``mindspec mock`` that a configuration of pytest gives."""
    profile = config.getoption("--mindspec-profile") or config.getini("mindspec_profile")
    script = config.getoption("--mindspec-script")
    written = config.getini("mindspec_script")
    path = config.invocation_params.dir / script if script else config.rootpath / written if written else None
    found = ["--profile", profile] if profile else []
    found += ["--script", str(path)] if path is not None else []
    return [*found, *config.getini("mindspec_options")]


@pytest.fixture(scope="session")
def mindspec_mock(request: pytest.FixtureRequest) -> Iterator[mock.Mock]:
    """A mock server of the MindIE LLM API: ``base_url`` for the openai package, ``url``, ``model``."""
    config = request.config
    missing = str(config.getini("mindspec_missing"))
    if missing not in ("fail", "skip"):
        raise pytest.UsageError(f"mindspec_missing is {missing!r}; it must be fail or skip")
    url = config.getoption("--mindspec-url") or os.environ.get(URL_VARIABLE)
    if url:
        yield mock.running(url, config.getini("mindspec_model"))
        return
    try:
        timeout_s = float(config.getini("mindspec_start_timeout"))
    except ValueError:
        raise pytest.UsageError("mindspec_start_timeout must be a number of seconds") from None
    try:
        with mock.started(mock_options(config), config.getini("mindspec_command") or None, timeout_s) as server:
            yield server
    except mock.MockMissing as error:
        if missing == "skip":
            pytest.skip(str(error))
        pytest.fail(f"{error} (mindspec_missing = skip skips these tests)", pytrace=False)
    except mock.MockFailed as error:
        pytest.fail(str(error), pytrace=False)
