"""The hooks of metrics by a judge."""

from __future__ import annotations

from pytest_crucible.features.row import Placed


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"judges": Placed(160, "pytest_crucible.features.judges.section")}
