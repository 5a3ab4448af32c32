"""The hooks that a conftest.py or a plugin can implement. The package's own metrics, datasets and reporters use them too.

If the plugin may be absent (`-p no:crucible`), mark implementations `@pytest.hookimpl(optionalhook=True)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from pathlib import Path

    import click
    import pytest

    from pytest_crucible.backends import Backend
    from pytest_crucible.importers.results import Reader
    from pytest_crucible.metrics import Metric
    from pytest_crucible.records import (
        Adapter,
        Conversation,
        Event,
        Observation,
        Plan,
        ReportFact,
        Run,
        Sample,
        Verdict,
        View,
    )
    from pytest_crucible.records.datasets import VariantRules
    from pytest_crucible.records.settings import Settings
    from pytest_crucible.runs.reproduction import PlanComparison, ReproductionCheck
    from pytest_crucible.runs.run_analysis import RunAnalysis
    from pytest_crucible.runs.suspects import Dependent, Suspects
    from pytest_crucible.sections import Section
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment import (
        Announcement,
        ExperimentDraft,
        ExperimentEstimate,
        ExperimentRun,
        SessionEstimate,
    )
    from pytest_crucible.session.experiment_data import ExperimentData
    from pytest_crucible.session.redaction import Redactor
    from pytest_crucible.session.session import CrucibleSession
    from pytest_crucible.session.settings import SettingsDraft
    from pytest_crucible.session.state import SessionState
    from pytest_crucible.store.prune import Leftovers
    from pytest_crucible.store.runs import RunStore


hookspec = pluggy.HookspecMarker("pytest")  # as pytest.hookspec: the `crucible` program runs without pytest


@hookspec
def pytest_crucible_metrics(config: pytest.Config) -> Mapping[str, Metric | str]:  # type: ignore[empty-body]  # a hook has none
    """Metrics that a marker can name by a string. Values are metrics, or "module:attribute" to import on first use.

    All implementations contribute; one name from two plugins is an error.
    """


@hookspec
def pytest_crucible_attacks(config: pytest.Config) -> Mapping[str, Callable[..., Any] | str]:  # type: ignore[empty-body]  # a hook has none
    """Attacks that a marker can name: functions of a text, Attacks, or "module:attribute" to import on first use.

    All implementations contribute; one name from two plugins is an error.
    """


@hookspec(firstresult=True)
def pytest_crucible_backend(config: pytest.Config, adapter: Adapter) -> Backend | None:
    """Open the backend of an adapter whose `backend` is yours; return None for the others.

    Called before the built-in kinds of adapter, so that an implementation may replace one of them. Raise
    `pytest_crucible.SpecError` with a sentence for an invalid configuration.
    """


@hookspec(firstresult=True)
def pytest_crucible_dataset(config: pytest.Config, name: str) -> Iterable[Sample | Mapping[str, Any]] | None:
    """Return the samples of the dataset of that name; None for other names, which are then read as files."""


@hookspec
def pytest_crucible_reporters(  # type: ignore[empty-body]  # a hook has none
    config: pytest.Config,
) -> Mapping[str, Callable[[Run], str | bytes] | str]:
    """Report formats by file name ending (`md`, `forest.svg`): a function from a Run to text or bytes, or "module:function"."""


@hookspec
def pytest_crucible_sections(config: pytest.Config) -> Mapping[str, Section | str]:  # type: ignore[empty-body]  # a hook has none
    """Sections of the reports by name: objects with compute, claims and view, or "module" or "module:attribute" to import.

    Every report format shows all sections, in the order given here. One name from two plugins is an error.
    """


@hookspec
def pytest_crucible_observed(
    config: pytest.Config, nodeid: str, arm: str, sample: str, observation: Observation
) -> None:
    """Called for each observation as it is made, on the sampling thread (under xdist: in the worker). Be quick."""


@hookspec
def pytest_crucible_event(config: pytest.Config, event: Event) -> None:
    """Called for each event between a request and its reply, on the sampling thread (under xdist: in the worker).

    Be quick. An implementation that raises is not called again, and the run continues.
    """


@hookspec(firstresult=True)
def pytest_crucible_verdict(config: pytest.Config, verdict: Verdict) -> Verdict | None:
    """Waive or harden a verdict: return another one, or None to leave it. Called once for each verdict, when it is decided."""


@hookspec
def pytest_crucible_concluded(config: pytest.Config, run: Run) -> None:
    """Called once, when the session's verdicts are decided and stored. Under xdist: in the controller."""


# -- called by the `crucible` program: in plugins of the entry point group `pytest_crucible` ----------------------------


