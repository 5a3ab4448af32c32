"""Report files: their formats, checks that they can be written, and writing them whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Run
from pytest_crucible.records.errors import SpecError, closest_name
from pytest_crucible.records.object_reference import load_object

Reporters = Mapping[str, Callable[[Run], str | bytes] | str]
"""Functions that render a format, by the ending of its files' names."""


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A file, and the function that renders a run for it."""

    path: Path
    render: Callable[[Run], str | bytes]


def report_files(files: Iterable[str], formats: Reporters, folder: Path) -> list[ReportFile]:
    """Return each file with its renderer; relative paths count from `folder`. Raises SpecError for an unknown format."""
    return [ReportFile((folder / file), load_object(formats[_ending(file, formats)])) for file in files]


def check_writable(output: ReportFile) -> None:
    """Raise SpecError for a file that cannot be written."""
    # A file is created for a moment: permissions alone do not show a full or read-only file system.
    path = output.path
    if not path.parent.is_dir():
        raise _unwritable(path, f"{str(path.parent)!r} is not a directory")
    if path.is_dir():
        raise _unwritable(path, "it is a directory")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise _unwritable(path, f"{str(path.parent)!r}: {error.strerror or error}") from error


def write_report(output: ReportFile, run: Run) -> None:
    """Write the file, whole or not at all. Raises SpecError with the reason."""
    write_whole(output.path, output.render(run))


def write_whole(path: Path, rendered: str | bytes) -> None:
    """Write a file, whole or not at all. Raises SpecError with the reason."""
    # In the same folder: only within one file system does `replace` put the whole file in place at once.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # A reply may hold a lone surrogate, which UTF-8 cannot encode.
        draft.write_bytes(rendered.encode("utf-8", "backslashreplace") if isinstance(rendered, str) else rendered)
        draft.replace(path)
    except OSError as error:
        raise SpecError(error.strerror or str(error)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _unwritable(path: Path, why: str) -> SpecError:
    return SpecError(f"report {str(path)!r} cannot be written: {why}")


def _ending(file: str, formats: Reporters) -> str:
    """Return `html` for `report.html`, `forest.svg` for `forest.svg` and `v2-forest.svg`. Raises SpecError."""
    name = Path(file).name
    # The longest first: `forest.svg` has to win over a format `svg`.
    for ending in sorted(formats, key=len, reverse=True):
        if name == ending or name.endswith((f".{ending}", f"-{ending}")):
            return ending
    unknown = Path(file).suffix[1:]
    near = closest_name(unknown, formats, cutoff=0.75)
    hint = f": did you mean .{near}" if near else f" (known: {', '.join(sorted(formats))})"
    problem = f"nothing writes .{unknown}" if unknown else "its name has no ending that says how to write it"
    raise SpecError(f"report {file!r}: {problem}{hint}")
