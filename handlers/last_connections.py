"""The end of a listening socket: connections that the system has made are not reset, and no others are made."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
from typing import Final

_SO_ATTACH_FILTER: Final = 26
"""Linux' number; Python has no name for it."""
_CODE: Final = (
    # Classic BPF on what comes to the socket, from the TCP header on: opcode, jump if true, jump if false, operand.
    (0x30, 0, 0, 13),  # load the byte of the flags
    (0x54, 0, 0, 0x12),  # keep SYN and ACK
    (0x15, 0, 1, 0x02),  # a SYN alone asks for a connection
    (0x06, 0, 0, 0),  # drop it
    (0x06, 0, 0, 0xFFFFFFFF),  # let the rest pass
)


def take_no_more(listening: socket.socket) -> None:
    """Let no new connection begin; those that have begun can still be accepted.

    Closing a listening socket resets the connections that nobody has accepted yet, whose clients may have sent a
    request already. So new ones are kept out first: their clients try again after a second and find the port closed.
    Where the system does not filter, only the queue is cut.
    """
    program = b"".join(struct.pack("HBBI", *line) for line in _CODE)
    buffer = ctypes.create_string_buffer(program, len(program))
    with contextlib.suppress(OSError):
        listening.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(_CODE), ctypes.addressof(buffer))
        )
        return
    with contextlib.suppress(OSError):
        listening.listen(0)
