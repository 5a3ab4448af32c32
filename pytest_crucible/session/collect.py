"""The experiments and joined tests of a session, planned before the first request is sent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from _pytest.outcomes import OutcomeException

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import find_pending
from pytest_crucible.adapters.opened_arm import OpenedArm, collect_backends, collect_names
from pytest_crucible.adapters.opener import Opener, check_distinct, open_arms, prepare_arms
from pytest_crucible.adapters.scorer_settings import configure_scorers
from pytest_crucible.builtin import registered_sections
from pytest_crucible.metrics.models.scorers import Judge
from pytest_crucible.plan.streamed import undecided_lines
from pytest_crucible.records import Arm, DetectableEffect, Plan
from pytest_crucible.records.errors import CrucibleError, StoreError
from pytest_crucible.records.settings import Settings
from pytest_crucible.report.plan_lines import announcement
from pytest_crucible.sections.run import load_sections
from pytest_crucible.session.adapter_context import adapter_context
from pytest_crucible.session.experiment import Announcement, Experiment
from pytest_crucible.session.experiment_checks import check_markers, check_sample
from pytest_crucible.session.experiment_data import SessionDatasets
from pytest_crucible.session.failures import PlanningFailures, UnusableStore
from pytest_crucible.session.items import JoinedTest, MarkedItems, group_by_function, unique_ids
from pytest_crucible.session.marks import experiment_mark
from pytest_crucible.session.planner import ExperimentPlanner
from pytest_crucible.session.reports import check_reports
from pytest_crucible.session.resources import Resources
from pytest_crucible.session.run_entry import (
    enter_joined_tests,
    enter_run,
    enter_withheld,
    reuse_lines,
    with_stored_runs,
)


class ExperimentCollection:
    """Plans the selected items, and gathers the errors of all of them."""

    def __init__(self, config: pytest.Config, settings: Settings, resources: Resources) -> None:
        self.marked = MarkedItems()
        self.experiments: dict[str, Experiment] = {}
        self.joined: dict[str, JoinedTest] = {}
        self.opened_arms: tuple[OpenedArm, ...] = ()
        self.lines: dict[str, str] = {}
        self.problems: list[str] = []
        self.failures = PlanningFailures()
        self.unusable_store = UnusableStore(self.marked.experiment_of)
        self.context: AdapterContext | None = None
        """The session as adapters see it, when they are opened."""
        self.config = config
        self.settings = settings
        self.resources = resources
        # One for all items, because each dataset is read once.
        self.datasets = SessionDatasets(config, settings.seed, settings.equal_inputs)
        self.items: Sequence[pytest.Item] = ()
        """The selected items."""
        self._models: list[Judge] = []

    def has_verdicts(self, nodeid: str) -> bool:
        """Return whether an experiment has targets or comparisons."""
        experiment = self.experiments.get(nodeid)
        return experiment is not None and bool(experiment.plan.targets or experiment.plan.contrasts)

    def plan_items(self, items: Sequence[pytest.Item]) -> None:
        """Plan the selected items. Errors are gathered, so that all of them are reported at once."""
        joined = group_by_function(items)
        self.items = items
        for item in items:
            with self.gather_errors(item.nodeid):
                check_markers(item)
        experiments = self.marked.experiments(items)
        if not (joined or experiments):
            return
        with self.gather_errors():
            if not self.config.hook.pytest_crucible_plan_instead(collection=self, items=experiments):
                self._plan_selected(experiments, joined)
        # Where no test is run, none could fail.
        if self.config.option.collectonly:
            self.problems += self.failures.sentences()

    def _plan_selected(self, items: Sequence[pytest.Function], joined: Mapping[str, Sequence[pytest.Function]]) -> None:
        check_reports(self.config, self.settings)
        # Loaded for its errors: a broken plugin ends the session before any request is sent.
        load_sections(registered_sections(self.config))
        self.context = adapter_context(self.config, self.settings, self.resources.shared, lambda: self.resources.store)
        self.config.hook.pytest_crucible_plan_begin(collection=self)
        opener = Opener(self.context)
        self.context = opener.context
        judges = partial(self._open_model, opener)
        self.resources.on_close(configure_scorers(self.config.rootpath, judges))
        self.opened_arms = open_arms(opener, self.settings)
        # An error among others: they are reported together.
        with self.gather_errors():
            check_distinct(self.opened_arms, opener.context.typed_names)
        self.resources.add_backends(*collect_backends(self.opened_arms), *opener.models)
        planner = ExperimentPlanner(self.config, self.settings, self.opened_arms, self.datasets)
        for item in items:
            with self.gather_errors(item.nodeid):
                self._plan_experiment(item, planner)
        for nodeid, group in joined.items():
            with self.gather_errors(nodeid):
                self._plan_joined(nodeid, group, planner)
        self.config.hook.pytest_crucible_plan_session(collection=self)
        self.lines |= announce_plans(
            self.plans(),
            self.settings,
            self.opened_arms,
            self.config.hook.pytest_crucible_announce,
            {nodeid: self._reuse_lines(experiment) for nodeid, experiment in self.experiments.items()},
        )
        if self.settings.sample is not None:
            check_sample(self.settings.sample, self.experiments.values())
        # A preparation, such as a training, takes long, so it starts only when everything else is valid.
        if self._pending_names() and not self.problems and self.resources.sends:
            if self.spends:
                self.resources.open_store()
            self._prepare(opener)
        self.config.hook.pytest_crucible_prepare(collection=self)

    def store_plans(self, run: str) -> bool:
        """Store the run and all plans, unless no request will be sent; return whether requests will be sent."""
        if self.plans() and not self.problems:
            with self.gather_errors():
                if self.spends:
                    self._store_run(run)
                # An estimate reads how long earlier replies were.
                elif not self.resources.sends and not self.config.option.collectonly:
                    self.resources.open_store()
        if self.unusable_store.sentence:
            self._drop_plans()
        return bool(self.plans()) and self.spends

    @property
    def spends(self) -> bool:
        """Return whether the session will run its experiments and store them."""
        settings = self.settings
        is_dry = self.config.option.collectonly or settings.sample is not None
        return not is_dry and self.resources.sends

    def _drop_plans(self) -> None:
        """Plan nothing, since the run store cannot be used: the tests have errors at their setup."""
        # Beside other errors, and where no test is set up, this one is reported with them.
        if self.problems or self.config.option.collectonly:
            self.problems.append(self.unusable_store.sentence)
        self.experiments.clear()
        self.joined.clear()
        self.lines.clear()

    def _store_run(self, run: str) -> None:
        store = self.resources.store
        enter_run(store, run, self.config, self.settings, self._facts())
        for plan in self.plans():
            store.enter_plan(run, plan)
        enter_withheld(store, run, self.experiments.values())
        self.config.hook.pytest_crucible_enter(collection=self, run=run)
        enter_joined_tests(store, run, self.joined.values())

    def _reuse_lines(self, experiment: Experiment) -> list[str]:
        """Return a line on the stored replies that an experiment may use; none where its test has no `sampler`."""
        if not (self.spends and experiment.sends_requests) or self.settings.cache == "only":
            return []
        # It is reported when the run is entered.
        with contextlib.suppress(StoreError):
            return list(reuse_lines(lambda: self.resources.store, self.settings, experiment.plan))
        return []

    def _facts(self) -> dict[str, Any]:
        """Return what features record of the run."""
        facts = self.config.hook.pytest_crucible_manifest(collection=self)
        return {name: value for each in facts for name, value in each.items()}

    def _plan_experiment(self, item: pytest.Function, planner: ExperimentPlanner) -> None:
        experiment = planner.plan_experiment(item, self.marked.functions[item.nodeid])
        budget = experiment_mark(item).budget
        if budget is not None:
            names = [*collect_names(experiment.opened_arms), *(arm.name for arm in self._models)]
            self.resources.shared.spending.allow(item.nodeid, budget, names)
        self.experiments[item.nodeid] = experiment
        # Where one of several arms will be the candidate, the samples of the plan are not known yet.
        if not self.opened_arms[0].competitors:
            self.resolve_stored_arms(item.nodeid)

    def resolve_stored_arms(self, nodeid: str) -> None:
        """Put the ids of stored runs into an experiment's arms. Raises SpecError if the experiment has changed since."""
        experiment = self.experiments.pop(nodeid)
        plan = with_stored_runs(experiment.plan, lambda: self.resources.store)
        self.experiments[nodeid] = replace(experiment, plan=plan)

    def _plan_joined(self, nodeid: str, items: Sequence[pytest.Function], planner: ExperimentPlanner) -> None:
        ids = self.marked.joined_ids[nodeid]
        plan = planner.plan_joined_test(nodeid, items, ids, len(unique_ids(items)))
        self.joined[nodeid] = JoinedTest(plan, {name: position for position, name in enumerate(ids)})

    def _open_model(self, opener: Opener, name: str, role: str) -> Judge:
        """Open the judge, or the paraphraser; called when a metric or an attack first needs it."""
        model = opener.open_model(name, "[scorers]", role)
        self.resources.add_backends(*opener.models)
        self._models.append(model)
        return model

    def _pending_names(self) -> set[str]:
        """Return the arms of experiments that will send something; empty if none of the arms has to be prepared."""
        if not find_pending(self.opened_arms):
            return set()
        return {arm.name for plan in self.plans() if not plan.withheld for arm in plan.arms}

    def _prepare(self, opener: Opener) -> None:
        """Prepare the adapters that cannot answer yet, and update the plans."""
        self.replace_arms(prepare_arms(opener, self.opened_arms, self._pending_names()))

    def replace_arms(self, opened_arms: tuple[OpenedArm, ...]) -> None:
        """Replace the arms of the session in the experiments and joined tests, by their names."""
        self.opened_arms = opened_arms
        self.resources.add_backends(*collect_backends(opened_arms))
        opened = {opened_arm.arm.name: opened_arm for opened_arm in opened_arms}
        arms = {name: opened_arm.arm for name, opened_arm in opened.items()}
        for nodeid, experiment in self.experiments.items():
            own = tuple(opened[arm.name] for arm in experiment.plan.arms)
            self.experiments[nodeid] = replace(experiment, plan=_with_arms(experiment.plan, arms), opened_arms=own)
        for joined in self.joined.values():
            joined.plan = _with_arms(joined.plan, arms)

    def plans(self) -> list[Plan]:
        """Return the plans of all selected experiments and joined tests without errors."""
        return [planned.plan for planned in self.experiments.values()] + [
            planned.plan for planned in self.joined.values()
        ]

    @contextlib.contextmanager
    def gather_errors(self, where: str = "") -> Iterator[None]:
        """Turn the errors of a block into problems of the session; `where` is the nodeid that has them."""
        try:
            yield
        except StoreError as error:
            self.unusable_store.record(error)
        except CrucibleError as error:
            self.problems.append(f"{where}: {error}" if where else str(error))
        except pytest.exit.Exception:
            raise
        # Also sys.exit and pytest.skip: datasets, models and hooks are code of the suite, which may raise anything.
        except (Exception, SystemExit, OutcomeException) as error:
            self.failures.add(where, error)


