"""Temporary folders that go with their process: at its end, or when the next process opens one, if it was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


def open_process_folder(prefix: str, parent: str | None = None) -> Path:
    """Return a new folder for this process, and remove those of the same prefix whose processes have ended."""
    for path in Path(parent or tempfile.gettempdir()).glob(f"{prefix}-*-*"):
        number = path.name.removeprefix(f"{prefix}-").partition("-")[0]
        if number.isdigit() and not _is_running(int(number)):
            shutil.rmtree(path, ignore_errors=True)  # another user's stays
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-{os.getpid()}-", dir=parent))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        return True
    return True
