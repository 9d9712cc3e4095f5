"""The options that bound connections and the requests on them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from tools.server_options import above_0, at_least_1, not_negative

if TYPE_CHECKING:
    from handlers.link_limits import LinkLimits

MAX_LINK_NUM: Final = 4096
"""MindIE's limit."""


def add_links(parser: argparse.ArgumentParser) -> None:
    """How many connections and requests there may be, and how long they may need."""
    add = parser.add_argument
    add(
        "--max-link-num",
        type=_link_num,
        default=1000,
        metavar="N",
        help="inference requests that are worked on; twice as many wait, more get 429",
    )
    add("--max-connections", type=at_least_1, metavar="N", help="more get 503; 4 x max-link-num if absent")
    add("--max-other-connections", type=at_least_1, default=256, metavar="N", help="of each plane with its own address")
    add("--header-timeout", type=above_0, default=30.0, metavar="S", help="for the headers of a request")
    add("--body-timeout", type=above_0, default=60.0, metavar="S", help="for its body")
    add("--write-timeout", type=above_0, default=30.0, metavar="S", help="for a client to take 64 KiB, or all")
    add("--send-buffer-bytes", type=at_least_1, default=262_144, metavar="N", help="that the system keeps for a client")
    add(
        "--linger",
        type=not_negative,
        default=5.0,
        metavar="S",
        help="what a refused client still sends is read so long",
    )
    add("--keep-alive", type=above_0, default=75.0, metavar="S", help="a connection waits for its next request")
    add("--max-header-bytes", type=at_least_1, default=65_536, metavar="N", help="the headers of a request together")
    add("--max-headers", type=at_least_1, default=200, metavar="N", help="their number")


def links_of(given: argparse.Namespace) -> LinkLimits:
    """What the options say."""
    from handlers.link_limits import LinkLimits

    return LinkLimits(
        max_link_num=given.max_link_num,
        max_connections=given.max_connections,
        max_other_connections=given.max_other_connections,
        header_timeout_s=given.header_timeout,
        body_timeout_s=given.body_timeout,
        write_timeout_s=given.write_timeout,
        keep_alive_s=given.keep_alive,
        max_header_bytes=given.max_header_bytes,
        max_headers=given.max_headers,
        send_buffer_bytes=given.send_buffer_bytes,
        linger_s=given.linger,
    )


def max_queue(given: argparse.Namespace) -> int:
    """How many may wait in the engine: unless said otherwise, all that are worked on."""
    asked: int | None = given.max_queue
    return given.max_link_num if asked is None else asked


def _link_num(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LINK_NUM:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MAX_LINK_NUM}")
    return int(text)
