"""The documentation as one HTML file: the server's own page with everything that it would fetch written into it."""

from __future__ import annotations

import re

from handlers.pages.files import PAGES, Content

_SCRIPT = re.compile(r'<script src="([^"]+)" defer></script>')
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "connect-src http://127.0.0.1:* http://localhost:*"
)
"""Nothing is fetched; a request that a reader tries may go to a server on the same machine."""


LANGUAGES = {"en": "/openapi.json", "zh": "/openapi.zh.json"}
"""The contract in each language."""


def page(language: str = "en") -> str:
    """The whole file, about 5 MB."""
    html = _text("/docs").replace('lang="en"', f'lang="{language}"', 1)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    html = html.replace("<title>", f"{meta}\n<title>", 1)
    contract = f'<script type="application/json" id="contract">{_escaped(_text(LANGUAGES[language]))}</script>'
    scripts = [f"<script>\n{_escaped(_text('/' + name))}\n</script>" for name in _SCRIPT.findall(html)]
    body, _, rest = _SCRIPT.sub("", html).partition("</body>")
    return "\n".join([body.rstrip(), contract, *scripts, "</body>" + rest])


def _text(path: str) -> str:
    return Content.of(PAGES[path]).plain.decode("utf-8")


def _escaped(text: str) -> str:
    """Without what would end a script element or begin a comment in it; to JavaScript and JSON it is the same text."""
    return re.sub(r"<(?=/script|!--)", r"\\u003c" if text.startswith("{") else r"\\x3c", text, flags=re.IGNORECASE)
