"""Chat templates from files: the one that an operator deploys, and those that requests may name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from handlers.chat_jinja import Fault, compiled, environment
from handlers.errors import refused

MOST_BYTES: Final = 1024 * 1024
"""Size of a template file at most."""


def deployed_template(file: Path) -> str:
    """The text of the template that replaces the model's own (``Settings.chat_template``).

    Raises:
        ValueError: a sentence on why it cannot be used: not readable, too large, or no Jinja.
    """
    try:
        raw = file.read_bytes()
        text = raw.decode("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ValueError(f"the chat template {file} cannot be read: {reason}") from None
    if len(raw) > MOST_BYTES:
        raise ValueError(f"the chat template {file} has {len(raw)} bytes; at most {MOST_BYTES} are read")
    found = compiled(environment(), text)
    if isinstance(found, Fault):
        where = "" if found.line is None else f" (line {found.line})"
        raise ValueError(f"the chat template {file} is not valid Jinja{where}: {found.words}")
    return text


def requested_template(path: str, folder: Path | None) -> str:
    """The text of a template file that a request names: inside the allowed folder, after following links.

    Raises:
        Problem: 422, naming chat_template.
    """
    if folder is None:
        message = "This deployment takes no chat_template files; send the template's text"
        raise refused("unsupported", message, "chat_template")
    allowed = folder.resolve()
    try:
        file = Path(path).resolve(strict=True)
        if file.is_relative_to(allowed) and file.is_file() and file.stat().st_size <= MOST_BYTES:
            return file.read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError):
        pass
    message = "chat_template names no readable .jinja file of at most 1 MiB in the folder that this deployment allows"
    raise refused("template_error", message, "chat_template")
