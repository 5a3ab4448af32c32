"""Pages of `crucible show`: `--by FIELD`, gaps between slices, and `--why-better`, where a difference lies."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
import numpy as np

from pytest_crucible.analyse.analysis import analyse, main_metric, metric_facts, score_table
from pytest_crucible.analyse.slices import is_by_twin, stack_fields
from pytest_crucible.commands.options import Page, json_option, print_result, run_argument, store_option
from pytest_crucible.features.slices import decisions, fairness_section, search_section, section
from pytest_crucible.features.slices.candidates import MOST_VALUES, features_of_values, has_scikit_learn
from pytest_crucible.features.slices.fairness_section import NEEDED, ArmFairness
from pytest_crucible.features.slices.search_section import SearchResult, search
from pytest_crucible.features.slices.section import Slices
from pytest_crucible.measures.fields import field_problem, has_value, read_field
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.plan.grammar import parse_fields
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Comparison, Contrast, MetricFacts, Plan, Sample
from pytest_crucible.records.datasets import By
from pytest_crucible.records.errors import SpecError, describe_type, suggest
from pytest_crucible.records.object_reference import import_from_here, load_object
from pytest_crucible.records.serialize import pick
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.report.printable import printable, table_lines
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.sections.inputs import section_inputs
from pytest_crucible.stats import holm
from pytest_crucible.stats.number_format import p_equals, quantity, with_interval
from pytest_crucible.store.experiments import StoredExperiment, load_experiments
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import expected_values, has_metadata, metadata_values


@click.command("show", cls=Page)
@run_argument
@click.option(
    "--by",
    default="",
    metavar="FIELD",
    help="Gaps between the slices of a field, named as in a target: sex, 'sex & race', 'age(25, 45)'.",
)
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Metric to compare; may be repeated.")
@click.option(
    "--reference", default="", metavar="SLICE", show_default="the largest", help="Slice to subtract from others."
)
@click.option(
    "--alpha", type=click.FloatRange(0, 0.5, min_open=True), metavar="A", show_default="the run's", help="Error rate."
)
@store_option
@json_option
def fairness(
    run: str, by: str, metrics: Sequence[str], reference: str, alpha: float | None, store: str, as_json: bool
) -> None:
    """Show the largest gap, the smallest ratio and the worst mean of the slices of a field, in all arms of a stored run.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`. Without RUN, the latest run. An interval is formed by the two
    bounds that would decide a target. Changes from a baseline to the candidate are adjusted by Holm. Exits 0: a target decides.
    """
    fields = parse_by(by)
    with existing_store(store, reader="crucible show") as opened:
        run_id = opened.find_run(run)
        level = opened.run(run_id)["alpha"] if alpha is None else alpha
        experiments = load_fairness(opened, run_id, fields, metrics, reference, alpha=level)
    lines = [f"run {run_id}, {fields}", *(line for each in experiments for line in _lines(each))]
    document = {"run": run_id, "by": str(fields), "experiments": [_document(each) for each in experiments]}
    print_result(map(printable, lines), document, as_json=as_json)


def _lines(experiment: ExperimentFairness) -> Iterator[str]:
    yield from ("", experiment.nodeid)
    views = [section.view(experiment.slices, ())]
    if experiment.decisions:
        views.append(fairness_section.view(experiment.decisions, ()))
    for view in views:
        for table in view.tables:
            # The table of decisions has the rates of all slices already.
            is_repeated = table.title.startswith("By ") and experiment.decisions
            if table.verbosity < 3 and not is_repeated:
                yield from ("", *table_lines(table), *([f"    {table.note}"] if table.note else []))
        for note in view.notes:
            yield from ("", note.text)
    if experiment.changes:
        yield from ("", *map(_change_line, experiment.changes))


def _change_line(change: Comparison) -> str:
    """Return `gap(correct by sex): v2 vs v1: -0.034 [-0.039, -0.028], adjusted p < 0.001`; positive is fairer."""
    subject = change.contrast.subject(change.candidate)
    if change.difference is None:
        return f"{subject}: {change.note or 'nothing to compare'}"
    if change.ratio is not None:
        value, fairer = f"{with_interval(change.ratio.value, change.ratio.interval)} times the baseline", "above 1"
    else:
        value, fairer = with_interval(change.difference, change.interval, sign=True), "positive"
    better = "better" if change.contrast.statistic == "worst" else "fairer"
    return f"{subject}: {value}, adjusted {p_equals(change.p_adjusted)} ({fairer} is {better})"


def _document(experiment: ExperimentFairness) -> dict[str, Any]:
    return {
        "experiment": experiment.nodeid,
        "slices": section.view(experiment.slices, ()).document,
        "fairness": fairness_section.view(experiment.decisions, ()).document,
        "changes": [
            {
                "measure": change.contrast.expression,
                "candidate": change.candidate,
                "baseline": change.contrast.baseline,
                "n": change.pairs,
                "difference": change.difference,
                **interval_ends(change.interval),
                **pick(change, "p_value p_adjusted"),
            }
            for change in experiment.changes
        ],
    }


@click.command("show", cls=Page)
@run_argument
@click.option("--why-better", is_flag=True, expose_value=False, help="Where the difference between two arms lies.")
@click.option(
    "--metric", default="", metavar="M", show_default="the main metric", help="Metric whose difference is searched."
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="Function of a sample that returns a text, a number or a bool; may be repeated.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of permutations and topics.")
@store_option
@json_option
def explain(run: str, metric: str, features: Sequence[str], seed: int, store: str, as_json: bool) -> None:
    """List the slices in which the candidate's difference from the first baseline is unlike that elsewhere.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`. Without RUN, the latest run. Searched are fields of the
    samples, lengths, numbers, code, topics, quartiles of numbers and pairs of these. p-values and intervals hold for all slices
    together, and change no verdict.
    """
    with existing_store(store, reader="crucible show") as opened:
        run_id = opened.find_run(run)
        explained = explain_run(opened, run_id, metric, features, seed=seed)
    lines = [f"run {run_id}", *(line for each in explained for line in _search_lines(each))]
    document = {
        "run": run_id,
        "experiments": [{"experiment": each.nodeid, "search": each.result} for each in explained],
    }
    print_result(map(printable, lines), document, as_json=as_json)


def _search_lines(explained: ExplainedExperiment) -> Iterator[str]:
    result = explained.result
    yield from ("", explained.nodeid)
    if result is None:
        yield "too few samples have a score in both arms, or no slice has 20 samples inside and outside"
        return
    head = f"{result.metric}, {result.candidate} vs {result.baseline}, n={result.n:,}"
    yield head if result.findings else f"{head}: {search_section.nothing(result)}"
    # Without findings the view has a note, and no table.
    for table in search_section.view(result, ()).tables:
        yield from (*table_lines(table), f"    {table.note}")
    ranked = [f"{each.feature} {each.value:.3f}" for each in result.importances[:5] if each.value > 0]
    if ranked:
        yield f"features that predict the difference out of fold (share of its variance): {', '.join(ranked)}"


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
    experiments, scored, problems = [], set[str](), list[SpecError]()
    for stored in load_experiments(store, run):
        inputs = analysis_inputs(stored, stored.finished)
        facts = {name: entry for name, entry in metric_facts(inputs).items() if entry.kind != "text"}
        scored |= set(facts)
        measured = _measures(by, [name for name in metrics if name in facts], facts)
        if not metrics:
            main = main_metric(stored.plan, facts)
            measured = _parities(by, facts) or _measures(by, [] if main is None else [main], facts)
        if not measured:
            continue
        try:
            check_stored_fields(store, run, stored.plan, by, f"--{by}")
        except SpecError as problem:
            problems.append(problem)
            continue
        experiment = _of_experiment(store, stored, by, measured, reference, alpha)
        experiments.append(replace(experiment, decisions=()) if metrics else experiment)
    if experiments:
        return _adjust(experiments)
    if problems:
        raise problems[0]
    hint = (
        suggest(metrics[0], scored, otherwise=f"it has {', '.join(sorted(scored))}") if metrics else "it has no scores"
    )
    raise SpecError(f"run {run} has no metric {metrics[0] if metrics else 'with numbers'!r}: {hint}")


def _measures(by: By, metrics: Sequence[str], facts: Mapping[str, MetricFacts]) -> tuple[Contrast, ...]:
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
    store: RunStore, stored: StoredExperiment, by: By, measured: tuple[Contrast, ...], reference: str, alpha: float
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
        slices=section.compute(of_sections) or Slices(fields=()),
        decisions=tuple(fairness_section.measure_fairness(of_sections, by, reference)),
        changes=compared,
    )


def _adjust(experiments: Sequence[ExperimentFairness]) -> tuple[ExperimentFairness, ...]:
    p_values = [change.p_value for each in experiments for change in each.changes]
    adjusted: Iterator[float | None] = iter(holm(p_values, family_size=len(p_values)) if p_values else ())
    return tuple(
        replace(each, changes=tuple(replace(change, p_adjusted=next(adjusted)) for change in each.changes))
        for each in experiments
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
        result = search(sections, chosen, columns, seed=seed, ranks_features=has_scikit_learn())
        explained.append(ExplainedExperiment(nodeid=stored.plan.nodeid, result=result))
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
    values = []
    for sample in samples:
        try:
            value = function(sample)
        # sys.exit in a feature is an error like others; only an interrupt passes.
        except (Exception, SystemExit) as error:
            raise SpecError(
                f"--feature={name} raised {type(error).__name__} on sample {sample.id!r}: {error}; return None where it does not "
                "apply"
            ) from error
        if value is not None and not isinstance(value, str | int | float | np.generic):
            kinds = "a text, a number, a bool, or None where it does not apply"
            raise SpecError(f"--feature={name} returned {describe_type(value)} on sample {sample.id!r}: return {kinds}")
        values.append(value.item() if isinstance(value, np.generic) else value)
    return values


def feature_problem(name: str, values: Sequence[Any]) -> str:
    """Explain a feature whose values make no slices; empty for others."""
    if any(len(feature.levels) > 1 for feature in features_of_values({name: values})):
        return ""
    distinct = quantity(len({value for value in values if has_value(value)}), "different value")
    return (
        f"--feature={name} makes no slices: it returned {distinct} for {quantity(len(values), 'sample')}; "
        f"return numbers, or 2 to {MOST_VALUES} different texts"
    )


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