@hookspec
def pytest_crucible_importers() -> Mapping[str, Reader | str]:  # type: ignore[empty-body]  # a hook has none
    """Formats that `crucible import` and `crucible compare` read, by the name of the harness: a Reader, or "module:attribute"."""


@hookspec
def pytest_crucible_commands() -> Mapping[str, click.Command | str]:  # type: ignore[empty-body]  # a hook has none
    """Commands of the `crucible` program by name: a click command, or "module:attribute" to import when it is called.

    `models register` is a command of the group `models`, and `models list` what that group does without a command. `show --by` is a
    page of `show`: a command that `crucible show` calls where it is given the option `--by`, which the command declares itself.
    """


# -- internal: for the features of this package. They may change in any release. ------------------------------------------


@hookspec
def pytest_crucible_settings(draft: SettingsDraft) -> None:
    """Called when settings are read that name an adapter of a feature, in workers and controllers, too; may change them."""


@hookspec
def pytest_crucible_open(session: CrucibleSession) -> None:
    """Called when the session is opened, after the first marked item was collected; registers what needs pytest's hooks."""


@hookspec
def pytest_crucible_redactor(config: pytest.Config) -> Redactor | None:
    """Return what redacts the texts of a session beside keys; None for nothing. Called before the first module is collected."""


@hookspec
def pytest_crucible_obfuscate(text: str) -> Mapping[str, str]:  # type: ignore[empty-body]  # a hook has none
    """Return a text, written so that a guard may miss what it says, by the name of the obfuscation."""


@hookspec
def pytest_crucible_check_item(item: pytest.Item, is_experiment: bool) -> str:  # type: ignore[empty-body]  # a hook has none
    """Return what is wrong with the markers of a selected item; empty if nothing is."""


@hookspec
def pytest_crucible_plan_begin(collection: ExperimentCollection) -> None:
    """Called before adapters are opened and experiments are planned; reads the feature's part of the configuration."""


@hookspec(firstresult=True)
def pytest_crucible_plan_instead(collection: ExperimentCollection, items: Sequence[pytest.Function]) -> bool | None:
    """Return True to plan none of the selected experiments, and to open no adapter."""


@hookspec
def pytest_crucible_select(data: ExperimentData) -> None:
    """Called for the samples that each experiment selects, before its metrics are read; may leave samples out."""


@hookspec
def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Called for each experiment before its plan is made; adds variants, arguments, metrics and values to the draft."""


@hookspec
def pytest_crucible_plan_session(collection: ExperimentCollection) -> None:
    """Called when all experiments are planned, before they are announced; may replace experiments and their plans."""


@hookspec
def pytest_crucible_demands(item: pytest.Function, settings: Settings) -> Mapping[str, str]:  # type: ignore[empty-body]  # a hook has none
    """Return what a test demands of a candidate, by name: a gate that is frozen notices where it changes."""


@hookspec
def pytest_crucible_session_demands(config: pytest.Config, settings: Settings) -> Mapping[str, str]:  # type: ignore[empty-body]  # a hook has none
    """Return what a session demands of a candidate in all of its experiments, by name."""


@hookspec
def pytest_crucible_announce(announcement: Announcement) -> None:
    """Called before the plans are announced; adds lines to the announcements."""


@hookspec
def pytest_crucible_prepare(collection: ExperimentCollection) -> None:
    """Called when the plans are announced and valid, before they are stored; may take long, such as a training."""


@hookspec
def pytest_crucible_manifest(collection: ExperimentCollection) -> Mapping[str, Any]:  # type: ignore[empty-body]  # a hook has none
    """Return further entries of the run's manifest, as plain data, before the run is stored."""


@hookspec
def pytest_crucible_enter(collection: ExperimentCollection, run: str) -> None:
    """Called when the experiments are in the run store; enters what serves them."""


@hookspec
def pytest_crucible_begin(session: CrucibleSession, items: list[pytest.Item]) -> None:
    """Called when the plans are in the run store, before pytest runs the first item; may order and repeat items."""


@hookspec
def pytest_crucible_count_reports(config: pytest.Config) -> int:  # type: ignore[empty-body]  # a hook has none
    """Return the number of test reports that this process adds to those of items and verdicts."""


@hookspec(firstresult=True)
def pytest_crucible_run(run: ExperimentRun) -> bool | None:
    """Called for each item of an experiment: changes the run and returns None, or takes its place and returns True."""


@hookspec
def pytest_crucible_estimate(estimate: ExperimentEstimate) -> None:
    """Called for each experiment that is estimated; adds the experiments that serve it."""


