"""Messages between trusted processes: one JSON document each, with descriptors beside it where memory is shared.

JSON and not pickle, so that no message can run code wherever it comes from.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

Message = dict[str, Any]
MOST_AT_ONCE = 250  # descriptors in one message of the system's: Linux takes 253


class ChannelClosed(Exception):  # noqa: N818 - it names an event
    """The other side is gone."""


class Channel:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    @property
    def fd(self) -> int:
        return self._socket.fileno()

    def limit(self, seconds: float | None) -> None:
        """How long sending or receiving may take before TimeoutError is raised; None: for ever."""
        self._socket.settimeout(seconds)

    def send(self, message: Message, descriptors: list[int] | None = None) -> None:
        body, given = json.dumps(message).encode(), descriptors or []
        try:
            socket.send_fds(self._socket, [struct.pack("!II", len(body), len(given))], given[:MOST_AT_ONCE])
            for at in range(MOST_AT_ONCE, len(given), MOST_AT_ONCE):
                socket.send_fds(self._socket, [b"+"], given[at : at + MOST_AT_ONCE])
            self._socket.sendall(body)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed from error

    def receive(self) -> tuple[Message, list[int]]:
        try:
            head, found, _, _ = socket.recv_fds(self._socket, 8, MOST_AT_ONCE)
            descriptors = list(found)
            head += self._exactly(8 - len(head))
            length, count = struct.unpack("!II", head)
            while len(descriptors) < count:
                if not (more := socket.recv_fds(self._socket, 1, MOST_AT_ONCE))[0]:
                    raise ChannelClosed
                descriptors += more[1]
            body = self._exactly(length)
        except ConnectionResetError as error:
            raise ChannelClosed from error
        return json.loads(body), descriptors

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise ChannelClosed
            parts += part
        return bytes(parts)

    def close(self) -> None:
        self._socket.close()


def pair() -> tuple[Channel, socket.socket]:
    """Our end as a channel, and the other end for a child process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(ours), theirs
