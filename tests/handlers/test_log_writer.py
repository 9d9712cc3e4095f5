"""Where log lines go: one writer for everything, which never holds an answer up."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from handlers.log_settings import MAX_UNWRITTEN, LogSettings, configure, level_number, log_lines_lost, set_level


@pytest.fixture(autouse=True)
def root_as_before() -> Iterator[None]:
    """The root logger's level and handlers come back."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    logging.captureWarnings(False)
    root.setLevel(level)
    root.handlers[:] = handlers


def test_everything_goes_through_one_writer_in_one_form() -> None:
    """uvicorn's lines and Python's warnings too."""
    stream = io.StringIO()
    writer = configure(LogSettings(form="json"), stream)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("engine.front_base").info("the engine is %s", "ready")
    logging.getLogger("x").debug("not at this level")
    writer.close()

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["level"], line["logger"], line["event"]) for line in lines] == [
        ("warning", "uvicorn.error", "Invalid HTTP request received."),
        ("info", "engine.front_base", "the engine is ready"),
    ]


def test_the_level_changes_while_the_server_runs() -> None:
    """In any letter case, MindIE's "warn" included."""
    stream = io.StringIO()
    writer = configure(LogSettings(level="error"), stream)
    log = logging.getLogger("x")
    log.warning("one")
    set_level("WARN")
    log.warning("two")
    set_level("critical")
    log.error("three")
    writer.close()

    assert [line.split(": ")[1] for line in stream.getvalue().splitlines()] == ["two"]


def test_a_level_that_is_none_is_refused() -> None:
    """With the list of all."""
    with pytest.raises(ValueError, match="'loud' is none of debug, info, warn, warning, error, critical"):
        level_number("loud")


class Stuck(io.StringIO):
    """A stream whose reader stands still until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def write(self, text: str) -> int:
        """Wait for the reader."""
        self.go_on.wait()
        return super().write(text)


def test_a_reader_that_stands_still_costs_lines_and_no_time() -> None:
    """What is beyond the bound is counted; the rest comes when the reader goes on."""
    stream = Stuck()
    writer = configure(LogSettings(), stream)
    log = logging.getLogger("x")
    for _ in range(2 * MAX_UNWRITTEN + 5):
        log.info("line")
    lost = log_lines_lost()
    stream.go_on.set()
    writer.close()

    # The thread may have taken the first lines before it got stuck.
    assert 5 <= lost <= MAX_UNWRITTEN + 5
    assert len(stream.getvalue().splitlines()) == 2 * MAX_UNWRITTEN + 5 - lost


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, text: str) -> int:
        """Nothing can be written."""
        raise OSError(28, "No space left on device")


def test_a_full_disk_costs_lines_and_nothing_else() -> None:
    """Whoever logs is not told; the metric is."""
    writer = configure(LogSettings(), Full())
    logging.getLogger("x").info("one")
    writer.close()

    assert writer.lost == 1
