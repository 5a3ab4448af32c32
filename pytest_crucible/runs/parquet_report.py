"""Observations as a Parquet report. It is a module of its own so that a missing pyarrow is found out before anything is asked."""

from __future__ import annotations

from pytest_crucible.exports.parquet import write_parquet
from pytest_crucible.records import Run
from pytest_crucible.runs.observation_reports import observations_of


def parquet_report(run: Run) -> bytes:
    """All observations as Parquet."""
    return observations_of(run, write_parquet)
