"""Checks of an experiment's metrics, targets, comparisons and looks, before anything is spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_crucible.measures.table import (
    GEOMETRIC,
    STATISTICS,
    bounds_problem,
    comparison_row,
    contrast_problem,
    target_problem,
)
from pytest_crucible.plan.variants import VariantNames, term_hint, term_metric, variant_terms
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Arm,
    Contrast,
    Dataset,
    Measure,
    MetricFacts,
    Plan,
    Sample,
    Target,
    Twin,
    VariantTerm,
)
from pytest_crucible.records.datasets import SAME_ANSWER, TWIN
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.measures import VIEWS
from pytest_crucible.records.statistics import KnownNumber, claims_on_samples, known_numbers
from pytest_crucible.stats.number_format import quantity

if TYPE_CHECKING:
    from pytest_crucible.stats.slices.slicing import Slicing


def _fields_for(measures: Sequence[Measure], samples: Sequence[Sample]) -> tuple[list[Any], list[Mapping[str, Any]]]:
    """Return the fields of the samples if a measure is by some, else none: of ten million samples they take gigabytes."""
    return sample_fields(samples) if any(measure.by is not None for measure in measures) else ([], [])


def sample_fields(samples: Sequence[Sample]) -> tuple[list[Any], list[Mapping[str, Any]]]:
    """Return `expected` and metadata of all samples, and of their twins, whose field `twin` is the name of their variant."""
    expected: list[Any] = [sample.expected for sample in samples]
    metadata: list[Mapping[str, Any]] = [sample.metadata for sample in samples]
    for sample in samples:
        for name, twin in sample.variants.items():
            if isinstance(twin, Twin) and TWIN in sample.metadata:
                expected.append(sample.expected)
                metadata.append({**sample.metadata, TWIN: name})
    return expected, metadata


def check_fields(measures: Iterable[Measure], expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]) -> None:
    """Raise SpecError for a target or a comparison by a field that does not divide the samples."""
    for measure in measures:
        if measure.by is None or measure.slice:
            continue
        from pytest_crucible.measures.fields import field_problem

        problem = field_problem(measure.by, expected, metadata)
        if problem:
            raise SpecError(f"{measure.expression}: {problem}")


def expand_slices(
    contrasts: Iterable[Contrast], expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]
) -> tuple[Contrast, ...]:
    """Return the comparisons with one for each slice in place of each that is by a field, such as `accuracy by topic`.

    A comparison of an extreme, such as a gap, and of a mean over slices stays one. Raises SpecError for `within`, which
    standardises extremes only.
    """
    expanded: list[Contrast] = []
    for contrast in contrasts:
        if contrast.by is None or contrast.slice or STATISTICS[contrast.statistic].of_slices:
            expanded.append(contrast)
            continue
        if contrast.by.within is not None:
            raise SpecError(f"{contrast.expression}: within standardises gap, ratio and worst only; leave it out")
        from pytest_crucible.measures.fields import slice_samples

        slicing = slice_samples(contrast.by, expected, metadata)
        if contrast.counts:
            expanded.append(replace(contrast, slice_size=_size_over(contrast, slicing)))
            continue
        expanded += [
            replace(contrast, slice=name, slice_size=int((slicing.codes == code).sum()))
            for code, name in enumerate(slicing.names)
        ]
    return tuple(expanded)


def _size_over(contrast: Contrast, slicing: Slicing) -> int:
    """Return how many independent samples a mean over slices counts for: of slices as groups, one each."""
    sizes = Counter(slicing.codes[slicing.codes >= 0].tolist()).values()
    return len(sizes) if contrast.counts == "micro" else round(len(sizes) ** 2 / sum(1 / size for size in sizes))


NO_VARIANTS = VariantNames()
# True unless the test function failed on the sample: available to every experiment by its name.
PASSED = MetricFacts(name="passed", kind="binary", low=0.0, high=1.0, version="1")


def group_count(dataset: Dataset) -> int | None:
    """Return the number of clusters; None without groups, or with one for each sample: then the sample is the unit."""
    # All samples have one, or none has.
    if not dataset.samples or dataset.samples[0].cluster is None:
        return None
    groups = {sample.cluster for sample in dataset.samples}
    return None if None in groups or len(groups) == len(dataset.samples) else len(groups)


def without_unfounded_claim(contrast: Contrast, metric: MetricFacts) -> Contrast:
    """Return a comparison as an estimate where its claim would need to know which direction of the metric is better.

    Raises SpecError for an alternative or a relevant difference that needs to know it.
    """
    higher_is_better = STATISTICS[contrast.statistic].higher_is_better
    turns = higher_is_better(contrast, metric) != higher_is_better(contrast, replace(metric, direction="lower"))
    if metric.is_directed or not turns or contrast.alternative == "equivalent":
        return contrast
    if contrast.alternative != "regression" or contrast.relevant is not None:
        needs = (
            f"alternative={contrast.alternative!r}" if contrast.relevant is None else f"relevant={contrast.limit_text}"
        )
        raise SpecError(
            f"nothing shows which direction of {metric.name!r} is better, which {needs} needs: "
            f"write --metric {metric.name}:higher or --metric {metric.name}:lower"
        )
    return replace(contrast, alternative="estimate")


def contrasts_with_baselines(
    contrasts: Iterable[Contrast], arms: Sequence[Arm], samples: Sequence[Sample] = ()
) -> tuple[Contrast, ...]:
    """Return each declared comparison, in each slice of the samples if it is by a field, against each baseline of this session."""
    declared = tuple(contrasts)
    every_contrast = expand_slices(declared, *_fields_for(declared, samples))
    return tuple(
        replace(contrast, baseline=arm.name) for arm in arms if arm.role == "baseline" for contrast in every_contrast
    )


def plan_metrics(
    facts: Sequence[MetricFacts],
    targets: Sequence[Target],
    contrasts: Sequence[Contrast],
    *,
    open_metrics: bool,
    further: Sequence[MetricFacts] = (),
    variants: VariantNames = NO_VARIANTS,
) -> tuple[MetricFacts, ...]:
    """Return the metrics of an experiment: those declared, `passed` where it is needed, and `further` ones.

    `passed` is needed where a target or a comparison names it, and where nothing else was declared or is scored by the
    test function (`open_metrics`). Raises SpecError for a target or comparison on a metric that does not exist, is text, or
    cannot have the statistic. Terms that name one of the `variants` count as metrics (`plan_terms`).
    """
    metrics = (*_with_passed(facts, targets, contrasts, open_metrics), *further)
    declared = {metric.name: metric for metric in metrics}
    for what, measure in _measures(targets, contrasts):
        for name in measure.metrics:
            check_ambiguous(what, name, declared, VIEWS)
    terms = plan_terms(metrics, targets, contrasts, variants, open_metrics=open_metrics)
    declared |= {term.facts.name: term.facts for term in terms}
    # What a function scores by itself may have any name.
    numbers = {name: row for name, row in known_numbers().items() if name not in declared and not open_metrics}
    names = _Names(declared, numbers, open_metrics, variants)
    for target in targets:
        _check_target(target, names)
    for contrast in contrasts:
        _check_contrast(contrast, names)
    return metrics


def plan_terms(
    metrics: Sequence[MetricFacts],
    targets: Sequence[Target],
    contrasts: Sequence[Contrast],
    variants: VariantNames,
    *,
    open_metrics: bool,
) -> tuple[VariantTerm, ...]:
    """Return the terms by which targets and comparisons name a variant."""
    names = [name for measure in (*targets, *contrasts) for name in measure.metrics]
    return variant_terms(names, {metric.name: metric for metric in metrics}, variants, open_metrics=open_metrics)


def check_expected(targets: Sequence[Target], contrasts: Sequence[Contrast], samples: Sequence[Sample]) -> None:
    """Raise SpecError if a statistic cannot use the samples' `expected`, or a field of the samples."""
    check_fields([*targets, *contrasts], *_fields_for([*targets, *contrasts], samples))
    for what, measure in _measures(targets, contrasts):
        problem_of = STATISTICS[measure.statistic].expected_problem
        problem = problem_of(samples) if problem_of is not None else ""
        if problem:
            raise SpecError(f"{what} {problem}")


