"""The curl command that sends exactly the bytes of a request, for a POSIX shell."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

from tools.conform.wire import Sent

_LONG_RUN: Final = re.compile(rb"([^\n]{1,8}?)\1{499,}", re.DOTALL)
"""Repetition that is written as a count: arguments of commands are bounded, and nobody reads a megabyte."""
_MOST_ARGUMENT_BYTES: Final = 100_000


@dataclass(frozen=True)
class CurlWriter:
    """Writes commands for one server."""

    url: str
    """Without a path."""
    key_variable: str | None = None
    """The environment variable that holds the key; the key itself is never written."""
    ca: str | None = None
    timeout_s: float = 60.0

    def command(self, sent: Sent) -> str:
        """One line: headers and body of the answer go to standard output."""
        words = ["curl", "-sS", "-i", "-N", "--max-time", f"{5 if sent.first_event else self.timeout_s:g}"]
        words += ["-X", sent.method] if sent.method not in ("GET", "POST") or not sent.body else []
        if self.ca is not None:
            words += ["--cacert", self.ca]
        words.append(self.url + sent.path)
        line = " ".join(map(shlex.quote, words))
        names = {name.lower() for name, _ in sent.headers}
        for name, value in sent.headers:
            line += f" -H {shlex.quote(f'{name}: {value}')}"
        if self.key_variable is not None:
            line += f' -H "Authorization: Bearer ${self.key_variable}"'
        if not sent.body:
            return line + (" -H 'Content-Type:' --data-binary ''" if sent.method == "POST" and not names else "")
        if "content-type" not in names:
            line += " -H 'Content-Type:'"
        if len(sent.body) > 1_000_000:
            line += " -H 'Expect:'"
        if _is_argument(sent.body):
            return f"{line} --data-binary {_argument(sent.body)}"
        return f"{{ {' '.join(_pieces(sent.body))} }} | {line} --data-binary @-"


def _pieces(body: bytes) -> list[str]:
    """Commands whose output, joined, is the body."""
    found, end = [], 0
    for run in _LONG_RUN.finditer(body):
        found += _plain(body[end : run.start()])
        unit, size = run[1], run.end() - run.start()
        found.append(f"yes {_argument(unit)} | tr -d '\\n' | head -c {size};")
        end = run.end()
    return found + _plain(body[end:])


def _plain(piece: bytes) -> list[str]:
    cut = [piece[start : start + _MOST_ARGUMENT_BYTES] for start in range(0, len(piece), _MOST_ARGUMENT_BYTES)]
    return [f"printf '%s' {_argument(part)};" if _is_text(part) else f"printf '%b' '{_octal(part)}';" for part in cut]


def _is_argument(body: bytes) -> bool:
    """Whether a body can stand in the command itself; curl reads a file where it begins with an @."""
    long = len(body) > _MOST_ARGUMENT_BYTES or _LONG_RUN.search(body) is not None
    return not long and not body.startswith(b"@") and _is_text(body)


def _is_text(data: bytes) -> bool:
    """Whether bytes can be read and copied as they stand."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character == "\t" for character in text)


def _argument(data: bytes) -> str:
    """Bytes without a final newline as one word of the shell: quoted text, or printf's octal escapes."""
    return shlex.quote(data.decode()) if _is_text(data) else f"\"$(printf '%b' '{_octal(data)}')\""


def _octal(data: bytes) -> str:
    plain = frozenset(b'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ "{}[]:,._-+*/()<>=')
    return "".join(chr(byte) if byte in plain else f"\\0{byte:03o}" for byte in data)
