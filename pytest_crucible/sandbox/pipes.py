"""Messages over pipes: a length of four bytes, then as many bytes."""

from __future__ import annotations

import os
import struct

# A longer message would only fill the memory of its reader.
MOST_BYTES = 64 << 20
_LENGTH = struct.Struct(">I")


def send(descriptor: int, message: bytes) -> None:
    """Write a message. Raises OSError, and ValueError for a message that is too long."""
    if len(message) > MOST_BYTES:
        raise ValueError(f"a message has {len(message)} bytes; at most {MOST_BYTES} can be sent")
    data = memoryview(_LENGTH.pack(len(message)) + message)
    while data:
        data = data[os.write(descriptor, data) :]


def receive(descriptor: int) -> bytes:
    """Read a message, and not a byte more. Raises EOFError when the pipe is closed, ValueError for a message that is too long."""
    (length,) = _LENGTH.unpack(_read(descriptor, _LENGTH.size))
    if length > MOST_BYTES:
        raise ValueError(f"a message of {length} bytes was announced; at most {MOST_BYTES} are read")
    return _read(descriptor, length)


def _read(descriptor: int, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        chunk = os.read(descriptor, min(length - len(data), 1 << 20))
        if not chunk:
            raise EOFError("the pipe was closed")
        data += chunk
    return bytes(data)