def check_repeats(targets: Sequence[Target], contrasts: Sequence[Contrast], repeats: int) -> None:
    """Raise SpecError for k draws of a sample that has fewer replies in one round, of one training and prompt."""
    for what, measure in _measures(targets, contrasts):
        if measure.draws is not None and measure.draws > repeats:
            raise SpecError(
                f"{what} draws {quantity(measure.draws, 'reply')} to each sample, which has {repeats:,}: draw at most {repeats:,}, "
                f"or ask for more, as in @pytest.mark.crucible(..., epochs={measure.draws})"
            )


def _measures(targets: Sequence[Target], contrasts: Sequence[Contrast]) -> Iterator[tuple[str, Measure]]:
    """Yield each target and comparison with its name in messages."""
    yield from ((f"target {target.text!r}", target) for target in targets)
    yield from ((f"ab_compare({contrast.expression!r})", contrast) for contrast in contrasts)


def check_ambiguous(what: str, term: str, metrics: Container[str], views: Container[str]) -> None:
    """Raise SpecError for `a.b` where both a metric `a.b` and a metric `a` with a view `b` exist.

    >>> check_ambiguous("target 'a.b >= 1'", "a.b", {"a.b"}, views={"b"})
    """
    metric, _, view = term.partition("[")[0].rpartition(".")
    if term in metrics and metric in metrics and view in views:
        raise SpecError(
            f"{what} is ambiguous: {term!r} is a metric, and {metric!r} is one with the view {view!r}; "
            f"rename the metric {term!r}"
        )