@hookspec
def pytest_crucible_estimate_session(estimate: SessionEstimate, config: pytest.Config) -> None:
    """Called when all experiments are estimated; adds lines, and arms that may have to be trained."""


@hookspec
def pytest_crucible_join(session: CrucibleSession, item: pytest.Item) -> None:
    """Called when an item of a joined test takes the `crucible` fixture; may skip it."""


@hookspec
def pytest_crucible_sampled(interrupted: bool) -> None:
    """Called when all items have run and everything is stored, before the verdicts are decided."""


@hookspec(firstresult=True)
def pytest_crucible_conclude_instead(state: SessionState, interrupted: bool) -> bool | None:
    """Return True to end a run whose replies are stored without verdicts and reports."""


@hookspec
def pytest_crucible_compare_plans(then: Plan, now: Plan) -> PlanComparison:  # type: ignore[empty-body]  # a hook has none
    """Return what has changed between the plan of a stored run and that of today, for `crucible doctor RUN`."""


@hookspec
def pytest_crucible_leftovers(folder: Path, before: float) -> Leftovers:  # type: ignore[empty-body]  # a hook has none
    """Return what was left beside the run store before a time, in seconds since 1970, for `crucible gc`."""


@hookspec(firstresult=True)
def pytest_crucible_variant_rules(plan: Plan) -> VariantRules | None:
    """Return what is known of the variants of a stored plan; None for those of others."""


@hookspec(firstresult=True)
def pytest_crucible_pair_variants(plan: Plan, ours: Plan) -> Plan | None:
    """Return the plan of two paired runs, which has the variants of both, with what belongs to these; `ours` is the candidate's."""


@hookspec(firstresult=True)
def pytest_crucible_profile(name: str, samples: Sequence[Sample]) -> View | None:
    """Return the profile of a dataset as a page, which `crucible data list NAME -o` writes."""


@hookspec
def pytest_crucible_analyse_run(analysis: RunAnalysis) -> None:
    """Called before a run is analysed, in a session and for a stored run; may change its alpha and cut its samples."""


@hookspec
def pytest_crucible_kept_runs(store: RunStore) -> Iterable[str]:  # type: ignore[empty-body]  # a hook has none
    """Return the runs that `crucible gc` must keep."""


@hookspec
def pytest_crucible_dependents(store: RunStore, suspects: Suspects) -> Iterable[Dependent]:  # type: ignore[empty-body]  # a hook has none
    """Return what the feature keeps in a run store that depends on the suspects, for `crucible why --file`."""


@hookspec
def pytest_crucible_verdict_facts(run: Run) -> Iterable[ReportFact]:  # type: ignore[empty-body]  # a hook has none
    """Return facts that every report shows of verdicts; called where a report is written or -v is given, when all are decided."""


@hookspec(firstresult=True)
def pytest_crucible_verdict_views(store: RunStore, run: Run) -> Mapping[tuple[str, str], View] | None:
    """Return the tables and notes that explain each verdict of a stored run, by its experiment's nodeid and its subject."""


@hookspec(firstresult=True)
def pytest_crucible_training_view(store: RunStore, run: str, folder: Path) -> View | None:
    """Return loss and gradient norm by step of the trainings behind a stored run; `folder` has the files beside the store."""


@hookspec
def pytest_crucible_sample_views(  # type: ignore[empty-body]  # a hook has none
    store: RunStore, run: str, experiment: int, plan: Plan, position: int, conversations: Sequence[Conversation]
) -> Iterable[View]:
    """Return what the feature shows of conversations about one sample of an experiment in a stored run, for its page."""


@hookspec
def pytest_crucible_run_facts(run: Run) -> Iterable[ReportFact]:  # type: ignore[empty-body]  # a hook has none
    """Return facts that every report shows of a run; called when its last row is stored, and before a report is written."""


@hookspec
def pytest_crucible_check_run(run: Run) -> Iterable[ReproductionCheck]:  # type: ignore[empty-body]  # a hook has none
    """Return the checks of `crucible doctor RUN` on what the feature shows of a run; called with its analysis."""


@hookspec
def pytest_crucible_check_folder(folder: Path) -> Iterable[ReproductionCheck]:  # type: ignore[empty-body]  # a hook has none
    """Return the checks of `crucible doctor FOLDER`; none for a folder that is not the feature's."""


@hookspec
def pytest_crucible_check_store(store: RunStore, location: str) -> Iterable[ReproductionCheck]:  # type: ignore[empty-body]  # a hook has none
    """Return the checks of `crucible doctor` on what the feature keeps in a run store; `location` is as it was typed."""
