"""The report files that a session was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_crucible import builtin
from pytest_crucible.errors import SpecError
from pytest_crucible.options import Settings
from pytest_crucible.records import Run


def check_outputs(config: pytest.Config, settings: Settings) -> None:
    """A report that cannot be written is found out now, not after an hour of sampling. Raises SpecError."""
    for path, _ in _outputs(config, settings):
        if not path.parent.is_dir():
            raise SpecError(f"report {str(path)!r} cannot be written: {str(path.parent)!r} is not a directory")


def write_outputs(config: pytest.Config, settings: Settings, run: Run) -> Iterator[str]:
    """Write each file; a line for each that could not be written after all."""
    for path, render in _outputs(config, settings):
        try:
            rendered = render(run)
            path.write_bytes(rendered.encode() if isinstance(rendered, str) else rendered)
        except OSError as error:
            yield f"report {str(path)!r} was not written: {error}"


def _outputs(config: pytest.Config, settings: Settings) -> Iterator[tuple[Path, Callable[[Run], str | bytes]]]:
    """Each file with what renders it. Raises SpecError for a format that nobody writes."""
    known = builtin.reporters(config)
    wanted = [(settings.json, "json")] if settings.json else []
    wanted += [(path, Path(path).suffix.removeprefix(".")) for path in settings.report]
    for path, extension in wanted:
        if extension not in known:
            raise SpecError(f"report {path!r}: nothing writes .{extension} (known: {', '.join(sorted(known))})")
        yield config.invocation_params.dir / path, builtin.load(known[extension])
