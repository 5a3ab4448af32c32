"""The report files that a session, or `crucible report`, was asked for."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible import builtin
from pytest_crucible.errors import CrucibleError, SpecError
from pytest_crucible.options import Settings
from pytest_crucible.records import Run

Reporters = Mapping[str, Callable[[Run], str | bytes] | str]
"""What writes a format, by the ending of its files' names."""


@dataclass(frozen=True, slots=True)
class Output:
    """A file, and what renders a run for it."""

    path: Path
    render: Callable[[Run], str | bytes]


def check_outputs(config: pytest.Config, settings: Settings) -> None:
    """A report that cannot be written is found out now, not after an hour of sampling. Raises SpecError."""
    for output in _outputs(config, settings):
        check(output)


def write_outputs(config: pytest.Config, settings: Settings, run: Run) -> Iterator[str]:
    """Write each file; a line for each that could not be written after all."""
    for output in _outputs(config, settings):
        try:
            write(output, run)
        except CrucibleError as error:  # of the disk, or of the run store that a page reads
            yield f"report {str(output.path)!r} was not written: {error}"


def outputs(files: Iterable[str], known: Reporters, folder: Path) -> list[Output]:
    """Each file with what renders it; relative paths count from `folder`. Raises SpecError for a format that nobody writes."""
    return [_output(folder / file, _ending(file, known), known) for file in files]


def check(output: Output) -> None:
    """Raises SpecError for a file that cannot be written. It is tried: permissions do not tell all."""
    path = output.path
    if not path.parent.is_dir():
        raise _unwritable(path, f"{str(path.parent)!r} is not a directory")
    if path.is_dir():
        raise _unwritable(path, "it is a directory")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise _unwritable(path, f"{str(path.parent)!r}: {error.strerror or error}") from error


def write(output: Output, run: Run) -> None:
    """The file appears whole or not at all. Raises SpecError with the reason."""
    rendered = output.render(run)
    path = output.path
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(rendered.encode("utf-8", "backslashreplace") if isinstance(rendered, str) else rendered)
        draft.replace(path)
    except OSError as error:
        raise SpecError(error.strerror or str(error)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _unwritable(path: Path, why: str) -> SpecError:
    return SpecError(f"report {str(path)!r} cannot be written: {why}")


def _outputs(config: pytest.Config, settings: Settings) -> list[Output]:
    known, folder = builtin.reporters(config), config.invocation_params.dir
    whole = [_output(folder / settings.json, "json", known)] if settings.json else []
    return [*whole, *outputs(settings.report, known, folder)]


def _output(path: Path, ending: str, known: Reporters) -> Output:
    render: Any = builtin.load(known[ending])
    return Output(path, render)


def _ending(file: str, known: Reporters) -> str:
    """`html` of `report.html`, `forest.svg` of `forest.svg` and of `v2-forest.svg`. Raises SpecError."""
    name = Path(file).name
    for ending in sorted(known, key=len, reverse=True):
        if name == ending or name.endswith((f".{ending}", f"-{ending}")):
            return ending
    raise SpecError(f"report {file!r}: nothing writes .{Path(file).suffix[1:]} (known: {', '.join(sorted(known))})")
