"""The hooks of factors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.records.settings import Settings
    from pytest_crucible.session.experiment import Announcement, ExperimentDraft


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"variance": Placed(110, "pytest_crucible.features.factors.section", lambda plan: bool(plan.random_factors))}


def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Enter the forms of the prompt, and the factors that are declared fixed."""
    from pytest_crucible.features.factors.declarations import read_fixed
    from pytest_crucible.features.factors.prompts import bind_prompts

    draft.fields["fixed"] = read_fixed(draft.mark.features.get("fixed", ()))
    bind_prompts(draft)


def pytest_crucible_announce(announcement: Announcement) -> None:
    """Show how many levels each random factor has."""
    from pytest_crucible.features.factors.declarations import factor_lines

    for plan in announcement.plans:
        announcement.lines[plan.nodeid] += [(10, line) for line in factor_lines(plan)]


def pytest_crucible_demands(item: pytest.Function, settings: Settings) -> dict[str, str]:
    """Return the texts of the prompts, and the fixed factors: claims are about these alone."""
    from pytest_crucible.features.factors.declarations import read_fixed
    from pytest_crucible.features.factors.prompts import read_forms
    from pytest_crucible.session.marks import experiment_mark

    forms = read_forms(item)
    return {
        "prompts": ", ".join(f"{form.name} {form.sha256}" for form in forms),
        "fixed factors": ", ".join(read_fixed(experiment_mark(item).features.get("fixed", ()))),
    }
