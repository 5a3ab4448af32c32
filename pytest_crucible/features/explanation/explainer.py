"""The plugin of a session that explains samples: chooses them, also by the scores of the latest run, and sends versions."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.datasets import identify
from pytest_crucible.features.explanation.choice import ByScore, check_ids, parse_choice
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.printable import printable_cell
from pytest_crucible.session.experiment import Announcement, Experiment, ExperimentDraft, ExperimentRun
from pytest_crucible.session.marks import experiment_mark
from pytest_crucible.signs import is_experiment

if TYPE_CHECKING:
    from pytest_crucible.features.explanation.explained_run import ExplainedExperiment
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment_data import ExperimentData
    from pytest_crucible.session.session import CrucibleSession
from collections.abc import Collection

from pytest_crucible.analyse.analysis import score_table
from pytest_crucible.features.explanation.choice import rank_samples
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.session.marks import comparisons, targets
from pytest_crucible.store.experiments import StoredExperiment, load_experiment
from pytest_crucible.store.runs import RunStore, newest_first


class Explainer:
    """A pytest plugin, registered when a session explains samples."""

    def __init__(self, session: CrucibleSession) -> None:
        self._session, self._settings = session, session.settings
        self._chosen: dict[str, list[str]] = {}
        """Nodeid -> the ids of its samples to explain, in their order."""
        self._experiments: dict[str, ExplainedExperiment] = {}

    # -- planning -------------------------------------------------------------------------------------------------

    def pytest_crucible_plan_begin(self, collection: ExperimentCollection) -> None:
        """Find the samples to explain, before an adapter is opened. Raises SpecError."""
        choices = [parse_choice(text) for text in self._settings.option("explain")]
        items = [item for item in collection.items if isinstance(item, pytest.Function) and is_experiment(item)]
        if not items:
            raise SpecError(
                "--crucible-explain explains experiments, and no test marked crucible is selected: a test that joins calls its "
                "model itself"
            )
        ids = {item.nodeid: self._sample_ids(collection, item) for item in items}
        check_ids(choices, [name for of_item in ids.values() for name in of_item])
        for item in items:
            names: list[str] = []
            for choice in choices:
                if isinstance(choice, ByScore):
                    names += self._by_score(collection, item, choice, ids[item.nodeid])
                elif choice in ids[item.nodeid]:
                    names.append(choice)
            if names:
                self._chosen[item.nodeid] = list(dict.fromkeys(names))

    def _sample_ids(self, collection: ExperimentCollection, item: pytest.Function) -> list[str]:
        _, dataset = collection.datasets.whole(item, experiment_mark(item))
        return [sample.id for sample in dataset.samples]

    def _by_score(
        self, collection: ExperimentCollection, item: pytest.Function, choice: ByScore, ids: Sequence[str]
    ) -> list[str]:

        arms = [name for name in (self._settings.adapter, *self._settings.compare) if name]
        return choose_by_score(collection.resources.store, item, choice, ids, arms)

    def pytest_crucible_select(self, data: ExperimentData) -> None:
        """Leave out all samples but those to explain, in the order given."""
        names = self._chosen.get(data.item.nodeid)
        if names:
            samples = {sample.id: sample for sample in data.dataset.samples}
            data.dataset = identify(data.dataset.name, [samples[name] for name in names if name in samples])

    @pytest.hookimpl(trylast=True)
    def pytest_crucible_plan(self, draft: ExperimentDraft) -> None:
        """Send the samples to all arms of the session, without reusing stored replies to other prompts."""
        if draft.item.nodeid not in self._chosen:
            return
        if not draft.sends_requests:
            raise SpecError("its function takes no sampler, so it sends no request that could be explained")
        draft.arms = self._session.collection.opened_arms
        for opened in draft.arms:
            arm = opened.arm
            if arm.recorded or arm.stored_run is not None:
                raise SpecError(
                    f"adapter {arm.name!r} is recorded and cannot answer a changed prompt; use an adapter that calls a model"
                )
            if arm.trainings or opened.competitors:
                raise SpecError(
                    f"adapter {arm.name!r} stands for several models; name one of them to explain its replies"
                )
        # Of this run alone: replies come again from the reply cache.
        draft.sampling["explanation"] = self._session.run

    @pytest.hookimpl(trylast=True)
    def pytest_crucible_plan_session(self, collection: ExperimentCollection) -> None:
        """Take targets, comparisons and variants out of the plans: an explanation gives no verdict."""
        collection.joined.clear()
        for nodeid, experiment in list(collection.experiments.items()):
            if nodeid in self._chosen:
                collection.experiments[nodeid] = _as_explanation(experiment)
            else:
                del collection.experiments[nodeid]

    def pytest_crucible_announce(self, announcement: Announcement) -> None:
        """Show the most requests of experiments whose first requests are known only with their fixtures."""
        calls = self._settings.option("explain_calls")
        for plan in announcement.plans:
            if _needs_fixtures(self._session.collection.experiments[plan.nodeid]):
                most, names = calls * plan.selected * len(plan.arms), ", ".join(self._chosen[plan.nodeid])
                line = f"explains {printable_cell(names)}: at most {most:,} requests, {calls:,} for each sample and arm"
                announcement.lines[plan.nodeid].append((0, line))

    def pytest_crucible_prepare(self, collection: ExperimentCollection) -> None:
        """Plan the versions of each sample from its first request, which is not sent."""
        items = {item.nodeid: item for item in collection.items if isinstance(item, pytest.Function)}
        for nodeid, experiment in collection.experiments.items():
            if not (collection.problems or _needs_fixtures(experiment)):
                with collection.gather_errors(nodeid):
                    lines = self._open_experiment(nodeid).plan(items[nodeid], experiment)
                    collection.lines[nodeid] = "\n".join((collection.lines[nodeid], *(f"  {line}" for line in lines)))

    def _open_experiment(self, nodeid: str) -> ExplainedExperiment:
        from pytest_crucible.features.explanation.explained_run import ExplainedExperiment

        return self._experiments.setdefault(nodeid, ExplainedExperiment(self._session))

    def pytest_crucible_begin(self, items: list[pytest.Item]) -> None:
        """Deselect all items but those of experiments with samples to explain."""
        others = [item for item in items if item.nodeid not in self._chosen]
        if others:
            items[:] = [item for item in items if item.nodeid in self._chosen]
            self._session.config.hook.pytest_deselected(items=others)

    # -- running --------------------------------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    def pytest_crucible_run(self, run: ExperimentRun) -> None:
        """Send the versions of each sample, and at the end those that follow from scores."""
        explained = self._open_experiment(run.experiment.plan.nodeid)
        run.before.append(explained.begin)
        run.after.append(partial(explained.continue_run, run))


def _needs_fixtures(experiment: Experiment) -> bool:
    """Return whether the function can be called only with fixtures, which pytest sets up with the test."""
    return not inspect.signature(experiment.function).parameters.keys() - {"self"} <= experiment.injected


def _as_explanation(experiment: Experiment) -> Experiment:
    """Return the experiment without targets, comparisons and variants."""
    plan = experiment.plan
    explained: Plan = replace(
        plan,
        purpose="explanation",
        targets=(),
        contrasts=(),
        variants=(),
        variant_terms=(),
        variant_metrics=(),
        not_run={},
        exclusions=(),
        features={},
        repeats=1,
        rounds=1,
        look_alpha=None,
    )
    return replace(experiment, plan=explained, variants=(), variant_metrics=(), late_variants={}, warnings=())


def choose_by_score(
    store: RunStore, item: pytest.Function, choice: ByScore, ids: Collection[str], arms: Sequence[str]
) -> list[str]:
    """Return the ids that a choice means, the worst or most changed first. `arms` are those of the session. Raises SpecError."""
    if choice.kind == "changed" and not comparisons(item):
        raise SpecError(
            f"--crucible-explain={choice}: {item.name} compares nothing, so no stored run has both arms; mark it with "
            "@pytest.mark.ab_compare, or name samples by their ids"
        )
    stored = _latest_run(store, item.nodeid, arms[: 2 if choice.kind == "changed" else 1])
    if stored is None:
        raise SpecError(
            f"--crucible-explain={choice} needs a stored run of {item.name}; run it once without the option"
        )
    table = score_table(analysis_inputs(stored, stored.finished))
    metric = _judged_metric(item, choice, tuple(table.scores))
    numbers = [[arm.name for arm in stored.plan.arms].index(name) for name in arms[:2] if name in _names(stored.plan)]
    scores = [table.scores[metric][number].values for number in numbers]
    names, selected = stored.all_sample_ids(), set(ids)
    ranked = rank_samples(scores, choice.kind, table.facts[metric].direction)
    return [names[position] for position in ranked if names[position] in selected][: choice.number]


def _names(plan: Plan) -> set[str]:
    return {arm.name for arm in plan.arms}


def _latest_run(store: RunStore, nodeid: str, arms: Sequence[str]) -> StoredExperiment | None:
    """Return the experiment in the latest run that measured these arms; explanations measure changed prompts."""
    for run in newest_first(store):
        for key, plan, _ in store.experiments(run):
            is_measured = plan.nodeid == nodeid and plan.purpose != "explanation" and _names(plan) >= set(arms)
            if is_measured and store.has_arms(key):
                return load_experiment(store, key)
    return None


def _judged_metric(item: pytest.Function, choice: ByScore, scored: Sequence[str]) -> str:
    """Return the first of an experiment's metrics that has a target or a comparison. Raises SpecError."""
    judged = [name for measure in (*targets(item), *comparisons(item)) for name in measure.metrics]
    metric = next((name for name in (*scored, *judged) if name in judged and name in scored), None)
    if metric is None:
        raise SpecError(
            f"--crucible-explain={choice} needs a metric of {item.name} that has a target or a comparison, and scores in the "
            "latest run: name samples by their ids"
        )
    return metric
