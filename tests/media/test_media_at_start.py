"""What a start says and makes of a model that takes media."""

from __future__ import annotations

from pathlib import Path

import pytest

from handlers import exit_codes
from handlers.media.intake import Intake
from handlers.media.limits import MediaLimits
from handlers.media.packages import PACKAGES, missing_packages
from handlers.settings import Settings
from tools import serving


def folder_of(folder: Path, model_type: str) -> Path:
    """A folder of which only the model's type is looked at."""
    (folder / "config.json").write_text(f'{{"model_type": "{model_type}"}}', encoding="utf-8")
    return folder


def test_a_text_model_reads_no_media(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is made or said."""
    assert serving._media(folder_of(tmp_path, "llama"), Settings("m")) is None
    assert capsys.readouterr() == ("", "")


async def test_a_model_that_takes_media_gets_what_reads_them(tmp_path: Path) -> None:
    """With the deployment's folder for files of requests, which is empty again at the end."""
    spool = tmp_path / "spool"
    settings = Settings("m", media=MediaLimits(spool_folder=spool))
    made = serving._media(folder_of(tmp_path, "qwen2_vl"), settings)

    assert isinstance(made, Intake)
    assert len(list(spool.iterdir())) == 1
    await made.close()
    assert list(spool.iterdir()) == []


@pytest.mark.parametrize(
    ("missing", "words"), [(["av"], "av is not installed"), (["pillow", "av"], "pillow, av are not installed")]
)
def test_missing_packages_are_named_and_text_is_served(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: list[str],
    words: str,
) -> None:
    """The operator reads what to install, and so does a client whose image is refused."""
    monkeypatch.setattr(serving, "missing_packages", lambda: missing)
    told = serving._media(folder_of(tmp_path, "qwen2_audio"), Settings("m"))

    line = capsys.readouterr().err
    assert (
        line
        == f"mindspec: the model takes more than text, but {words}: pip install 'mindspec[media]'; text is served\n"
    )
    assert told == f"This deployment reads text only, since {words} (pip install 'mindspec[media]')"


def test_a_folder_that_cannot_be_made_ends_the_start(tmp_path: Path) -> None:
    """With the exit code of a wrong configuration, and the folder's name."""
    taken = tmp_path / "file"
    taken.write_text("x", encoding="utf-8")
    settings = Settings("m", media=MediaLimits(spool_folder=taken))

    with pytest.raises(
        serving.CannotStart, match=f"no folder for the media of requests can be made in {taken}"
    ) as caught:
        serving._media(folder_of(tmp_path, "qwen2_vl"), settings)
    assert caught.value.code == exit_codes.CONFIG


def test_the_packages_are_those_of_the_extra() -> None:
    """As pyproject.toml names them, and here all of them are installed."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    extra = text.split("\nmedia = [", 1)[1].split("\n]", 1)[0]
    named = {line.strip(' ",').split(">=")[0].split("[")[0] for line in extra.splitlines() if '"' in line}

    assert named == set(PACKAGES.values())
    assert missing_packages() == []
