"""The hooks of the dashboard."""

from __future__ import annotations

from pytest_crucible.features.row import Command


def pytest_crucible_commands() -> dict[str, str]:
    summary = "Runs, samples and live progress in a browser."
    return {"view": Command("pytest_crucible.features.view.view_command:view", summary)}
