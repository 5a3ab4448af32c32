"""Observations of a run as a report file, equal to the output of `crucible export`."""

from __future__ import annotations

import io

from pytest_crucible.exports.formats import Write, write_csv, write_jsonl
from pytest_crucible.records import Run
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.tables import observations


def csv_report(run: Run) -> bytes:
    """Return all observations as CSV."""
    return observations_of(run, write_csv)


def jsonl_report(run: Run) -> bytes:
    """Return all observations as JSON Lines."""
    return observations_of(run, write_jsonl)


def observations_of(run: Run, write: Write) -> bytes:
    """Return all observations of a run, as a file's content."""
    file = io.BytesIO()
    store = RunStore(run.store)
    try:
        write(observations(store, run.id), file)
    finally:
        store.close()
    return file.getvalue()
