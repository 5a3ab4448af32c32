"""Slices of stored runs: gaps between those of a field, and those where the difference of two arms lies."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pytest_crucible.analyse.analysis import analyse, main_metric, metric_facts, score_table
from pytest_crucible.analyse.twins import is_by_twin, stack_fields
from pytest_crucible.fairness import decisions
from pytest_crucible.measures.candidates import MOST_VALUES, features_of_values, has_scikit_learn
from pytest_crucible.measures.fields import field_problem, has_value, read_field
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.plan.grammar import parse_fields
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Comparison, Contrast, MetricFacts, Plan, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import import_from_here, load_object
from pytest_crucible.records.slices import By
from pytest_crucible.records.suggestions import suggest
from pytest_crucible.records.type_names import describe_type
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.sections import fairness, slices
from pytest_crucible.sections.fairness import NEEDED, ArmFairness
from pytest_crucible.sections.inputs import section_inputs
from pytest_crucible.sections.slice_search import SearchResult, search
from pytest_crucible.sections.slices import Slices
from pytest_crucible.stats import holm
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.experiments import StoredExperiment, load_experiments
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.stored_samples import expected_values, has_metadata, metadata_values

EXTREMES = ("gap", "ratio", "worst")
PARITIES = (
    *(decisions.demographic_parity, decisions.disparate_impact, decisions.equalized_odds),
    *(decisions.predictive_parity, decisions.calibration),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedExperiment:
    """The search in one experiment; None if it has too few samples."""

    nodeid: str
    result: SearchResult | None


def explain_run(
    store: RunStore, run: str, metric: str, features: Sequence[str], *, seed: int = 0
) -> tuple[ExplainedExperiment, ...]:
    """Return the search in each experiment of a run that has two arms and the metric. Raises SpecError if none has."""
    functions = {reference: load_feature(reference) for reference in features}
    explained, scored = [], set[str]()
    problems: dict[str, list[str]] = {name: [] for name in functions}
    for stored in load_experiments(store, run):
        inputs = analysis_inputs(stored, stored.finished)
        table = score_table(inputs)
        scored |= set(table.scores)
        chosen = metric or main_metric(stored.plan, table.scores)
        if chosen not in table.scores or chosen is None or len(stored.plan.arms) < 2:
            continue
        samples = stored.all_samples() if functions else ()
        columns = {name: read_feature(name, function, samples) for name, function in functions.items()}
        for name, values in columns.items():
            problems[name].append(feature_problem(name, values))
        sections = section_inputs(inputs, table, stored, alpha=store.run(run)["alpha"])
        explained.append(
            ExplainedExperiment(
                nodeid=stored.plan.nodeid,
                result=search(sections, chosen, columns, seed=seed, ranks_features=has_scikit_learn()),
            )
        )
    # A feature may be about one of several experiments only.
    for problem in problems.values():
        if problem and all(problem):
            raise SpecError(problem[0])
    if explained:
        return tuple(explained)
    if metric and metric not in scored:
        hint = suggest(metric, scored, otherwise=f"it has {', '.join(sorted(scored)) or 'no scores'}")
        raise SpecError(f"run {run} has no metric {metric!r}: {hint}")
    raise SpecError(f"run {run} has no experiment with two arms: run it with --compare, or import a second arm")


def load_feature(reference: str) -> Any:
    """Return the function that `module:function` names, from the working directory too. Raises SpecError."""
    if not all(reference.partition(":")):
        raise SpecError(f"--feature={reference!r} cannot be read: write MODULE:FUNCTION, such as features:steps")
    import_from_here()
    try:
        function = load_object(reference)
    except (ImportError, AttributeError) as error:
        raise SpecError(f"--feature={reference!r} cannot be loaded: {error}; write MODULE:FUNCTION") from None
    # A module can raise anything while it is imported.
    except (Exception, SystemExit) as error:
        raise SpecError(
            f"--feature={reference!r} cannot be loaded: its module raised {type(error).__name__}: {error}; correct the module"
        ) from error
    if not callable(function):
        raise SpecError(f"--feature={reference!r} is {describe_type(function)}: name a function of a sample")
    if inspect.iscoroutinefunction(function):
        raise SpecError(f"--feature={reference!r} is an async function: write it with def, and without await")
    return function


def read_feature(name: str, function: Any, samples: Sequence[Sample]) -> list[Any]:
    """Return a feature of each sample. Raises SpecError for a value of another type."""
    values = [_apply(name, function, sample) for sample in samples]
    for sample, value in zip(samples, values, strict=True):
        if value is not None and not isinstance(value, str | int | float | np.generic):
            kinds = "a text, a number, a bool, or None where it does not apply"
            raise SpecError(f"--feature={name} returned {describe_type(value)} on sample {sample.id!r}: return {kinds}")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def feature_problem(name: str, values: Sequence[Any]) -> str:
    """Explain a feature whose values make no slices; empty for others."""
    if any(len(feature.levels) > 1 for feature in features_of_values({name: values})):
        return ""
    distinct = quantity(len({value for value in values if has_value(value)}), "different value")
    return (
        f"--feature={name} makes no slices: it returned {distinct} for {quantity(len(values), 'sample')}; "
        f"return numbers, or 2 to {MOST_VALUES} different texts"
    )


def _apply(name: str, function: Any, sample: Sample) -> Any:
    try:
        return function(sample)
    # sys.exit in a feature is an error like others; only an interrupt passes.
    except (Exception, SystemExit) as error:
        raise SpecError(
            f"--feature={name} raised {type(error).__name__} on sample {sample.id!r}: {error}; return None where it does not apply"
        ) from error


Fields = tuple[Sequence[Any], Sequence[Mapping[str, Any]]]
"""Each sample's `expected`, and its metadata."""


def load_fields(store: RunStore, plan: Plan) -> Fields:
    """Return each sample's `expected` and metadata, in the dataset's order."""
    return expected_values(store, plan.dataset_sha256), metadata_values(store, plan.dataset_sha256)


def check_stored_fields(store: RunStore, run: str, plan: Plan, by: By, what: str) -> None:
    """Raise SpecError for fields that do not divide a stored run's samples, or that were stored without metadata."""
    expected, metadata = load_fields(store, plan)
    if is_by_twin(by, plan.variants):
        # The prompts may all be of one version, and their twins of another.
        expected, metadata = stack_fields([variant.name for variant in plan.variants], expected, metadata)
    for field in (*by.fields, *(() if by.within is None else (by.within,))):
        is_absent = all(read_field(field.name, *sample) is None for sample in zip(expected, metadata, strict=True))
        if is_absent and not has_metadata(store, plan.dataset_sha256):
            again = "run it again"
            if "imported" in store.run(run)["environment"]:
                again = f"import it again, a table with --column metadata={field.name}"
            raise SpecError(f"run {run} was stored without metadata, so it has no field {field.name!r}; {again}")
    problem = field_problem(by, expected, metadata)
    if problem:
        raise SpecError(f"{what}: {problem}")
