"""What the generator finds in a wrong config.schema.yaml, with the line and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.generate.__main__ import OUT, SPEC
from tools.generate.config import config_files
from tools.generate.load import SpecError

SCHEMA = SPEC.parent / "config.schema.yaml"
BASE = {path.name: path.read_text() for path in OUT.glob("*.py") if not path.name.startswith("config")}


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("description: Version of the file's form.,", "", "Config.Version has no description; add one sentence"),
        (
            "x-meaning: named, x-effect: There is one version.",
            "x-meaning: perhaps",
            "Config.Version needs x-meaning (honoured or named) and x-effect",
        ),
        ("const: 1.0.0, default: 1.0.0,", "const: 1.0.0,", "Config.Version needs default or x-default, not both"),
        ("default: 1.0.0,", "default: 2.0.0,", "the default of Config.Version is not allowed"),
        (
            "Port: {type: integer, minimum: 1024, maximum: 65535}",
            "Port: {type: integer, minimum: 1024}",
            "ServerSection.port is a number without a range; add minimum and maximum",
        ),
        (
            "example_bad: {maxN: 6, maxBatchSize: 5}",
            "example_bad: {maxN: 5, maxBatchSize: 5}",
            "example_bad of choices-within-batch breaks nothing",
        ),
        (
            "example_ok: {maxN: 5, maxBatchSize: 5}",
            "example_ok: {maxN: 6, maxBatchSize: 5}",
            "example_ok of choices-within-batch breaks choices-within-batch",
        ),
        (
            "self.maxN <= self.maxBatchSize",
            "self.maxM <= self.maxBatchSize",
            "rule choices-within-batch: ScheduleSection has no field maxM; name a field of the schema",
        ),
        (
            "x-meaning: named, x-effect: No log files are written.",
            "x-meaning: named",
            "a variable has name, x-meaning",
        ),
    ],
)
def test_a_wrong_schema_is_refused(old: str, new: str, finding: str, tmp_path: Path) -> None:
    """Nothing is generated from it."""
    text = SCHEMA.read_text()
    assert text.count(old) >= 1
    file = tmp_path / "config.schema.yaml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(SpecError) as caught:
        config_files(file, BASE)
    assert finding in str(caught.value)
    assert str(caught.value).startswith(f"{file}:")
