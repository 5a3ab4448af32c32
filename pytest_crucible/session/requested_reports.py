"""The report files that a session was asked to write: checked when it is planned, written when it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_crucible.builtin import registered_reporters
from pytest_crucible.records import Run
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.records.settings import Settings
from pytest_crucible.runs.report_files import ReportFile, check_writable, report_files, write_report


def requested_reports(config: pytest.Config, settings: Settings) -> list[ReportFile]:
    """Return the files of --crucible-json and --crucible-report. Raises SpecError for an unknown format."""
    formats, folder = registered_reporters(config), config.invocation_params.dir
    whole = [ReportFile(folder / settings.json, load_object(formats["json"]))] if settings.json else []
    return [*whole, *report_files(settings.report, formats, folder)]


def check_reports(config: pytest.Config, settings: Settings) -> None:
    """Raise SpecError for a report that cannot be written: now, not after an hour of sampling."""
    for file in requested_reports(config, settings):
        check_writable(file)


def write_reports(config: pytest.Config, settings: Settings, run: Run) -> Iterator[str]:
    """Write each report; yields a line for each that could not be written after all."""
    for file in requested_reports(config, settings):
        try:
            write_report(file, run)
        # The disk may be full, and an HTML page also reads the run store.
        except CrucibleError as error:
            yield f"report {str(file.path)!r} was not written: {error}"
