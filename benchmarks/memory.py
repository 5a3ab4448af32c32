"""The most memory that a process has had."""

from __future__ import annotations

from pathlib import Path


def peak_mib(process: int | str = "self") -> float:
    """Return the most memory that a process has had since its program began, in MiB.

    `ru_maxrss` is no measure of that: it is at least what the process that started it had at that time.
    """
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
