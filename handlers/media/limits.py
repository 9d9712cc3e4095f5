"""How much media a request may bring, and what reading and decoding it may take."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final

MB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """The limits and permissions of a deployment's media."""

    folder: Path | None = Path("/data/multimodal_inputs")
    """The only folder of local files; None: none are read."""
    domains: tuple[str, ...] = ()
    """Hosts that media are fetched from, in lower case, perhaps with a port; MindIE's ALLOWED_MEDIA_DOMAINS_ENV."""
    private_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """Where allow-listed hosts may be although the addresses are private."""
    spool_folder: Path | None = None
    """For files of running requests; None: a folder of this process in the system's folder for temporary files."""
    disk_reserve_bytes: int = 256 * MB
    """Left alone of the disk that it lies on."""

    max_items: int = 20
    """Of a request."""
    max_images: int = 20
    max_videos: int = 20
    max_audios: int = 20
    max_total_bytes: int = 1000 * MB
    """Of a request's items together."""
    max_image_bytes: int = 40 * MB
    max_video_bytes: int = 512 * MB
    max_audio_bytes: int = 40 * MB
    max_input_audio_bytes: int = 20 * MB
    """Of an input_audio part, decoded."""
    max_url_chars: int = 4096

    connect_s: float = 5.0
    """Until a connection stands: the host's name, each of its addresses, TLS."""
    read_s: float = 10.0
    """Between two pieces of an answer."""
    fetch_s: float = 60.0
    """For one item, redirects included."""
    max_redirects: int = 3
    max_fetches: int = 16
    """At the same time from one host, by all requests; the others wait."""
    max_request_fetches: int = 4
    """At the same time by one request."""
    fetch_wait_s: float = 60.0
    """How long an item may wait for its turn."""

    max_pixels: int = 64 * 1024 * 1024
    """Of an image, or of one frame of a video, before it is made smaller."""
    max_video_s: float = 3600.0
    max_audio_s: float = 1800.0
    decode_s: float = 60.0
    """For one item."""
    decode_wait_s: float = 60.0
    """How long an item may wait for a process that decodes."""
    decode_memory_bytes: int = 4 * 1024 * MB
    """Of address space, for each item, besides what the process that decodes has taken for its libraries."""
    decode_workers: int = 1
