"""The files of the pages: under which path each is offered, and its bytes, read when they are first asked for."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_HTML: Final = "text/html; charset=utf-8"
_SCRIPT: Final = "text/javascript; charset=utf-8"
_STYLE: Final = "text/css; charset=utf-8"
_JSON: Final = "application/json"
_COMMON: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; "
)
DOCS_POLICY: Final = _COMMON + "style-src 'self' 'unsafe-inline'; font-src 'self' data:"
"""The viewer puts its own styles into the page; scripts come from this server alone, and so do answers."""
PLAY_POLICY: Final = _COMMON + "style-src 'self'"
_SCRIPTS: Final = (
    *("docs", "play", "answer", "contract", "controls", "curl", "dom"),
    *("events", "fields", "form", "json", "rules", "start", "verdict"),
)


@dataclass(frozen=True, slots=True)
class PageFile:
    """Where a file lies in the package, and how it is sent."""

    package: str
    name: str
    media: str
    policy: str = "default-src 'none'"
    """The Content-Security-Policy; what is no page may do nothing."""

    @property
    def compressed(self) -> bool:
        """Whether it lies there as gzip."""
        return self.name.endswith(".gz")


PAGES: Final[Mapping[str, PageFile]] = {
    "/docs": PageFile("handlers.pages.static", "docs.html", _HTML, DOCS_POLICY),
    "/play": PageFile("handlers.pages.static", "play.html", _HTML, PLAY_POLICY),
    "/openapi.json": PageFile("generated", "openapi.json", _JSON),
    "/openapi.zh.json": PageFile("generated", "openapi.zh.json", _JSON),
    "/openapi-3.0.json": PageFile("generated", "openapi-3.0.json", _JSON),
    "/pages/play.css": PageFile("handlers.pages.static", "play.css", _STYLE),
    "/pages/scalar.js": PageFile("handlers.pages.assets", "scalar.js.gz", _SCRIPT),
    "/pages/cel.js": PageFile("handlers.pages.assets", "cel.js.gz", _SCRIPT),
    **{f"/pages/{name}.js": PageFile("handlers.pages.static", f"{name}.js", _SCRIPT) for name in _SCRIPTS},
}
"""Every file by its path."""


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file, plain and as gzip."""

    plain: bytes
    packed: bytes
    digest: str
    """Of the plain bytes, for the ETag."""

    @classmethod
    def of(cls, file: PageFile) -> Content:
        """Read it."""
        raw = (files(file.package) / file.name).read_bytes()
        plain, packed = (gzip.decompress(raw), raw) if file.compressed else (raw, gzip.compress(raw, 6, mtime=0))
        return cls(plain, packed, hashlib.sha256(plain).hexdigest()[:32])
