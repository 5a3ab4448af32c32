"""The hooks of slices: sections of the reports, and pages of `crucible show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    from pytest_crucible.records import Plan


def pytest_crucible_sections() -> dict[str, Placed]:
    home = "pytest_crucible.features.slices"
    return {
        "slices": Placed(200, f"{home}.section", lambda plan: plan.groups is not None or _is_sliced(plan)),
        "fairness": Placed(210, f"{home}.fairness_section", _is_sliced),
        "twins": Placed(220, f"{home}.fairness_section:TWINS", _is_sliced),
        "slice_search": Placed(230, f"{home}.search_section", lambda plan: len(plan.arms) > 1),
    }


def _is_sliced(plan: Plan) -> bool:
    """Return whether a target or a comparison is by a field."""
    return any(measure.by is not None for measure in (*plan.targets, *plan.contrasts))


def pytest_crucible_commands() -> dict[str, str]:
    home = "pytest_crucible.features.slices.command"
    return {"show --by": f"{home}:fairness", "show --why-better": f"{home}:explain"}
