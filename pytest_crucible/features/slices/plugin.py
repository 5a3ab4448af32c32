"""The hooks of slices: sections of the reports, and pages of `crucible show`."""

from __future__ import annotations

from pytest_crucible.features.row import Placed


def pytest_crucible_sections() -> dict[str, Placed]:
    home = "pytest_crucible.features.slices"
    return {
        "slices": Placed(200, f"{home}.section"),
        "fairness": Placed(210, f"{home}.fairness_section"),
        "twins": Placed(220, f"{home}.fairness_section:TWINS"),
        "slice_search": Placed(230, f"{home}.search_section"),
    }


def pytest_crucible_commands() -> dict[str, str]:
    home = "pytest_crucible.features.slices.command"
    return {"show --by": f"{home}:fairness", "show --why-better": f"{home}:explain"}
