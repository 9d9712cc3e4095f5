"""Renders templates, formats Python, and writes the generated files or compares them with what is there."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


def render(template: str, **values: object) -> str:
    """A template of tools/templates filled in."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip
    return environment.get_template(template).render(**values)


def formatted(source: str, name: str) -> str:
    """Python source as ruff formats it, independent of any configuration file.

    Raises:
        RuntimeError: ruff is missing or refuses the source, which is then a fault of the generator.
    """
    options = [
        "--isolated",
        "--no-cache",
        "--line-length",
        "120",
        "--target-version",
        "py311",
        "--stdin-filename",
        name,
        "-",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", *options], input=source, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"ruff could not format {name}: {done.stderr.strip()}")
    return done.stdout


def write(files: dict[str, str], folder: Path) -> list[str]:
    """Write the files that changed; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, text in sorted(files.items()):
        path = folder / name
        if not path.exists() or path.read_bytes() != text.encode():
            path.write_bytes(text.encode())
            changed.append(name)
    return changed


def drift(files: dict[str, str], folder: Path) -> str:
    """A diff from the folder's files to what the spec gives now; empty when every byte agrees."""
    parts: list[str] = []
    for name, text in sorted(files.items()):
        path = folder / name
        old = path.read_bytes().decode("utf-8", "replace") if path.exists() else ""
        if old != text:
            lines = difflib.unified_diff(
                old.splitlines(), text.splitlines(), f"{name} (committed)", f"{name} (from the spec)", lineterm="", n=1
            )
            shown = [line if len(line) <= 300 else line[:300] + " ..." for line in lines]
            parts += shown or [f"{name}: line ends differ"]
    return "\n".join(parts)
