"""Slices: gaps between them, fairness of decisions, and where a difference between two arms lies."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature("slices", tables={"statistics": "pytest_crucible.features.slices.statistics:ROWS"})
