"""Opens files, folders and standard input, and tells by their content what is in them."""

from __future__ import annotations

import re
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

import jiter

from tools.check import har, jsonl
from tools.check.limits import MOST_FILE_BYTES, MOST_FILES, MOST_LINE_BYTES, MOST_WHOLE_BYTES
from tools.check.record import Record, Unreadable

STANDARD_INPUT: Final = "-"
SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".har")
"""Files that are read in a folder."""

_HAR: Final = re.compile(rb'\s*\{\s*"log"\s*:')
Found = Iterator[Record | Unreadable]


def records(name: str) -> Found:
    """Every request in a file, in a folder or on standard input (``-``); what cannot be read stands in its place."""
    if name == STANDARD_INPUT:
        yield from _file("<stdin>", sys.stdin.buffer)
        return
    path = Path(name)
    try:
        if not path.is_dir():
            with path.open("rb") as stream:
                yield from _file(name, stream)
            return
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    except OSError as error:
        yield Unreadable(name, None, error.strerror or str(error))
        return
    if not files:
        yield Unreadable(name, None, f"the folder has no file that ends in {', '.join(SUFFIXES)}")
    if len(files) > MOST_FILES:
        yield Unreadable(name, None, f"the folder has {len(files)} files; {MOST_FILES} are read (MOST_FILES)")
    for file in files[:MOST_FILES]:
        yield from records(str(file))


def _file(source: str, stream: BinaryIO) -> Found:
    """The requests of one file: JSONL line by line, all else as a whole."""
    pieces = _pieces(source, stream)
    head: list[bytes] = []
    try:
        for piece in pieces:
            head.append(piece)
            if sum(not line.isspace() for line in head) == 2:
                break
        filled = [line for line in head if not line.isspace()]
        if not filled:
            yield Unreadable(source, None, "it is empty")
        elif len(filled) == 2 and _is_value(filled[0]):
            yield from jsonl.records(source, _lines(chain(head, pieces)))
        else:
            yield from _whole(source, _joined(source, chain(head, pieces)))
    except Unreadable as error:
        yield error
    except OSError as error:
        yield Unreadable(source, None, error.strerror or str(error))


def _whole(source: str, raw: bytes) -> Found:
    """A HAR, a single request, or lines of which the first is no JSON."""
    try:
        value = jiter.from_json(raw)
    except ValueError:
        filled = [line for line in raw.splitlines() if line.strip()]
        if len(filled) > 1 and sum(map(_is_value, filled)) * 2 >= len(filled):
            yield from jsonl.records(source, raw.splitlines())
        elif _HAR.match(raw):
            yield from har.entries(source, raw)  # which says what is wrong with it
        else:
            yield Record(source, 1, raw, in_place=True)
        return
    if isinstance(value, dict) and isinstance(value.get("log"), dict) and "entries" in value["log"]:
        yield from har.entries(source, raw)
    else:
        yield jsonl.record(source, 1, raw)


def _is_value(line: bytes) -> bool:
    """Whether a line is an object by itself."""
    try:
        return isinstance(jiter.from_json(line), dict)
    except ValueError:
        return False


def _pieces(source: str, stream: BinaryIO) -> Iterator[bytes]:
    """Lines, the longest of them in pieces of a little more than ``MOST_LINE_BYTES``."""
    total = 0
    while piece := stream.readline(MOST_LINE_BYTES + 1):
        piece = piece.removeprefix(BOM_UTF8) if not total else piece
        total += len(piece)
        if total > MOST_FILE_BYTES:
            raise Unreadable(source, None, f"it is larger than {MOST_FILE_BYTES} bytes (MOST_FILE_BYTES)")
        yield piece


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces without those that go on a line whose beginning is too long already."""
    going_on = False
    for piece in pieces:
        if not going_on:
            yield piece
        going_on = not piece.endswith(b"\n") and (going_on or len(piece) > MOST_LINE_BYTES)


def _joined(source: str, pieces: Iterator[bytes]) -> bytes:
    whole = bytearray()
    for piece in pieces:
        whole += piece
        if len(whole) > MOST_WHOLE_BYTES:
            reason = f"it is larger than the {MOST_WHOLE_BYTES} bytes that are read as a whole (MOST_WHOLE_BYTES)"
            raise Unreadable(source, None, reason)
    return bytes(whole)
