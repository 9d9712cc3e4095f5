"""Emits spec/parameters.md: every parameter of every operation with its range, default, null and source."""

from __future__ import annotations

from tools.docs.facts import all_facts
from tools.generate.shapes import Contract
from tools.generate.write import render


def table(contract: Contract) -> str:
    """The text of the file."""
    return render("parameters.md.j2", operations=list(all_facts(contract)), cell=_cell)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
