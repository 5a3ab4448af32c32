"""Provenance: why a verdict is what it is, the trace of each sample, decisions that a test records, and seals of stored rows."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature(
    "provenance",
    tables={
        "store_tables": "pytest_crucible.features.provenance.tables:TABLES",
        "commit_listeners": "pytest_crucible.features.provenance.seals:LISTENERS",
    },
)
