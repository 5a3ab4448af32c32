"""The versions of a model in order, by their stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible.analyse.analysis import clusters_of, metric_facts
from pytest_crucible.analyse.many_arms import ManyArms, compare_many_arms
from pytest_crucible.analyse.scores import Scores, scores
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.records import Arm, MetricFacts, Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.registry import Version
from pytest_crucible.registry.rules import is_version_arm
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.store.experiments import load_experiment
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore

Test = tuple[str, str, str, str]
"""Nodeid, and the hashes of dataset, function and metrics: scores of equal ones may be compared."""
Place = tuple[int, int]
"""The store's key of an experiment, and the number of an arm in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The versions that one test measured."""

    nodeid: str
    samples: int
    table: ManyArms


def rank_versions(store: RunStore, versions: Sequence[Version], metric: str, *, alpha: float) -> tuple[Ranking, ...]:
    """Return a ranking for each test that scored the metric of two versions or more, by the latest run of each.

    Raises SpecError if no test did.
    """
    measured = _measured_versions(store, versions)
    rankings = tuple(_rankings(store, measured, metric, alpha))
    if not rankings:
        raise SpecError(
            f"no two versions have scores of {metric!r} by one test on the same samples: measure both in one run, "
            "with --crucible-adapter=NAME@1 --compare=NAME@2"
        )
    return rankings


def _measured_versions(store: RunStore, versions: Sequence[Version]) -> Mapping[Test, Mapping[str, Place]]:
    """Return, by test, the latest finished experiment that measured each version."""
    measured: dict[Test, dict[str, Place]] = {}
    for run in list_runs(store):
        if run.status != "finished":
            continue
        for key, plan, finished in store.experiments(run.id):
            if finished and plan.selected == plan.planned:
                for name, number in _versions_in(plan, versions):
                    measured.setdefault(_test_of(plan), {}).setdefault(name, (key, number))
    return measured


def _versions_in(plan: Plan, versions: Sequence[Version]) -> Iterator[tuple[str, int]]:
    for number, arm in enumerate(plan.arms):
        name = _name_of(arm, versions)
        if name is not None and not arm.simulated:
            yield name, number


def _name_of(arm: Arm, versions: Sequence[Version]) -> str | None:
    return next((version.name for version in versions if is_version_arm(arm, version)), None)


def _test_of(plan: Plan) -> Test:
    print_of = plan.fingerprint
    return plan.nodeid, print_of.dataset, print_of.function, print_of.metrics


def _rankings(
    store: RunStore, measured: Mapping[Test, Mapping[str, Place]], metric: str, alpha: float
) -> Iterator[Ranking]:
    for (nodeid, *_), places in measured.items():
        loaded = {name: _scores_at(store, place, metric) for name, place in places.items()}
        arms = {name: one for name, one in loaded.items() if one is not None}
        if len(arms) > 1:
            facts, attributes = next((facts, attributes) for facts, _, attributes in arms.values())
            table = compare_many_arms(
                facts, [(name, of_arm) for name, (_, of_arm, _) in arms.items()], attributes, alpha=alpha
            )
            samples = next(iter(arms.values()))[1].values.size
            yield Ranking(nodeid=nodeid, samples=int(samples), table=table)


def _scores_at(store: RunStore, place: Place, metric: str) -> tuple[MetricFacts, Scores, SampleAttributes] | None:
    """Return a version's scores of the metric; None if it has none."""
    key, number = place
    stored = load_experiment(store, key)
    inputs = analysis_inputs(stored, stored.finished)
    facts = metric_facts(inputs).get(metric)
    if facts is None or metric not in inputs.answers[number].scores:
        return None
    plan = inputs.plan
    of_arm = scores(facts, inputs.answers[number], samples=len(inputs.groups), repeats=plan.draws(number).size)
    attributes = SampleAttributes(
        clusters_of(inputs.groups), random_factors=plan.random_factors, look_alpha=plan.look_alpha
    )
    return facts, of_arm, attributes
