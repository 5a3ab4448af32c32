"""Ensembles: adapters that answer as one, by a vote."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature(
    "ensembles", adapter_keys=("ensemble",), tables={"arm_makers": "pytest_crucible.features.ensembles.arms:MAKERS"}
)
