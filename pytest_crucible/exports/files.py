"""Files of a folder, written whole or not at all, and the rows by which features add exports that are not tables."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pytest_crucible.quick_dataclass import dataclass
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


@dataclass(frozen=True, kw_only=True)
class FurtherExport:
    """Files of stored runs that are not tables. A row that a feature adds to `further_exports`."""

    names: tuple[str, ...]
    """What `--what` may be for them."""
    noun: str
    """What such a file is: a training set."""
    tasks: tuple[str, ...]
    """The names that an error suggests."""
    options: tuple[Callable[[Any], Any], ...]
    """Further options of the command, in the order of the help. Their defaults are None."""
    write: Callable[..., tuple[list[str], Mapping[str, Any]]]
    """Takes runs, store, output, name and the options that were given; returns the lines to print, and a JSON document."""
