"""The hooks of contamination and drift."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.row import Command, Placed

if TYPE_CHECKING:
    from pytest_crucible.session.collect import ExperimentCollection

CHECKS = (("contamination", ("expect_not_contaminated",)), ("drift", ("expect_no_data_drift",)))
"""Data checks, by the module in which they were first written."""


def pytest_crucible_sections() -> dict[str, Placed]:
    return {
        "contamination": Placed(
            150, "pytest_crucible.features.contamination.section", lambda plan: "overlaps" in plan.features
        )
    }


def pytest_crucible_commands() -> dict[str, str]:
    home = "pytest_crucible.features.contamination.command"
    return {
        "data drift": Command(f"{home}:compare_drift", "Which fields have drifted from one dataset to another."),
        "data contamination": Command(
            f"{home}:find_contamination", "The samples that a model may have been trained on."
        ),
    }


def pytest_crucible_prepare(collection: ExperimentCollection) -> None:
    """Compare the samples of each experiment with the files that its arms were trained on."""
    if collection.problems or not collection.spends or collection.settings.option("checks") == "off":
        return
    arms = [arm for experiment in collection.experiments.values() for arm in experiment.plan.arms]
    members = [member.arm for opened in collection.opened_arms for member in opened.competitors]
    if not any(arm.trained_on for arm in (*arms, *members)):
        return
    # Loads scipy, which a session without training files may not need.
    from pytest_crucible.features.contamination.compare import compare_training_files

    compare_training_files(collection)