def _with_passed(
    facts: Sequence[MetricFacts], targets: Sequence[Target], contrasts: Sequence[Contrast], open_metrics: bool
) -> tuple[MetricFacts, ...]:
    named = {term_metric(name) for measure in (*targets, *contrasts) for name in measure.metrics}
    # A suite's own metric with this name takes precedence.
    has_passed = any(metric.name == PASSED.name for metric in facts)
    is_needed = PASSED.name in named or not (facts or open_metrics)
    return (*facts, PASSED) if is_needed and not has_passed else tuple(facts)


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that a target or a comparison may use."""

    declared: Mapping[str, MetricFacts]
    numbers: Mapping[str, KnownNumber]
    open_metrics: bool
    variants: VariantNames


def _check_target(target: Target, names: _Names) -> None:
    what = f"target {target.text!r}"
    if target.metric in names.numbers:
        number = names.numbers[target.metric]
        _check_form(target, number)
        _refuse(target_problem(target, number.facts))
        return
    for name in target.metrics:
        _check_metric(what, name, names, near=names.numbers)
    _check_facts(what, target, names.declared)
    _refuse(target_problem(target, names.declared.get(target.metric, MetricFacts(name=target.metric))))


def _check_contrast(contrast: Contrast, names: _Names) -> None:
    what = f"ab_compare({contrast.expression!r})"
    _check_comparison(contrast.metric, names.numbers)
    for name in contrast.metrics:
        _check_metric(what, name, names)
    _check_facts(what, contrast, names.declared)
    _refuse(contrast_problem(contrast, names.declared.get(contrast.metric, MetricFacts(name=contrast.metric))))


def _check_form(target: Target, number: KnownNumber) -> None:
    """Raise SpecError for a statistic of a single number: its share, count or percentile means nothing."""
    if target.expression != target.metric:
        relation, value = target.inner_relation or target.relation, target.inner_value
        instead = f"{target.metric} {relation} {target.value if value is None else value:g}"
        raise SpecError(
            f"target {target.text!r} asks for a statistic of {target.metric!r}, which is one number of the candidate's "
            f"{number.source}: write {instead!r}"
        )


def _check_comparison(metric: str, numbers: Mapping[str, KnownNumber]) -> None:
    """Raise SpecError for a comparison of known numbers, which cannot be tested with one number in each arm."""
    if metric in numbers:
        raise SpecError(
            f"ab_compare({metric!r}) names a number of the {numbers[metric].source}, of which each arm has one, so that nothing "
            "can be tested: judge it with quality_target, or compare on a metric"
        )


def _check_facts(what: str, measure: Measure, declared: Mapping[str, MetricFacts]) -> None:
    facts = [declared.get(name, MetricFacts(name=name)) for name in measure.metrics]
    problem = STATISTICS[measure.statistic].check(measure, facts)
    if problem:
        raise SpecError(f"{what} cannot be computed: {problem}")


def _refuse(problem: str) -> None:
    if problem:
        raise SpecError(problem)


def _check_metric(what: str, metric: str, names: _Names, near: Iterable[str] = ()) -> None:
    """Raise SpecError for an unknown metric, or one of texts. `near` are further names that a misspelt one may mean."""
    declared, variants = names.declared, names.variants
    if metric in declared:
        if declared[metric].kind == "text":
            raise SpecError(f"{what} is about {metric!r}, which is text: name a metric of bool or numbers")
        return
    if variants.reason_not_run(metric):
        return
    _refuse(variants.problem(metric))
    if names.open_metrics:
        # the test function scores by itself: its metrics are known only after the run
        return
    hint = term_hint(metric, declared, variants) or suggest(
        metric, [*declared, *near], always=f"this experiment has {', '.join(declared)}"
    )
    raise SpecError(f"{what} names metric {metric!r}: {hint}")


def look_alpha(plans: Sequence[Plan], alpha: float) -> float:
    """Return the error rate of each claim: all claims of a session hold together with probability 1 - alpha (Bonferroni)."""
    return alpha / max(sum(len(claims_on_samples(plan)) for plan in plans), 1)


def with_looks(plan: Plan, alpha: float) -> Plan:
    """Return the plan for a run with looks. Raises SpecError for one that a confidence sequence cannot decide."""
    if plan.by_item:
        raise SpecError(
            "--crucible-stop can end marked experiments only, and pytest runs all items of this joined test: "
            "deselect it, or leave the option out"
        )
    if plan.random_factors:
        factors = " and ".join(plan.random_factors)
        raise SpecError(
            f"--crucible-stop cannot count the noise of {factors}: leave it out, or declare fixed={list(plan.random_factors)}"
        )
    facts = plan.facts
    for claim in claims_on_samples(plan):
        _check_look(claim, facts.get(claim.metric))
    return replace(plan, look_alpha=alpha) if claims_on_samples(plan) else plan


def _check_look(claim: Target | Contrast, facts: MetricFacts | None) -> None:
    if term_metric(claim.metric) == SAME_ANSWER:
        raise SpecError(
            f"--crucible-stop cannot look at {claim.metric!r}, which compares two replies: leave one of them out"
        )
    row = STATISTICS[claim.statistic]
    if row.over_slices:
        raise SpecError(
            f"--crucible-stop cannot decide {claim.expression!r}: a look sees parts of its slices, and it is a mean over whole "
            "ones: leave the option out, or make the claim about the mean of all samples"
        )
    if not row.is_mean or row.is_total:
        raise SpecError(
            f"--crucible-stop decides means, rates, pass^k and pass@k, but not {claim.expression!r}: "
            "ask for a rate, such as rate(latency_s <= 2) >= 0.95"
        )
    if isinstance(claim, Target) and claim.relation == "==":
        raise SpecError(f"--crucible-stop cannot prove {claim.text!r}: ask for >= or <=")
    if isinstance(claim, Contrast) and claim.is_relative:
        raise SpecError(
            f"--crucible-stop compares means, and {claim.expression!r} by {claim.limit_text} is about a ratio: "
            "ask for a rate, such as rate(latency_s <= 2)"
        )
    if isinstance(claim, Contrast) and facts is not None and comparison_row(claim, facts) is GEOMETRIC:
        raise SpecError(
            f"--crucible-stop compares means, and {claim.expression!r} alone is compared by the {GEOMETRIC.title}: "
            f"write mean({claim.metric}), a margin in its units, or a rate"
        )
    if isinstance(claim, Contrast) and facts is not None and facts.applies == "reply":
        raise SpecError(
            f"--crucible-stop compares means of the same samples, and {claim.metric!r} applies to some replies only: leave it out"
        )
    # A kind that is not declared is known from the first scores.
    problem = bounds_problem(claim, facts) if facts is not None and facts.kind is not None else ""
    if problem:
        raise SpecError(problem)
