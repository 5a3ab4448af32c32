"""The proof of a promotion, recomputed from stored answers. Stored verdicts are no proof: a hook may have set them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible import gate
from pytest_crucible.analyse.analysis import clusters_of, metric_facts
from pytest_crucible.analyse.many_arms import ManyArms, compare_many_arms
from pytest_crucible.analyse.scores import Scores, scores
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.features.registry.records import Version, is_version_arm
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Analysis, Arm, MetricFacts, Plan, Verdict
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.evaluate import analyse_run, analysis_inputs
from pytest_crucible.runs.plugins import installed_extensions
from pytest_crucible.store.experiments import load_experiment
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The evidence in the stored answers of a run."""

    run: str
    started: str
    status: str
    """`running`, `finished` or `interrupted`."""
    oldest_answer: str
    """ISO 8601: the time of the oldest reply that the run rests on, cached or copied ones included."""
    git: Mapping[str, Any] | None
    manifest: Mapping[str, Any]
    alpha: float
    """The error rate at which the verdicts were decided again."""
    look: int | None
    """The number of this run among those that spend one era's alpha; None if each run has its own."""
    plans: tuple[Plan, ...]
    """The experiments that give verdicts."""
    analyses: tuple[Analysis, ...]
    verdicts: tuple[Verdict, ...]
    """Decided again. A verdict that the session decided otherwise is in `disagreeing`."""
    disagreeing: tuple[Verdict, ...]
    """The stored verdicts that are not met, and were met when decided again: a hook may have amended them."""

    @property
    def candidate(self) -> Arm:
        return self.plans[0].candidate

    @property
    def samples(self) -> int:
        return sum(plan.selected for plan in self.plans)


def load_proof(store: RunStore, run: str, *, alpha: float, look: int | None = None) -> Proof:
    """Return the proof that a run is, decided again at this alpha, or at that of the run where it is smaller."""
    facts = store.run(run)
    level, manifest = min(alpha, facts["alpha"]), facts["manifest"] or {}
    settings, stored = manifest.get("settings") or {}, _stored_verdicts(store, run)
    # In an era, the looks at the pool would spend alpha a second time.
    memory = settings.get("memory", "off") if look is None else "off"
    strict = settings.get("strict", False)
    # A session stores a verdict for each claim that could fail it; without any, sections only show, and take half the time.
    extensions = installed_extensions()
    has_claims = any(verdict.kind == "claim" for verdict in stored)
    analyses, family_size = analyse_run(
        store,
        run,
        extensions if has_claims else replace(extensions, sections={}),
        alpha=level,
        interrupted=facts["status"] != "finished",
        memory=memory,
        strict=strict,
        # Claims of a plugin's section cannot be computed without the plugin, but they share alpha.
        stored_claims=sum(verdict.kind == "claim" and ": " in verdict.subject for verdict in stored),
        look_share=level / facts["alpha"],
    )
    verdicts = gate.decide_verdicts(list(analyses.values()), alpha=level, strict=strict, family_size=family_size)
    decided = {(verdict.nodeid, verdict.subject): verdict.state for verdict in verdicts}
    return Proof(
        run=run,
        started=facts["started"],
        status=facts["status"],
        oldest_answer=_oldest_answer(store, run, facts["started"]),
        git=facts["git"],
        manifest=manifest,
        alpha=level,
        look=look,
        plans=judged_plans(store, run),
        analyses=tuple(analyses.values()),
        verdicts=verdicts,
        # What cannot be computed without a plugin stays as the session decided it.
        disagreeing=tuple(
            verdict
            for verdict in stored
            if verdict.state != "met" and decided.get((verdict.nodeid, verdict.subject), "met") == "met"
        ),
    )


def judged_plans(store: RunStore, run: str) -> tuple[Plan, ...]:
    """Return the plans of a run's experiments, without practice and without the half of a sweep that chooses its winner."""
    plans = (plan for _, plan, _ in store.experiments(run))
    return tuple(plan for plan in plans if plan.purpose == "gate" and not plan.chooses)


def _stored_verdicts(store: RunStore, run: str) -> list[Verdict]:
    return [
        Verdict(nodeid=plan.nodeid, subject=subject, **facts)
        for key, plan, _ in store.experiments(run)
        for subject, facts in store.verdicts(key).items()
    ]


def _oldest_answer(store: RunStore, run: str, started: str) -> str:
    """Return the time of the oldest reply in any arm; the start of the run where no reply has a time."""
    of_run = (
        "SELECT arms.id FROM arms JOIN experiments ON experiments.id = arms.experiment WHERE experiments.run = :run"
    )
    # A copied reply has the time of its original; of cached ones the arm has the oldest.
    copied = store.scalar(f"SELECT MIN(started) FROM replies WHERE arm IN ({of_run})", run=run)
    cached = store.scalar(f"SELECT MIN(cache_since) FROM arms WHERE id IN ({of_run})", run=run)
    times = [datetime.datetime.fromisoformat(started).timestamp(), *(time for time in (copied, cached) if time)]
    return datetime.datetime.fromtimestamp(min(times), datetime.UTC).isoformat(timespec="seconds")


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
    measured: dict[Test, dict[str, Place]] = {}
    for run in list_runs(store):
        if run.status != "finished":
            continue
        for key, plan, finished in store.experiments(run.id):
            if finished and plan.selected == plan.planned:
                print_of = plan.fingerprint
                test = plan.nodeid, print_of.dataset, print_of.function, print_of.metrics
                for name, number in _versions_in(plan, versions):
                    measured.setdefault(test, {}).setdefault(name, (key, number))
    return measured


def _versions_in(plan: Plan, versions: Sequence[Version]) -> Iterator[tuple[str, int]]:
    for number, arm in enumerate(plan.arms):
        name = next((version.name for version in versions if is_version_arm(arm, version)), None)
        if name is not None and not arm.simulated:
            yield name, number


def _rankings(
    store: RunStore, measured: Mapping[Test, Mapping[str, Place]], metric: str, alpha: float
) -> Iterator[Ranking]:
    for (nodeid, *_), places in measured.items():
        loaded = {name: _scores_at(store, place, metric) for name, place in places.items()}
        arms = {name: scored for name, scored in loaded.items() if scored is not None}
        if len(arms) > 1:
            facts, attributes = next((facts, attributes) for facts, _, attributes in arms.values())
            table = compare_many_arms(
                facts, [(name, of_arm) for name, (_, of_arm, _) in arms.items()], attributes, alpha=alpha
            )
            samples = next(iter(arms.values()))[1].values.size
            yield Ranking(nodeid=nodeid, samples=int(samples), table=table)


def _scores_at(store: RunStore, place: Place, metric: str) -> tuple[MetricFacts, Scores, SampleAttributes] | None:
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
