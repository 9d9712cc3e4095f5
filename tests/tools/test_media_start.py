"""What a start says about media: packages that are missing, hosts that nobody listed, a folder that cannot be made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handlers import exit_codes
from handlers.media.intake import Intake
from handlers.media.limits import MediaLimits
from handlers.settings import Settings
from tools import serving

NOT_FETCHED = (
    "mindspec: no media are fetched over the network: ALLOWED_MEDIA_DOMAINS_ENV and mediaDomains list no host\n"
)


def started(folder: Path, model_type: str, **limits: object) -> Intake | str | None:
    """What reads media for a model of this type."""
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    known = {"spool_folder": folder / "spool", **limits}
    return serving._media(folder, Settings(model_name="m", media=MediaLimits(**known)))  # type: ignore[arg-type]


def test_a_model_of_text_reads_no_media_and_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does it make a folder for them."""
    assert started(tmp_path, "llama") is None
    assert capsys.readouterr().err == ""
    assert not (tmp_path / "spool").exists()


async def test_a_start_says_that_no_host_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MindIE would fetch from everywhere then."""
    for domains, said in (((), NOT_FETCHED), (("media.test",), "")):
        intake = started(tmp_path, "qwen2_vl", domains=domains)
        assert isinstance(intake, Intake)
        assert capsys.readouterr().err == said
        await intake.close()


def test_a_start_names_the_packages_that_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And how to install them; text is served."""
    monkeypatch.setattr(serving, "missing_packages", lambda: ["pillow", "av"])
    assert started(tmp_path, "qwen2_vl") == (
        "This deployment reads text only, since pillow, av are not installed (pip install 'mindspec[media]')"
    )
    assert "pillow, av are not installed: pip install 'mindspec[media]'; text is served" in capsys.readouterr().err


def test_a_start_without_a_folder_for_media_ends(tmp_path: Path) -> None:
    """It could not serve what it was started for."""
    (tmp_path / "file").write_text("")
    with pytest.raises(serving.CannotStart, match="no folder for the media of requests can be made in") as caught:
        started(tmp_path, "qwen2_vl", spool_folder=tmp_path / "file")
    assert caught.value.code == exit_codes.CONFIG
