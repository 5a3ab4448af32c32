"""The hooks of data checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_crucible.features.row import Command, Placed

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.features.data_checks.session_checks import CheckItems
    from pytest_crucible.records import Plan, Sample, View
    from pytest_crucible.records.settings import Settings
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment_data import ExperimentData
    from pytest_crucible.session.session import CrucibleSession

PLUGIN = "crucible-checks"
"""The name of the plugin that runs and reports the checks of a session."""
_MOVED = {
    "schema": "column_to_exist column_to_be_of_type column_count_to_equal",
    "duplicates": "no_duplicates one_answer_per_input group_share_below",
    "leaks": "no_secrets no_personal_data",
    "labels": "feature_correlation label_balance label_cardinality table_row_count_to_be_between",
    "strings": "column_string_length_distribution column_values_to_be_valid_emails column_values_to_be_valid_urls "
    "column_values_to_be_valid_uuids column_values_to_match_format",
    "times": "column_timestamp_intervals_to_be_regular column_timestamps_to_be_chronological "
    "column_timestamps_to_be_within_range column_values_to_be_valid_timestamps",
}
CHECKS = tuple((home, tuple(f"expect_{name}" for name in names.split())) for home, names in _MOVED.items())
"""Checks that have moved, by the module in which they were first written: their identities have its name."""


def pytest_crucible_sections() -> dict[str, Placed]:
    return {
        "data_checks": Placed(
            140, "pytest_crucible.features.data_checks.section", lambda plan: "checks" in plan.features
        )
    }


def pytest_crucible_commands() -> dict[str, str]:
    return {
        "data check": Command(
            "pytest_crucible.features.data_checks.command:check_dataset", "The standard data checks on a dataset."
        )
    }


def pytest_crucible_profile(name: str, samples: Sequence[Sample]) -> View:
    from pytest_crucible.features.data_checks.profile import profile_samples, profile_view

    return profile_view(name, profile_samples(samples))


def pytest_crucible_open(session: CrucibleSession) -> None:
    """Register the plugin of checks where tests without any need it, and in a controller of xdist, which collects no tests."""
    if session.settings.option("checks") == "only" or session.config.pluginmanager.hasplugin("dsession"):
        _open_plugin(session)


def pytest_crucible_check_item(item: pytest.Item, is_experiment: bool) -> str:
    """Return what is wrong where a test has checks and is not an experiment."""
    if is_experiment or not any(mark.name == "data_check" for mark in item.own_markers):
        return ""
    return "has data checks but no dataset: mark it with @pytest.mark.crucible(dataset=...), or remove data_check"


def pytest_crucible_plan_instead(collection: ExperimentCollection, items: Sequence[pytest.Function]) -> bool | None:
    """Check the samples of the selected experiments and plan none, with --crucible-checks=only."""
    if collection.settings.option("checks") != "only":
        return None
    from pytest_crucible.session.marks import experiment_mark

    for item in items:
        with collection.gather_errors(item.nodeid):
            collection.datasets.select(item, experiment_mark(item))
    return True


def pytest_crucible_select(data: ExperimentData) -> None:
    """Run the checks of an experiment; those that drop samples run first, because the others judge the rest."""
    if data.item.get_closest_marker("data_check") is not None:
        from pytest_crucible.features.data_checks.session_checks import data_checks
        from pytest_crucible.session.session import session_of

        checks, session = data_checks(data.item), session_of(data.item.config)
        if session is not None:
            _open_plugin(session).check_data(data, checks)


def pytest_crucible_demands(item: pytest.Function, settings: Settings) -> dict[str, str]:
    """Return the checks that a test demands of its samples."""
    if item.get_closest_marker("data_check") is None:
        return {}
    from pytest_crucible.features.data_checks.session_checks import data_checks

    return {"data checks": "; ".join(f"{check.identity} {check.severity}" for check in data_checks(item))}


def pytest_crucible_session_demands(settings: Settings) -> dict[str, str]:
    return {"data checks": "no" if settings.option("checks") == "off" else "yes"}


def pytest_crucible_count_reports(config: pytest.Config) -> int:
    """Return the number of checks that this process reports as tests."""
    plugin = _plugin(config)
    return 0 if plugin is None else sum(map(len, plugin.checks.results.values()))


def _plugin(config: pytest.Config) -> CheckItems | None:
    plugin: CheckItems | None = config.pluginmanager.get_plugin(PLUGIN)
    return plugin


def _open_plugin(session: CrucibleSession) -> CheckItems:
    """Return the plugin that runs and reports the checks of a session, registered when it is first needed."""
    plugin = _plugin(session.config)
    if plugin is None:
        from pytest_crucible.features.data_checks.session_checks import open_checks

        plugin = open_checks(session)
        session.config.pluginmanager.register(plugin, PLUGIN)
    return plugin


def withheld_by_check(plan: Plan) -> str:
    """Return which check keeps an experiment from sending anything; empty if none does."""
    if "checks" not in plan.features:
        return ""
    from pytest_crucible.features.data_checks.section import RESULTS

    failed = next((result for result in RESULTS.of(plan) if result.state == "failed"), None)
    return "" if failed is None else f"{failed.call} failed"


WITHHELD = (withheld_by_check,)
