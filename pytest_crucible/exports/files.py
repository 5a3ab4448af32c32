"""Writes files of a folder whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pytest_crucible.records.errors import SpecError


def require_folder(folder: Path | None, what: str) -> Path:
    """Return the folder, made if it is missing. Raises SpecError without one, and for a file in its place."""
    if folder is None:
        raise SpecError(f"--what {what} needs -o FOLDER: its files have names of their own")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecError(f"-o {folder} is not a folder: {error.strerror or error}") from error
    return folder


@contextlib.contextmanager
def open_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `path` when the context ends without an error. Raises SpecError."""
    # Beside the target, so that the replacement is atomic; with the process id, so that two exports share no draft.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(path)
    except OSError as error:
        raise SpecError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
