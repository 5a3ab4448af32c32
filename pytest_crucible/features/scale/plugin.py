"""The hooks of runs on many machines."""

from __future__ import annotations


def pytest_crucible_commands() -> dict[str, str]:
    return {"plan --samples": "pytest_crucible.features.scale.plan_command:plan"}
