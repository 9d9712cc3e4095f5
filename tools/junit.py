"""Writes JUnit XML as CI servers read it."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree

# Characters that XML 1.0 cannot hold, not even escaped.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Case:
    """One test case; at most one of ``failure``, ``error`` and ``skipped`` is given."""

    suite: str
    name: str
    time_s: float = 0.0
    kind: str = ""
    """Of the failure or error: the id of what is broken."""
    failure: str | None = None
    error: str | None = None
    """The case could not be judged."""
    skipped: str | None = None
    details: str = ""


def junit_xml(name: str, cases: Sequence[Case], now: datetime | None = None) -> str:
    """A document with one suite for each ``suite`` of the cases, in the order of their coming."""
    when = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S")
    root = ElementTree.Element("testsuites", name=_text(name))
    suites: dict[str, list[Case]] = {}
    for case in cases:
        suites.setdefault(case.suite, []).append(case)
    for number, (title, own) in enumerate(suites.items()):
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            id=str(number),
            name=_text(title) or "-",
            package=_text(name),
            timestamp=when,
            hostname=socket.gethostname() or "localhost",
            tests=str(len(own)),
            failures=str(sum(case.failure is not None for case in own)),
            errors=str(sum(case.error is not None for case in own)),
            skipped=str(sum(case.skipped is not None for case in own)),
            time=f"{sum(case.time_s for case in own):.3f}",
        )
        ElementTree.SubElement(suite, "properties")
        for case in own:
            _add(suite, case)
        ElementTree.SubElement(suite, "system-out")
        ElementTree.SubElement(suite, "system-err")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add(suite: ElementTree.Element, case: Case) -> None:
    names = {"name": _text(case.name), "classname": _text(case.suite) or "-", "time": f"{case.time_s:.3f}"}
    element = ElementTree.SubElement(suite, "testcase", names)
    if case.skipped is not None:
        ElementTree.SubElement(element, "skipped", message=_text(case.skipped))
    for tag, message in (("failure", case.failure), ("error", case.error)):
        if message is not None:
            told = ElementTree.SubElement(element, tag, message=_text(message), type=_text(case.kind))
            told.text = _text(case.details or message)


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
