"""Both forms of log lines: one event is one line, whatever a client wrote."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log_form import FIELD_MOST, LOG_FORMS, PRIVATE, TEXT_MOST, JsonForm, TextForm

ANY_TEXT = st.text(st.characters(codec=None))


def record(message: str, fields: dict[str, Any] | None = None, **more: Any) -> logging.LogRecord:
    """A record of an info line."""
    made = logging.LogRecord("a.b", logging.INFO, __file__, 1, message, (), None)
    made.created = 1_700_000_000.25
    made.__dict__.update({"fields": fields, **more})
    return made


def failed(text: str, **more: Any) -> logging.LogRecord:
    """A record of an exception with this text."""
    try:
        raise ValueError(text)
    except ValueError as error:
        made = record("it failed", **more)
        made.exc_info = (type(error), error, error.__traceback__)
        return made


def test_the_text_form_is_time_level_source_logger_message_and_fields() -> None:
    """A value with a space, a quote or an equals sign is quoted; None is left out."""
    fields = {"status": 200, "model": "a b", "id": "x-1", "odd": 'a"=', "none": None, "empty": ""}
    line = TextForm("server").format(record("request", fields))

    assert line == (
        '2023-11-14T22:13:20.250Z INFO    server a.b: request status=200 model="a b" id=x-1 odd="a\\"=" empty=""'
    )


def test_the_json_form_is_one_object() -> None:
    """Numbers stay numbers."""
    line = JsonForm("engine").format(record("request", {"status": 200, "model": "a b", "none": None}))

    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "source": "engine",
        "logger": "a.b",
        "event": "request",
        "status": 200,
        "model": "a b",
    }


@pytest.mark.parametrize("form", sorted(LOG_FORMS))
@given(message=ANY_TEXT, value=ANY_TEXT)
def test_no_string_makes_a_second_line_or_moves_a_terminal(form: str, message: str, value: str) -> None:
    """Line ends, escape sequences, marks of direction and lone surrogates are written as escapes."""
    line = LOG_FORMS[form]("server").format(record(message.replace("%", "%%"), {"value": value}))

    assert line.isprintable()


@given(text=ANY_TEXT)
def test_an_exceptions_text_cannot_look_like_a_line(text: str) -> None:
    """Every line of a stack trace is indented, and nothing in it is unprintable."""
    first, *rest = TextForm("server").format(failed(text)).split("\n")

    assert first.endswith("a.b: it failed")
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


@pytest.mark.parametrize("form", sorted(LOG_FORMS))
def test_a_private_exception_shows_where_it_came_from_and_not_its_text(form: str) -> None:
    """Unless the log may show what clients send."""
    hidden = LOG_FORMS[form]("server").format(failed("my secret", **PRIVATE))
    shown = LOG_FORMS[form]("server", prompts=True).format(failed("my secret", **PRIVATE))

    assert "ValueError" in hidden
    assert "test_log_form.py" in hidden
    assert "secret" not in hidden
    assert "ValueError: my secret" in shown


@pytest.mark.parametrize("form", sorted(LOG_FORMS))
def test_lengths_are_bounded(form: str) -> None:
    """A megabyte of a client's makes no megabyte of log."""
    line = LOG_FORMS[form]("server").format(record("m" * 10**6, {"path": "p" * 10**6, "prompt": "q" * 10**6}))

    assert len(line) < 2 * TEXT_MOST + FIELD_MOST + 200
    assert "p" * FIELD_MOST + "..." in line
