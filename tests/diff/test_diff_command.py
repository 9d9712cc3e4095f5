"""`mindspec diff` and `mindspec lint` as they are called: sources, formats, exit codes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tools.cli import main

BASE = (Path(__file__).resolve().parent / "base.yaml").read_text(encoding="utf-8")
BAD = Path(__file__).resolve().parents[1] / "bad_specs"
QUICK = ["--requests", "5"]


@pytest.fixture
def specs(tmp_path: Path) -> tuple[Path, Path, Path]:
    """The base, one with a lowered maximum and a raised one, one with a raised maximum alone."""
    paths = tmp_path / "old.yaml", tmp_path / "new.yaml", tmp_path / "wider.yaml"
    wider = BASE.replace("maximum: 24", "maximum: 48")
    for path, text in zip(paths, (BASE, wider.replace("maximum: 8\n", "maximum: 7\n"), wider), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_a_break_is_shown_with_its_request_and_gives_1(
    specs: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Place, keyword, values, line, the request, and what both versions say of it."""
    old, new, _ = specs
    assert main(["diff", str(old), str(new), *QUICK]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{old} -> {new}: 1 breaking, 1 relaxation, 0 notices; ")
    line = 1 + new.read_text(encoding="utf-8").splitlines().index("          maximum: 7")
    assert lines[2:7] == [
        "BREAKING  coats: maximum 8 -> 7",
        f"  POST /v1/paint, {new}:{line}",
        '  request {"wall": "north", "coats": 8, "hours": 1}',
        "  before  accepted",
        "  now     refused, out_of_range: coats was given 8; it must be an integer from 1 to 7, or null",
    ]
    assert "RELAXATION  hours: maximum 24 -> 48" in lines


def test_a_relaxation_alone_gives_0(specs: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody's request fails."""
    old, _, wider = specs
    assert main(["diff", str(old), str(wider), *QUICK]) == 0
    assert "0 breaking, 1 relaxation" in capsys.readouterr().out
    assert main(["diff", str(old), str(old)]) == 0
    assert capsys.readouterr().out == f"{old} -> {old}: no request and no answer is judged otherwise\n"


def test_json_has_all_of_it(specs: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """For tools: effect, place, values, lines, the example with its code; written to a file."""
    old, new, _ = specs
    out = tmp_path / "report.json"
    assert main(["diff", str(old), str(new), "--format", "json", "--output", str(out), *QUICK]) == 1
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["breaking"] is True
    first = report["changes"][0]
    assert (first["effect"], first["where"], first["keyword"]) == ("breaking", "coats", "maximum")
    assert (first["old"], first["new"], first["shown"]) == (8, 7, True)
    assert first["example"]["code"] == "out_of_range"
    assert first["example"]["body"] == {"wall": "north", "coats": 8, "hours": 1}


def test_markdown_is_fit_for_a_pull_request(specs: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A heading for each effect, the request in a block of its own, marks of Markdown in texts escaped."""
    old, new, _ = specs
    assert main(["diff", str(old), str(new), "--format", "markdown", *QUICK]) == 1
    text = capsys.readouterr().out
    assert "### Breaking\n\n**coats: maximum 8 → 7**  \n" in text
    assert '```json\n{"wall": "north", "coats": 8, "hours": 1}\n```\n\nBefore: accepted  \n' in text
    assert "Now: refused, out\\_of\\_range: coats" in text
    assert "### Relaxations: refused before, accepted now" in text


def test_revisions_of_git_are_read(
    specs: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A revision with the default path, and one with a path of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "openapi.yaml").write_text(BASE, encoding="utf-8")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "spec", "new.yaml"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    assert main(["diff", "HEAD", "HEAD:new.yaml", *QUICK]) == 1
    assert capsys.readouterr().out.startswith("HEAD:spec/openapi.yaml -> HEAD:new.yaml: 1 breaking")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("no-such-revision", "no-such-revision is no file, and git has no no-such-revision:spec/openapi.yaml: "),
        ("--help-me", None),
        (str(BAD / "not-yaml.yaml"), "not-yaml.yaml:"),
        (str(BAD / "cel-syntax.yaml"), "CEL syntax error at column 27; correct the expression"),
        (str(BAD / "cel-without-guard.yaml"), "guard it with has() or type() on the left"),
    ],
)
def test_what_cannot_be_read_gives_2_and_its_line(
    source: str, message: str | None, specs: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """No such file or revision, no YAML, a rule that cannot be compiled or run."""
    if message is None:
        with pytest.raises(SystemExit) as ended:
            main(["diff", source, str(specs[0])])
        assert ended.value.code == 2
        return
    assert main(["diff", source, str(specs[0]), *QUICK]) == 2
    assert message in capsys.readouterr().err


def test_lint_says_file_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 with findings, 0 without, 2 for what is not there."""
    path = BAD / "dead-rule.yaml"
    expected = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# expect: line ")
    assert main(["lint", str(path)]) == 1
    assert capsys.readouterr().out == f"{path}:{expected}\n{path}: 1 finding\n"
    assert main(["lint", str(path), "--format", "json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert f"{row['line']}: {row['message']}" == expected
    good = BAD.parent / "tools" / "tiny.yaml"
    assert main(["lint", str(good)]) == 0
    assert capsys.readouterr().out == f"{good}: nothing found\n"
    assert main(["lint", "no-such-file.yaml"]) == 2
    assert "no-such-file.yaml cannot be read" in capsys.readouterr().err
