"""Contamination: samples that a model was trained on or has memorised, and fields that have drifted."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature("contamination", tables={"checks": "pytest_crucible.features.contamination.plugin:CHECKS"})