def _with_arms(plan: Plan, arms: Mapping[str, Arm]) -> Plan:
    """Return the plan with other arms of the same names. Arms of stored runs stay."""
    return replace(plan, arms=tuple(arms[arm.name] if arm.stored_run is None else arm for arm in plan.arms))


def announce_plans(
    plans: Sequence[Plan],
    settings: Settings,
    opened_arms: Sequence[OpenedArm],
    announce: Callable[..., object],
    last_lines: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the announcement of each plan, by nodeid. All comparisons of the session share alpha.

    `announce` is the hook that features implement; `last_lines` follow their lines.
    """
    whole = Announcement(
        plans=plans,
        settings=settings,
        alpha=settings.alpha,
        claims=sum(contrast.shares_alpha for plan in plans for contrast in plan.contrasts),
        lines={plan.nodeid: [] for plan in plans},
    )
    announce(announcement=whole)
    lines = {}
    for plan in plans:
        foresight = _foresight(plan, alpha=whole.alpha, family_size=whole.claims)
        not_queried = [experiment.arm.name for experiment in opened_arms[len(plan.arms) :]]
        further = [line for _, line in sorted(whole.lines[plan.nodeid])] + [*last_lines.get(plan.nodeid, ())]
        further += undecided_lines(plan)
        lines[plan.nodeid] = announcement(
            plan, foresight, not_queried, further=further, replayed=settings.cache == "only"
        )
    return lines


def _foresight(plan: Plan, *, alpha: float, family_size: int) -> tuple[DetectableEffect, ...]:
    """Return the effects that the plan's comparisons can detect. Modules that compute them are imported only if needed."""
    if not plan.contrasts or plan.look_alpha is not None:
        return ()
    from pytest_crucible.plan.power import detectable_effects

    return detectable_effects(plan, alpha=alpha / plan.chosen_among, family_size=family_size)
