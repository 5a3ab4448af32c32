"""The hooks of provenance."""

from __future__ import annotations

from pytest_crucible.features.row import Command

_FOLDER = "pytest_crucible.features.provenance"


def pytest_crucible_commands() -> dict[str, str]:
    return {
        "why": Command(
            f"{_FOLDER}.why_command:why", "What a verdict is made of, and what depends on a file, checkpoint or commit."
        ),
        "trace": Command(f"{_FOLDER}.trace_command:print_trace", "What happened to one sample, step by step."),
    }
