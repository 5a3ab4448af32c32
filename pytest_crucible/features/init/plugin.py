"""The hooks of `crucible init`."""

from __future__ import annotations

from pytest_crucible.features.row import Command


def pytest_crucible_commands() -> dict[str, str]:
    summary = "Write a first suite here, and run five samples of it."
    return {"init": Command("pytest_crucible.features.init.init_command:init", summary)}
