"""The most memory that a process has had."""

from __future__ import annotations

from pathlib import Path


def peak_mib(process: int | str = "self") -> float:
    """Return the MiB of a process with its own program. `ru_maxrss` is that of the process which started it, if that had more."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
