"""Observations as a Parquet report. The module is separate so that a missing pyarrow is an error before sampling begins."""

from __future__ import annotations

from pytest_crucible.exports.formats import find_writer
from pytest_crucible.records import Run
from pytest_crucible.runs.observation_reports import observations_of

write_parquet = find_writer("parquet")


def parquet_report(run: Run) -> bytes:
    """Return all observations as Parquet."""
    return observations_of(run, write_parquet)
