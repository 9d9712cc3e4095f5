"""Every mistake that a spec can hold is found, with its line and one clear sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.generate.__main__ import generate
from tools.generate.load import SpecError, load

BAD = Path(__file__).resolve().parent.parent / "bad_specs"
TINY = Path(__file__).resolve().parent / "tiny.yaml"


@pytest.mark.parametrize("path", sorted(BAD.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_broken_spec_gives_its_one_finding(path: Path) -> None:
    """The file's first line holds the finding that it must give, with the line it must point to."""
    expected = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# expect: ")
    with pytest.raises(SpecError) as error:
        generate(path)
    assert [str(finding) for finding in error.value.findings] == [expected]


def test_there_is_a_broken_spec_for_every_kind_of_mistake() -> None:
    """No kind of mistake lost its example."""
    assert len(list(BAD.glob("*.yaml"))) >= 47


def test_all_findings_are_reported_at_once(tmp_path: Path) -> None:
    """Three unrelated mistakes come back together, in the order of their lines."""
    text = TINY.read_text(encoding="utf-8")
    text = text.replace("          description: How many choices to return.\n", "")
    text = text.replace("default: 1", "default: 9")
    text = text.replace("example_bad: {tag: lots}", "example_bad: {tag: few}")
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as error:
        generate(path)
    messages = [finding.message for finding in error.value.findings]
    assert messages == [
        "example_bad of few-tags is accepted; make it break this rule alone",
        "TinyRequest.n has no description; add one sentence",
        "default 9 of n is refused (out_of_range at n); correct it",
    ]


def test_numbers_and_words_follow_yaml_1_2(tmp_path: Path) -> None:
    """1e-6 is a number without a dot, and on is text."""
    path = tmp_path / "a.yaml"
    path.write_text("small: 1e-6\nbig: 18446744073709551615\nword: on\nnone: ~\nyes: true\n", encoding="utf-8")
    document = load(path)
    assert document.data == {"small": 1e-6, "big": 2**64 - 1, "word": "on", "none": None, "yes": True}
    assert document.lines["word",] == 3
