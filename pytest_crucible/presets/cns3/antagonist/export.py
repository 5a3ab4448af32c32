"""Findings of the antagonist as a table of `crucible export`: one row a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_crucible.presets.cns3.antagonist.stored import METRIC, Flagged, from_text
from pytest_crucible.records import ColumnKind, ExportTable
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.tables import UNIT, labels

COLUMNS: Mapping[str, ColumnKind] = {
    **UNIT,
    "finding": "text",
    "severity": "text",
    "caused_by": "text",
    "evidence": "json",
    "labelled": "flag",
}


def findings(store: RunStore, run: str) -> ExportTable:
    """Return every finding with its evidence. `labelled`: a person found it too; None if no person has looked."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for *unit, text in labels(store, run, METRIC):
            yield from ((*unit, *row) for row in _rows(from_text(text)))

    return ExportTable(columns=COLUMNS, rows=rows())


def _rows(reply: Flagged) -> Iterator[tuple[Any, ...]]:
    for finding in reply.findings:
        labelled = None if reply.gold is None else finding.name in reply.gold
        yield finding.name, finding.severity, finding.caused_by, dict(finding.evidence), labelled
