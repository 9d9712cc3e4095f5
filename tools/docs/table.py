"""Tables of parameters: spec/parameters.md, and the one that closes an operation's description."""

from __future__ import annotations

from tools.docs.facts import Fact, all_facts
from tools.docs.wording import Wording
from tools.generate.shapes import Contract
from tools.generate.write import render


def table(contract: Contract) -> str:
    """The text of the file."""
    return render("parameters.md.j2", operations=list(all_facts(contract)), cell=_cell)


def folded(rows: list[Fact], say: Wording) -> str:
    """The parameters of one operation, nested ones too, behind a line that opens them; without their meaning."""
    lines = [say.head, "| --- | --- | --- | --- |"]
    for row in rows:
        name = f"`{row.path}`{f' {say.needed}' if row.required else ''}"
        lines.append(f"| {name} | {_cell(row.allowed)} | {_cell(row.default)} | {row.source} |")
    return (
        f"<details>\n<summary>All {len(rows)} parameters as a table</summary>\n\n" + "\n".join(lines) + "\n\n</details>"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
