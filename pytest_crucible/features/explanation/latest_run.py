"""Samples chosen by their scores in the latest run of an experiment."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from pytest_crucible.analyse.analysis import score_table
from pytest_crucible.features.explanation.choice import ByScore, rank_samples
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.session.marks import comparisons, targets
from pytest_crucible.store.experiments import StoredExperiment, load_experiment
from pytest_crucible.store.runs import RunStore, newest_first


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
