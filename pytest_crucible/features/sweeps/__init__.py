"""Sweeps: members of a family compete, and the winner is the candidate."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature(
    "sweeps", adapter_keys=("sweep",), tables={"arm_makers": "pytest_crucible.features.sweeps.families:MAKERS"}
)
