"""The documentation in a browser without a network: on the server and as one file, it is all there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mock_process import mock_server

from generated.fields import FIELDS
from generated.rules import RULES
from tools.cli import main


def missing(text: str) -> list[str]:
    """Names of parameters and ids of rules that a page's text does not have."""
    paths = [path for model in FIELDS.values() for path in model if not path.endswith("[]")]
    names = {re.split(r"[.\]]+", path)[-1] for path in paths}
    return sorted(word for word in names | set(RULES) if re.search(rf"(?<![\w-]){word}(?![\w-])", text) is None)


def test_the_servers_documentation_is_whole(node: Callable[..., Any]) -> None:
    """Every parameter, every rule and the largest seed; nothing asked of another machine, nothing failed."""
    with mock_server() as (_, url):
        read = node("read_docs.mjs", f"{url}/docs", "1280", "light")
    assert read["wrong"] == []
    assert missing(read["text"]) == []
    assert "an integer from 0 to 18446744073709551615, or null" in read["text"]
    assert "18446744073709552000" not in read["text"]  # the same number, rounded by JavaScript


def test_the_documentation_in_chinese_as_one_file_is_whole(node: Callable[..., Any], tmp_path: Path) -> None:
    """The same from a file, in the other language, on a phone in the dark."""
    file = tmp_path / "docs.html"
    assert main(["docs", "--lang", "zh", "--out", str(file)]) == 0
    read = node("read_docs.mjs", file.as_uri(), "400", "dark")
    assert read["wrong"] == []
    assert missing(read["text"]) == []
    assert "整数，0 到 18446744073709551615；或 null" in read["text"]
    assert "n 大于 1 时，temperature 必须大于 0" in read["text"]
