"""The options of images, video and audio in requests, and the limits that they become."""

from __future__ import annotations

import argparse
import os
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.server_options import above_0, at_least_1

if TYPE_CHECKING:
    from handlers.media.limits import MediaLimits

DOMAINS_VARIABLE: Final = "ALLOWED_MEDIA_DOMAINS_ENV"
"""MindIE's list of hosts, parted by commas. Unset or empty means none, where MindIE lets all pass."""
SPOOL_VARIABLE: Final = "LOCAL_CACHE_DIR"
_DEFAULT_FOLDER: Final = "/data/multimodal_inputs"
_MB: Final = 1024 * 1024


def add_media(parser: argparse.ArgumentParser) -> None:
    """Where media may come from, how many and how large they may be, and what reading them may take."""
    add = parser.add_argument
    add(
        "--media-domains",
        type=read_domains,
        default=os.environ.get(DOMAINS_VARIABLE, ""),
        metavar="HOST,...",
        help=f"that media are fetched from, perhaps with one port; none if absent; also in {DOMAINS_VARIABLE}",
    )
    add(
        "--media-private-networks",
        type=read_networks,
        default=(),
        metavar="CIDR,...",
        help="where these hosts may be although it is private",
    )
    add(
        "--media-folder",
        type=_folder,
        default=_DEFAULT_FOLDER,
        metavar="DIR",
        help="the only one that local files are read from; empty: none are",
    )
    add(
        "--media-spool-folder",
        type=_folder,
        default=os.environ.get(SPOOL_VARIABLE, ""),
        metavar="DIR",
        help=f"for files of running requests; the system's for temporary files if absent; also in {SPOOL_VARIABLE}",
    )
    add("--max-media-items", type=_items, default=20, metavar="N", help="images, videos and recordings of a request")
    for kind in ("images", "videos", "audios"):
        add(f"--max-{kind}", type=_count, default=20, metavar="N", help=f"{kind} of a request")
    add("--max-media-size", type=above_0, default=1000, metavar="MB", help="all media of a request together")
    add("--max-image-size", type=above_0, default=40, metavar="MB", help="an image")
    add("--max-video-size", type=above_0, default=512, metavar="MB", help="a video")
    add("--max-audio-size", type=above_0, default=40, metavar="MB", help="a recording")
    add("--max-input-audio-size", type=above_0, default=20, metavar="MB", help="a recording inside a request, decoded")
    add(
        "--max-media-pixels",
        type=at_least_1,
        default=64 * _MB,
        metavar="N",
        help="of an image or a frame, as it is sent",
    )
    add("--max-video-time", type=above_0, default=3600, metavar="S", help="a video plays")
    add("--max-audio-time", type=above_0, default=1800, metavar="S", help="a recording plays")
    add("--media-connect-timeout", type=above_0, default=5, metavar="S", help="until a host is connected to")
    add("--media-read-timeout", type=above_0, default=10, metavar="S", help="between two pieces that a host sends")
    add("--media-fetch-timeout", type=above_0, default=60, metavar="S", help="for an item, redirects included")
    add("--media-queue-timeout", type=above_0, default=60, metavar="S", help="until an item's turn; then 429")
    add("--max-media-redirects", type=_count, default=3, metavar="N", help="that are followed for an item")
    add("--max-media-fetches", type=at_least_1, default=16, metavar="N", help="from one host at the same time")
    add("--media-decode-timeout", type=above_0, default=60, metavar="S", help="to decode an item")
    add("--media-decode-memory", type=above_0, default=4096, metavar="MB", help="of a process that decodes")
    add("--media-decode-workers", type=at_least_1, default=1, metavar="N", help="processes that decode")


def media_of(given: argparse.Namespace) -> MediaLimits:
    """What the options say; the defaults for a command that has none of them."""
    from handlers.media.limits import MediaLimits

    if not hasattr(given, "media_domains"):
        return MediaLimits()
    return MediaLimits(
        folder=given.media_folder,
        domains=given.media_domains,
        private_networks=given.media_private_networks,
        spool_folder=given.media_spool_folder,
        max_items=given.max_media_items,
        max_images=given.max_images,
        max_videos=given.max_videos,
        max_audios=given.max_audios,
        max_total_bytes=int(given.max_media_size * _MB),
        max_image_bytes=int(given.max_image_size * _MB),
        max_video_bytes=int(given.max_video_size * _MB),
        max_audio_bytes=int(given.max_audio_size * _MB),
        max_input_audio_bytes=int(given.max_input_audio_size * _MB),
        max_pixels=given.max_media_pixels,
        max_video_s=given.max_video_time,
        max_audio_s=given.max_audio_time,
        connect_s=given.media_connect_timeout,
        read_s=given.media_read_timeout,
        fetch_s=given.media_fetch_timeout,
        fetch_wait_s=given.media_queue_timeout,
        max_redirects=given.max_media_redirects,
        max_fetches=given.max_media_fetches,
        decode_s=given.media_decode_timeout,
        decode_wait_s=given.media_queue_timeout,
        decode_memory_bytes=int(given.media_decode_memory * _MB),
        decode_workers=given.media_decode_workers,
    )


def read_domains(text: str) -> tuple[str, ...]:
    """Hosts parted by commas, as ``MediaLimits.domains`` has them.

    Raises:
        ArgumentTypeError: an entry is no host.
    """
    from handlers.media.urls import UrlError, read_domain

    domains = []
    for entry in _entries(text):
        try:
            domains.append(read_domain(entry))
        except UrlError as error:
            raise argparse.ArgumentTypeError(f"the host {entry[:100]!r} {error}") from None
    return tuple(domains)


def read_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks parted by commas.

    Raises:
        ArgumentTypeError: an entry is none.
    """
    networks = []
    for entry in _entries(text):
        try:
            networks.append(ip_network(entry))
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{entry[:100]!r} is no network such as 10.0.0.0/8: {error}") from None
    return tuple(networks)


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _folder(text: str) -> Path | None:
    return Path(text).absolute() if text else None


def _items(text: str) -> int:
    number = at_least_1(text)
    if number > 20:
        raise argparse.ArgumentTypeError(f"{text!r} is above 20, the most of MindIE")
    return number


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 20:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 20")
    return int(text)
