"""The fairness of a stored or imported run: extremes of the slices of a field, in all arms, and how they changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_crucible.analyse.analysis import analyse, main_metric, metric_facts, score_table
from pytest_crucible.fairness import parities
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.plan.grammar import parse_fields
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Comparison, Contrast, MetricFacts, Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.slices import By
from pytest_crucible.records.suggestions import suggest
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.runs.fields import check_stored_fields, load_fields
from pytest_crucible.sections import fairness, slices
from pytest_crucible.sections.fairness import NEEDED, ArmFairness
from pytest_crucible.sections.inputs import section_inputs
from pytest_crucible.sections.slices import Slices
from pytest_crucible.stats import holm
from pytest_crucible.store.experiments import StoredExperiment, load_experiments
from pytest_crucible.store.runs import RunStore

EXTREMES = ("gap", "ratio", "worst")
PARITIES = (
    *(parities.demographic_parity, parities.disparate_impact, parities.equalized_odds),
    *(parities.predictive_parity, parities.calibration),
)
"""Equal opportunity is a part of equalized odds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentFairness:
    """One experiment by the slices of a field."""

    nodeid: str
    slices: Slices
    decisions: tuple[ArmFairness, ...]
    """Each arm's decisions; empty without the metrics of `fairness.decision`."""
    changes: tuple[Comparison, ...]
    """How the extremes changed from each baseline to the candidate; positive is fairer, or better."""


def parse_by(text: str) -> By:
    """Return the fields of `--by`, written as in a target: `sex & race`, `age(25, 45)`, `sex within age_cat`.

    Raises SpecError.
    """
    return parse_fields(text, f"--by={text!r}")


def load_fairness(
    store: RunStore, run: str, by: By, metrics: Sequence[str], reference: str, *, alpha: float
) -> tuple[ExperimentFairness, ...]:
    """Return the fairness of each experiment of a run that has the metrics.

    Without metrics: the parities of `fairness` where their metrics were scored, else the main metric. Raises SpecError for a
    field or a metric that no experiment has, and for a reference that is not a slice.
    """
    found, scored, problems = [], set[str](), list[SpecError]()
    for stored in load_experiments(store, run):
        inputs = analysis_inputs(stored, stored.finished)
        facts = {name: entry for name, entry in metric_facts(inputs).items() if entry.kind != "text"}
        scored |= set(facts)
        measured = _measures(by, [name for name in metrics if name in facts], facts)
        if not metrics:
            measured = _parities(by, facts) or _measures(by, _main_metrics(stored.plan, facts), facts)
        if not measured:
            continue
        try:
            check_stored_fields(store, run, stored.plan, by, f"--{by}")
        except SpecError as problem:
            problems.append(problem)
            continue
        experiment = _of_experiment(store, stored, by, measured, reference, alpha)
        found.append(replace(experiment, decisions=()) if metrics else experiment)
    if found:
        return _adjust(found)
    if problems:
        raise problems[0]
    hint = (
        suggest(metrics[0], scored, otherwise=f"it has {', '.join(sorted(scored))}") if metrics else "it has no scores"
    )
    raise SpecError(f"run {run} has no metric {metrics[0] if metrics else 'with numbers'!r}: {hint}")


def _main_metrics(plan: Plan, facts: Mapping[str, MetricFacts]) -> list[str]:
    metric = main_metric(plan, facts)
    return [] if metric is None else [metric]


def _measures(by: By, metrics: Sequence[str], facts: Mapping[str, MetricFacts]) -> tuple[Contrast, ...]:
    """Return all extremes of some metrics. Values that may be negative have no ratio."""
    measures = (Contrast(statistic=name, metric=metric, by=by, baseline="") for metric in metrics for name in EXTREMES)
    return tuple(each for each in measures if not STATISTICS[each.statistic].check(each, [facts[each.metric]]))


def _parities(by: By, facts: Mapping[str, MetricFacts]) -> tuple[Contrast, ...]:
    """Return the parities whose metrics were scored, and the worst accuracy; nothing without decisions."""
    if not all(name in facts for name in NEEDED):
        return ()
    text = str(by).removeprefix("by ")
    named = [parse_target(parity(by=text)) for parity in PARITIES]
    named.append(parse_target(f"worst(correct {by}) >= 0.5"))
    return tuple(
        Contrast(statistic=each.statistic, metric=each.metric, further=each.further, by=each.by, baseline="")
        for each in named
        if all(name in facts for name in each.metrics)
    )


def _of_experiment(
    store: RunStore,
    stored: StoredExperiment,
    by: By,
    measured: tuple[Contrast, ...],
    reference: str,
    alpha: float,
) -> ExperimentFairness:
    baselines = [arm.name for arm in stored.plan.arms if arm.role == "baseline"]
    contrasts = tuple(replace(each, baseline=name) for name in baselines for each in measured)
    # Without a baseline the sections still need to know what to measure; there is then nothing to compare.
    # Its bounds are those of one look at all samples, also of a run that might have stopped early.
    plan = replace(stored.plan, targets=(), contrasts=contrasts or measured, look_alpha=None)
    expected, metadata = load_fields(store, plan)
    stored = replace(stored, plan=plan)
    inputs = replace(analysis_inputs(stored, stored.finished), plan=plan, expected=expected, metadata=metadata)
    table = score_table(inputs)
    of_sections = section_inputs(inputs, table, stored, alpha=alpha)
    names = of_sections.slicings[by].names
    if reference and reference not in names:
        hint = suggest(reference, names, always=f"the slices are {', '.join(map(repr, names[:12]))}")
        raise SpecError(f"--reference={reference!r} is not a slice of {by.title}: {hint}")
    compared: tuple[Comparison, ...] = ()
    if contrasts:
        compared = analyse(inputs, table, alpha=alpha, family_size=len(contrasts)).comparisons
    return ExperimentFairness(
        nodeid=plan.nodeid,
        slices=slices.compute(of_sections) or Slices(fields=()),
        decisions=tuple(fairness.measure_fairness(of_sections, by, reference)),
        changes=compared,
    )


def _adjust(found: Sequence[ExperimentFairness]) -> tuple[ExperimentFairness, ...]:
    """Return the experiments with p-values adjusted by Holm over all their changes."""
    p_values = [change.p_value for each in found for change in each.changes]
    adjusted: Iterator[float | None] = iter(holm(p_values, family_size=len(p_values)) if p_values else ())
    return tuple(
        replace(each, changes=tuple(replace(change, p_adjusted=next(adjusted)) for change in each.changes))
        for each in found
    )
