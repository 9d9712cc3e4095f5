"""The options of media on the command line, and the variables of MindIE that stand for two of them."""

from __future__ import annotations

from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path

import pytest
from config_samples import MOCK, changed, written

from handlers.media.limits import MediaLimits
from tools.cli import _parser
from tools.config.start import configured
from tools.media_options import DOMAINS_VARIABLE, SPOOL_VARIABLE, media_of

NOT_OFFERED = {"disk_reserve_bytes", "max_url_chars", "max_request_fetches"}
"""Limits without an option."""


def limits(*options: str) -> MediaLimits:
    """What a command line becomes."""
    return media_of(_parser().parse_args(["serve", *options]))


def test_without_options_the_limits_have_their_defaults() -> None:
    """Those of MediaLimits, for both commands."""
    assert limits() == MediaLimits()
    assert media_of(_parser().parse_args(["mock"])) == MediaLimits()


def test_every_limit_has_an_option() -> None:
    """But for those that nobody has a reason to change."""
    options = ["--media-domains=A.test, b.test:81", "--media-private-networks=10.0.0.0/8,::1/128", "--media-folder=",
               "--media-spool-folder=/spool", "--max-media-items=2", "--max-images=3", "--max-videos=4",
               "--max-audios=5", "--max-media-size=0.5", "--max-image-size=6", "--max-video-size=7",
               "--max-audio-size=8", "--max-input-audio-size=9", "--max-media-pixels=10", "--max-video-time=11",
               "--max-audio-time=12", "--media-connect-timeout=13", "--media-read-timeout=14",
               "--media-fetch-timeout=15", "--media-queue-timeout=16", "--max-media-redirects=17",
               "--max-media-fetches=18", "--media-decode-timeout=19", "--media-decode-memory=20",
               "--media-decode-workers=21"]  # fmt: skip
    found = limits(*options)
    same = {
        field.name for field in fields(MediaLimits) if getattr(found, field.name) == getattr(MediaLimits(), field.name)
    }
    assert same == NOT_OFFERED
    assert found.domains == ("a.test", "b.test:81")
    assert found.private_networks == (ip_network("10.0.0.0/8"), ip_network("::1/128"))
    assert (found.folder, found.spool_folder, found.max_total_bytes) == (None, Path("/spool"), 512 * 1024)


@pytest.mark.parametrize(("option", "words"), [
    ("--media-domains=http://a.test", "the host 'http://a.test' is not a host such as example.org"),
    ("--media-domains=*", "the host '*' has no usable host"),
    ("--media-private-networks=10.0.0.1/8", "'10.0.0.1/8' is no network such as 10.0.0.0/8"),
    ("--max-media-items=21", "'21' is above 20"), ("--max-images=-1", "'-1' is not a whole number from 0 to 20"),
])  # fmt: skip
def test_a_wrong_value_ends_the_command(option: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what is allowed."""
    with pytest.raises(SystemExit):
        limits(option)
    assert words in capsys.readouterr().err


def test_the_variables_hold_without_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """And give way to options."""
    monkeypatch.setenv(DOMAINS_VARIABLE, "media.test")
    monkeypatch.setenv(SPOOL_VARIABLE, "/cache")
    assert (limits().domains, limits().spool_folder) == (("media.test",), Path("/cache"))
    assert limits("--media-domains=").domains == ()


def test_networks_without_hosts_are_named(tmp_path: Path) -> None:
    """They open nothing."""
    file = written(tmp_path, changed(MOCK, {"ServerConfig.mediaPrivateNetworks": ["10.0.0.0/8"]}))
    chosen = configured(_parser().parse_args(["serve", "--config", str(file)]), {})
    assert chosen is not None
    [note] = chosen.notes
    assert note.key == "ServerConfig.mediaPrivateNetworks"
    assert note.message == "has no effect: no host is listed in mediaDomains or ALLOWED_MEDIA_DOMAINS_ENV"
