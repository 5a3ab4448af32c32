"""What a session is to do: the experiments and joined tests that were collected, planned before anything is asked."""

from __future__ import annotations

import contextlib
import importlib
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pytest_crucible import preset_tables, scorer_tables
from pytest_crucible.contenders import Contender, Opener, backends_of, contenders, names_of, trained
from pytest_crucible.environment import environment, git_commit, now
from pytest_crucible.errors import CrucibleError, SpecError
from pytest_crucible.experiment import CrucibleWarning, Experiment, Library
from pytest_crucible.joining import Joined, function_nodeid, gather, joins, unique_ids
from pytest_crucible.manifest import manifest
from pytest_crucible.markers import experiment_mark, is_experiment, is_judged
from pytest_crucible.options import Settings
from pytest_crucible.outputs import check_outputs
from pytest_crucible.plan.fingerprint import differences
from pytest_crucible.plan.foresee import foresee
from pytest_crucible.records import Arm, Plan, Sample
from pytest_crucible.report.announce import announcement
from pytest_crucible.report.printable import printable
from pytest_crucible.resources import Resources
from pytest_crucible.scorers.judge import Judge
from pytest_crucible.store.history import add_tag, check_tag
from pytest_crucible.untrained import untrained


class Agenda:
    """Sees all items, plans the selected ones, and keeps what is wrong with any of them."""

    def __init__(self, config: pytest.Config, settings: Settings, resources: Resources) -> None:
        self.experiments: dict[str, Experiment] = {}
        self.joined: dict[str, Joined] = {}
        self.contenders: tuple[Contender, ...] = ()
        self.lines: dict[str, str] = {}
        self.problems: list[str] = []
        self._config = config
        self._settings = settings
        self._resources = resources
        self._judges: list[Judge] = []
        self._functions: dict[str, Callable[..., Any]] = {}
        self._joined_ids: dict[str, list[str]] = {}

    def see(self, items: Sequence[pytest.Item]) -> None:
        """Remember all marked items before -k, -m and --lf remove any."""
        for item in items:
            if is_experiment(item) and isinstance(item, pytest.Function):
                # pytest-asyncio wraps `item.obj` when it runs; this is the function as it was written.
                self._functions[item.nodeid] = item.function
        self._joined_ids = {nodeid: unique_ids(group) for nodeid, group in gather(items).items()}

    def owner(self, item: pytest.Item) -> str | None:
        """The experiment that an item is (or is a sample of), by its nodeid; None for items that are not ours."""
        function = function_nodeid(item)
        if function in self._joined_ids:  # also where its plan is a mistake: a worker has to tell
            return function
        return item.nodeid if item.nodeid in self._functions else None

    def plan(self, items: Sequence[pytest.Item]) -> None:
        """Plan what was selected. Mistakes are gathered, so that all of them are told at once."""
        joined = gather(items)
        for item in items:
            with self._mistakes(item.nodeid):
                _check_joins(item)
        if not (joined or any(item.nodeid in self._functions for item in items)):
            return
        with self._mistakes():
            check_outputs(self._config, self._settings)
            preset_tables.configure(self._config.rootpath)
            opener = Opener(self._config, self._settings, self._resources.shared)
            scorer_tables.configure(self._config.rootpath, partial(self._judge, opener))
            self.contenders = contenders(opener, self._settings)
            self._resources.hold(*backends_of(self.contenders))
            library = Library(self._config, self._settings, self.contenders)
            for item in items:
                if item.nodeid in self._functions and isinstance(item, pytest.Function):
                    with self._mistakes(item.nodeid):
                        self._plan_experiment(item, library)
            for nodeid, group in joined.items():
                with self._mistakes(nodeid):
                    self._plan_joined(nodeid, group, library)
            self._announce()
            if untrained(self.contenders) and not self.problems:
                self._train(opener)

    def enter(self, run: str) -> bool:
        """Enter the run and all plans into the run store, unless nothing will be asked; whether something will."""
        spends = not (self._config.option.collectonly or self._settings.sample is not None)
        if self.plans() and spends and not self.problems:
            with self._mistakes():
                self._enter(run)
        return bool(self.plans()) and spends

    def _enter(self, run: str) -> None:
        if not hasattr(self._config, "workerinput"):  # now, not between the last reply and the verdicts
            for needed in ("pytest_crucible.closing", "pytest_crucible.stats.choose"):
                importlib.import_module(needed)
        plans = self.plans()
        store, settings = self._resources.store, self._settings
        for name in settings.tag:  # before there is a run that would lack it
            check_tag(name)
        facts: dict[str, Any] = {"started": now(), "seed": settings.seed, "alpha": settings.alpha, "correction": "holm"}
        store.begin_run(
            run,
            **facts,
            git=git_commit(self._config.rootpath),
            environment=environment(),
            manifest=manifest(self._config, settings),
        )
        for name in settings.tag:
            add_tag(store, run, name, at=facts["started"])
        for plan in plans:
            store.enter_plan(run, plan)
        for joined in self.joined.values():
            samples = [Sample(id=name, input=name) for name in joined.positions]
            key = store.add_experiment(run, joined.plan, samples)
            joined.arms = [store.add_arm(key, k, arm.name, "") for k, arm in enumerate(joined.plan.arms)]

    def _plan_experiment(self, item: pytest.Function, library: Library) -> None:
        experiment = library.experiment(item, self._functions[item.nodeid])
        budget = experiment_mark(item).budget
        if budget is not None:
            asked = [*names_of(experiment.contenders), *(one.name for one in self._judges)]
            self._resources.shared.spending.allow(item.nodeid, budget, asked)
        for warning in experiment.warnings:
            item.warn(CrucibleWarning(printable(warning)))
        plan = experiment.plan
        arms = tuple(one if one.stored_run is None else self._stored(one, plan) for one in plan.arms)
        self.experiments[item.nodeid] = replace(experiment, plan=replace(plan, arms=arms))

    def _plan_joined(self, nodeid: str, items: Sequence[pytest.Function], library: Library) -> None:
        ids = self._joined_ids[nodeid]
        plan = library.joined(nodeid, items, ids, len(unique_ids(items)))
        self.joined[nodeid] = Joined(plan, {name: position for position, name in enumerate(ids)})

    def _judge(self, opener: Opener, name: str) -> Judge:
        """Open the judge, when a metric first needs it."""
        judge, backend = scorer_tables.judge_of(opener, name)
        self._resources.hold(backend)
        self._judges.append(judge)
        return judge

    def _stored(self, arm: Arm, plan: Plan) -> Arm:
        """The arm with the id of the run that is meant. Answers to other questions are no baseline: SpecError."""
        _, run, stored = self._resources.store.stored_candidate(arm.stored_run or "", plan.nodeid)
        changed = differences(plan.fingerprint, stored.fingerprint)
        if changed:
            raise SpecError(
                f"--compare={arm.name} cannot be compared with: {' and '.join(changed)} have changed since run {run}; "
                "measure the baseline again with --compare=ADAPTER"
            )
        return replace(arm, stored_run=run)

    def _train(self, opener: Opener) -> None:
        """Train what has yet to be trained, now that nothing else is wrong; the plans then have what came of it."""
        asked = {arm.name for plan in self.plans() for arm in plan.arms}
        self.contenders = trained(opener, self.contenders, asked)
        self._resources.hold(*backends_of(self.contenders))
        known = {one.arm.name: one for one in self.contenders}
        arms = {name: one.arm for name, one in known.items()}
        for nodeid, one in self.experiments.items():
            asking = tuple(known[arm.name] for arm in one.plan.arms)
            self.experiments[nodeid] = replace(one, plan=_with(one.plan, arms), contenders=asking)
        for joined in self.joined.values():
            joined.plan = _with(joined.plan, arms)

    def _announce(self) -> None:
        """One line an experiment: what it will ask, and what it can show."""
        plans = self.plans()
        questions = sum(len(plan.contrasts) for plan in plans)
        for plan in plans:
            foresight = foresee(plan, alpha=self._settings.alpha, questions=questions)
            unasked = [one.arm.name for one in self.contenders[len(plan.arms) :]]
            replayed = self._settings.cache == "only"
            self.lines[plan.nodeid] = announcement(plan, foresight, unasked, replayed=replayed)
        wanted = self._settings.sample
        if wanted is not None and not any(one.position(wanted) is not None for one in self.experiments.values()):
            raise SpecError(f"--crucible-sample={wanted}: no selected experiment has a sample of that id")

    def plans(self) -> list[Plan]:
        """Those that were selected and can be meant."""
        return [one.plan for one in self.experiments.values()] + [one.plan for one in self.joined.values()]

    @contextlib.contextmanager
    def _mistakes(self, where: str = "") -> Iterator[None]:
        try:
            yield
        except CrucibleError as error:
            self.problems.append(f"{where}: {error}" if where else str(error))


def _with(plan: Plan, arms: Mapping[str, Arm]) -> Plan:
    """The plan with its arms as they are now."""
    return replace(plan, arms=tuple(arms[one.name] for one in plan.arms))


def _check_joins(item: pytest.Item) -> None:
    """A marker that nothing would heed is a mistake: the suite would be green for the wrong reason."""
    if is_experiment(item):
        if issubclass(getattr(item, "cls", None) or object, unittest.TestCase):
            raise SpecError(
                "a method of a unittest.TestCase cannot be an experiment: write a function or a plain class"
            )
    elif is_judged(item) and not joins(item):
        raise SpecError(
            "has a quality target or a comparison but is no experiment: mark it with "
            "@pytest.mark.crucible(dataset=...), or ask for the `crucible` fixture and score"
        )
