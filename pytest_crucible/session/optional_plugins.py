"""Opens the plugins that only some sessions have. Their modules load the analysis, so they are imported only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.backends.budget import Budget
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.messages import Messages
from pytest_crucible.session.notifier import Notifier, open_notifier
from pytest_crucible.session.resources import Resources

if TYPE_CHECKING:
    from pytest_crucible.session.estimate_plugin import EstimatePlugin
    from pytest_crucible.session.stage_plugin import StagePlugin
    from pytest_crucible.session.stages import SessionStages


def open_stages(
    settings: Settings, run: str, resources: Resources, xfail: Callable[[], set[str]], *, is_worker: bool
) -> SessionStages | None:
    """Return the stages of a session; None without `crucible_stages`. `xfail` returns the node ids with this marker."""
    if settings.stages is None:
        return None
    from pytest_crucible.session.stages import SessionStages

    return SessionStages(settings, run, lambda: resources.store, is_worker, xfail)


def open_stage_plugin(
    config: pytest.Config, stages: SessionStages | None, check_interrupt: Callable[[], None]
) -> StagePlugin | None:
    """Return the plugin that orders the items by stage; None without stages."""
    if stages is None:
        return None
    from pytest_crucible.session.stage_plugin import StagePlugin

    return StagePlugin(config, stages, check_interrupt)


def open_estimate(
    settings: Settings, collection: ExperimentCollection, resources: Resources, messages: Messages
) -> EstimatePlugin | None:
    """Return the plugin that estimates the run; None without `--crucible-estimate`."""
    if not settings.estimate:
        return None
    from pytest_crucible.session.estimate_plugin import EstimatePlugin

    return EstimatePlugin(settings, collection, resources, messages)


def open_session_notifier(
    config: pytest.Config, settings: Settings, run: str, resources: Resources, messages: Messages
) -> Notifier | None:
    """Return the plugin that sends messages; None without a table `[notify]`, or if the session gives no verdicts."""

    def open_budget() -> Budget | None:
        # A session that has opened no adapter has spent nothing, and must not open them for a message.
        shared = vars(resources).get("shared")
        return None if shared is None else shared.spending.run

    try:
        notifier = open_notifier(config, run, messages, open_budget)
    # Reported with all other errors of the configuration.
    except CrucibleError as error:
        messages.problems.append(str(error))
        return None
    return notifier if not settings.estimate and settings.sample is None else None
