"""A config.json that changes while the server runs: what reloads, what waits for a restart, what is broken."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from config_samples import MOCK, SCHEDULE, changed, written

from engine.mock_front import MockFront
from handlers.config_file import ConfigFile, read_config
from handlers.config_reload import ConfigWatch
from handlers.service import Service
from handlers.settings import Settings
from tests.in_process import started
from tools.config.options import choose


class Clock:
    """The local time, as the test wants it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, 0, 0)

    def __call__(self) -> datetime:
        """The time."""
        return self.now


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    """The log level is taken back."""
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


def watched(folder: Path, changes: dict[str, Any], clock: Clock) -> tuple[Service, ConfigWatch]:
    """A service of a file, and what watches it."""
    file = read_config(written(folder, changed(MOCK, changes)))

    def reread() -> tuple[ConfigFile, Settings]:
        found = read_config(file.path)
        options = choose(found, {}, None).options
        names = ("open_ai_support", "token_timeout", "e2e_timeout", "max_n")
        return found, Settings(model_name="mock", **{name: options[name] for name in names if name in options})

    service = Service(reread()[1], MockFront())
    return service, ConfigWatch(service, file, reread, "warning", clock)


async def test_open_ai_support_and_timeouts_change_at_once(tmp_path: Path) -> None:
    """The next refusal has the new form, the next request the new time."""
    service, watch = watched(tmp_path, {}, Clock())
    async with started(service) as client:
        assert "error_type" in (await client.post("/v1/completions", json={})).json()
        written(tmp_path, changed(MOCK, {"ServerConfig.openAiSupport": "x", "EnableDynamicAdjustTimeoutConfig": True}))
        await watch.look()
        assert list((await client.post("/v1/completions", json={})).json()) == ["error"]
        assert (service.timeouts.token_s, service.timeouts.whole_s) == (3600, 65535)


async def test_other_keys_are_named_as_waiting_for_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They keep their old values."""
    service, watch = watched(tmp_path, {f"{SCHEDULE}.maxN": 5}, Clock())
    written(tmp_path, changed(MOCK, {f"{SCHEDULE}.maxN": 50, "ServerConfig.openAiSupport": "openai"}))
    with caplog.at_level(logging.INFO):
        await watch.look()
    assert service.settings.max_n == 5
    assert service.settings.open_ai_support == "openai"
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "ServerConfig.openAiSupport is now 'openai'",
        "a restart is needed for what changed in BackendConfig.ScheduleConfig.maxN",
    ]


async def test_a_broken_file_keeps_the_old_values_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once; and when it is whole again, it counts."""
    service, watch = watched(tmp_path, {"ServerConfig.openAiSupport": "openai"}, Clock())
    written(tmp_path, changed(MOCK, {"ServerConfig.openAiSupport": 7}))
    await watch.look()
    await watch.look()
    assert service.openai_form
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{tmp_path / 'config.json'} cannot be used, the values before it stay: "
        "ServerConfig.openAiSupport: is 7; it must be a string of 0 to 256 characters"
    )
    written(tmp_path, MOCK)
    await watch.look()
    assert not service.openai_form


async def test_a_file_that_is_gone_keeps_the_old_values(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As an editor leaves it for a moment."""
    service, watch = watched(tmp_path, {"ServerConfig.openAiSupport": "openai"}, Clock())
    (tmp_path / "config.json").unlink()
    await watch.look()
    assert service.openai_form
    assert "cannot be read: No such file" in caplog.text


async def test_a_dynamic_level_holds_for_its_hours(tmp_path: Path) -> None:
    """Three hours of debug from when it was seen, then the level of the start again."""
    clock = Clock()
    _, watch = watched(tmp_path, {}, clock)
    assert logging.getLogger().level == logging.WARNING
    log = {"LogConfig.dynamicLogLevel": "DEBUG", "LogConfig.dynamicLogLevelValidHours": 3}
    written(tmp_path, changed(MOCK, log))
    levels = []
    for hours in (0, 2, 1):
        clock.now += timedelta(hours=hours)
        await watch.look()
        levels.append(logging.getLogger().level)
    assert levels == [logging.DEBUG, logging.DEBUG, logging.WARNING]


async def test_a_time_in_the_file_begins_the_hours(tmp_path: Path) -> None:
    """Begun at 10:30 with two hours, at 12:00 half an hour is left."""
    clock = Clock()
    log = {"LogConfig.dynamicLogLevel": "error", "LogConfig.dynamicLogLevelValidTime": "2026-01-01 10:30:00"}
    _, watch = watched(tmp_path, log, clock)
    assert logging.getLogger().level == logging.ERROR
    clock.now += timedelta(minutes=30)
    await watch.look()
    assert logging.getLogger().level == logging.WARNING


async def test_a_signal_reads_a_file_that_looks_the_same(tmp_path: Path) -> None:
    """``always``, as SIGHUP asks: even where size and time of change are equal nothing is missed, nothing breaks."""
    service, watch = watched(tmp_path, {"ServerConfig.openAiSupport": "openai"}, Clock())
    await watch.look(always=True)
    assert service.openai_form
