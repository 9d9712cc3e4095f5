"""What a config.json and the environment say about media, as options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from handlers.config_file import ConfigFile, Fault
from tools.media_options import DOMAINS_VARIABLE, SPOOL_VARIABLE, read_domains, read_networks

MEDIA_OPTIONS: Final[Mapping[str, str]] = {
    "ServerConfig.maxMediaItems": "max_media_items",
    "ServerConfig.maxImages": "max_images",
    "ServerConfig.maxVideos": "max_videos",
    "ServerConfig.maxAudios": "max_audios",
    "ServerConfig.maxMediaSize": "max_media_size",
    "ServerConfig.maxImageSize": "max_image_size",
    "ServerConfig.maxVideoSize": "max_video_size",
    "ServerConfig.maxAudioSize": "max_audio_size",
    "ServerConfig.maxInputAudioSize": "max_input_audio_size",
    "ServerConfig.maxMediaPixels": "max_media_pixels",
    "ServerConfig.maxVideoTime": "max_video_time",
    "ServerConfig.maxAudioTime": "max_audio_time",
    "ServerConfig.mediaConnectTimeout": "media_connect_timeout",
    "ServerConfig.mediaReadTimeout": "media_read_timeout",
    "ServerConfig.mediaFetchTimeout": "media_fetch_timeout",
    "ServerConfig.mediaQueueTimeout": "media_queue_timeout",
    "ServerConfig.maxMediaRedirects": "max_media_redirects",
    "ServerConfig.maxMediaFetches": "max_media_fetches",
    "ServerConfig.mediaDecodeTimeout": "media_decode_timeout",
    "ServerConfig.mediaDecodeMemory": "media_decode_memory",
    "ServerConfig.mediaDecodeWorkers": "media_decode_workers",
}
"""Keys that are one option each, with the same values."""
_DOMAINS: Final = "ServerConfig.mediaDomains"
_NETWORKS: Final = "ServerConfig.mediaPrivateNetworks"
_FOLDER: Final = "ServerConfig.mediaFolder"
_SPOOL: Final = "ServerConfig.mediaSpoolFolder"
MEDIA_KEYS: Final = frozenset({_DOMAINS, _NETWORKS, _FOLDER, _SPOOL})
"""The other keys that are acted on here."""


def media_options(
    file: ConfigFile, folder: Path, environment: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, tuple[str, Any]], list[Fault]]:
    """The options of a file and the environment; which keys a variable has won over, as (variable, value); faults.

    Args:
        file: a file that has been checked.
        folder: where relative paths start.
        environment: the process's variables.
    """
    options: dict[str, Any] = {}
    won: dict[str, tuple[str, Any]] = {}
    faults: list[Fault] = []
    networks, local = file.value(_NETWORKS), file.value(_FOLDER)
    if networks is not None:
        options["media_private_networks"] = read_networks(",".join(networks))
    if local is not None:
        options["media_folder"] = folder / local if local else None
    if spool := environment.get(SPOOL_VARIABLE):
        options["media_spool_folder"] = Path(spool).absolute()
        won[_SPOOL] = (SPOOL_VARIABLE, spool)
    elif file.value(_SPOOL):
        options["media_spool_folder"] = folder / file.value(_SPOOL)
    named = environment.get(DOMAINS_VARIABLE)
    try:
        if named is not None:
            options["media_domains"] = read_domains(named)
            won[_DOMAINS] = (DOMAINS_VARIABLE, list(options["media_domains"]))
        elif file.value(_DOMAINS) is not None:
            options["media_domains"] = read_domains(",".join(file.value(_DOMAINS)))
    except argparse.ArgumentTypeError as error:
        faults.append(Fault(DOMAINS_VARIABLE, f"cannot be used: {error}"))
    return options, won, faults


def media_notes(chosen: Mapping[str, Any]) -> Iterator[Fault]:
    """What the operator ought to know of options that go together badly."""
    if chosen.get("media_private_networks") and not chosen.get("media_domains"):
        yield Fault(_NETWORKS, f"has no effect: no host is listed in mediaDomains or {DOMAINS_VARIABLE}")
