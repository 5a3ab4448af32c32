"""Replaces a terminal that was closed: pytest's next output to it would raise OSError, and end the session without verdicts."""

from __future__ import annotations

import contextlib
import errno
import os


def replace_lost_terminal() -> None:
    """Let every descriptor of a closed terminal lead nowhere. Pytest's capturing has descriptors of its own for standard output."""
    with contextlib.suppress(OSError):
        lost = [number for number in map(int, os.listdir("/dev/fd")) if _is_lost(number)]
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in lost:
            os.dup2(nowhere, number, os.get_inheritable(number))
        os.close(nowhere)


def _is_lost(number: int) -> bool:
    try:
        # Writes nothing; a terminal that has hung up reports an I/O error even for an empty text.
        os.write(number, b"")
    except OSError as error:
        return error.errno == errno.EIO
    return False
