"""Metrics that raised on every sample. That is an error of the suite, so the report shows the exception once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from pytest_crucible.analyse.pool import Pool
from pytest_crucible.analyse.reach import find_refuted_reaches, suggest_reach
from pytest_crucible.analyse.repeats import reduce_repeats
from pytest_crucible.analyse.scores import Scores, resolve, scores, scores_with_units
from pytest_crucible.analyse.slices import (
    flag_slice,
    flag_sliced,
    is_by_twin,
    keep_slice,
    score_twins,
    slice_all,
    stack_attributes,
    stack_scores,
)
from pytest_crucible.analyse.statistics import (
    Clusters,
    SampleAttributes,
    ScoredMetric,
    keep_own_samples,
    mean_of,
    row_of,
)
from pytest_crucible.analyse.targets import estimate, evaluate_target
from pytest_crucible.analyse.variant_scores import score_terms
from pytest_crucible.measures.table import MEAN
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Analysis,
    ArmOutcomes,
    BeyondReach,
    Comparison,
    Contrast,
    Estimate,
    Lost,
    Measure,
    MetricFacts,
    Plan,
    Target,
    TargetResult,
)
from pytest_crucible.records.statistics import known_numbers
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.resampling.draws import MonteCarlo, hash_ids

# A message may quote a whole reply, and this one is a verdict's reason, which every report prints.
MOST_CHARACTERS = 300


def failed_metrics(arm: ArmOutcomes) -> Mapping[str, str]:
    """Return, for each metric without a single value in this arm, a sentence with its first error."""
    by_metric: dict[str, list[Lost]] = defaultdict(list)
    # Of a metric that applies to some samples only, the others are in its column, without a value.
    scored = {name for name, column in arm.scores.items() if any(value is not None for value in column.values)}
    for lost in arm.lost:
        if lost.metric is not None and lost.reason == "scorer" and lost.metric not in (*scored, *arm.labels):
            by_metric[lost.metric].append(lost)
    return {
        metric: failure_text(
            metric,
            len({lost.unit.position for lost in losses}),
            next((lost.detail for lost in losses if lost.detail), ""),
        )
        for metric, losses in by_metric.items()
    }


def failure_text(metric: str, samples: int, detail: str) -> str:
    """Return the sentence on a metric that failed on each of so many samples, with the detail of its first error."""
    first = detail.partition("\n")[0]
    error = first.removeprefix(f"metric {metric!r} ").removeprefix("raised ")
    error = error if len(error) <= MOST_CHARACTERS else f"{error[:MOST_CHARACTERS]}..."
    return f"metric {metric!r} failed on {'all ' if samples > 1 else ''}{quantity(samples, 'sample')}: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisInputs:
    """The inputs of an analysis: the plan, each arm's replies, and each sample's group."""

    plan: Plan
    answers: tuple[ArmOutcomes, ...]
    groups: Sequence[str | None]
    finished: bool
    known_kinds: Mapping[str, str]
    expected: Sequence[Any] = ()
    """Each sample's `expected`, where a measure of the plan uses it."""
    metadata: Sequence[Mapping[str, Any]] = ()
    """Each sample's metadata, where a measure of the plan is by a field."""
    pools: Mapping[Contrast, Pool] = field(default_factory=dict)
    """The replies of all sessions, for comparisons that are decided on them."""
    target_pools: Mapping[Target, Pool] = field(default_factory=dict)
    """The replies of all sessions, for targets that must be proven."""
    looked_at: Sequence[int] | None = None
    """The samples until the run's last look, in the order of looks; None for a run without looks."""
    ended: str = ""
    """Why the session ended before all samples were sent, in the words of verdicts; empty if it did not."""
    out_of_reach: tuple[str, ...] = ()
    """The texts of the targets that could not be met any more when it ended."""
    claims_alpha: float | None = None
    """The error rate that all claims share where bounds share it, too, and not only comparisons; None elsewhere."""
    of_features: Mapping[str, Any] = field(default_factory=dict)
    """What features know of the experiment, for their sections."""
    variants: Mapping[str, tuple[ArmOutcomes, ...]] = field(default_factory=dict)
    """Each arm's replies to the twins of the samples, by the name of their variant; samples without a twin are skipped."""

    sample_ids: Sequence[str] = ()
    """Each sample's id. Without them, permutation tests join samples into blocks by their positions."""
    seed: int = 0
    """The seed of the run, for permutation tests."""
    plans_next_run: bool = True
    """Whether comparisons say which difference they could show, and how many samples would decide: a verdict needs neither."""

    @property
    def all_answers(self) -> tuple[ArmOutcomes, ...]:
        """The outcomes of all arms, on the original samples and on all variants."""
        return (*self.answers, *(arm for arms in self.variants.values() for arm in arms))


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Scores of every metric in every arm."""

    facts: Mapping[str, MetricFacts]
    scores: Mapping[str, tuple[Scores, ...]]
    attributes: SampleAttributes
    twins: Mapping[str, tuple[tuple[Scores, ...], ...]] = field(default_factory=dict)
    """Metric that is compared by twin -> its scores on the variants, in the order of the plan: variants x arms."""
    beyond_reach: Mapping[str, BeyondReach] = field(default_factory=dict)
    """Metric whose declared reach a sample exceeds -> that sample; its facts are without the reach."""

    @property
    def clusters(self) -> Clusters | None:
        return self.attributes.clusters

    def has(self, measure: Measure) -> bool:
        """Return whether every metric of the measure has scores."""
        return all(name in self.scores for name in measure.metrics)

    def arm(self, measure: Measure, number: int) -> list[ScoredMetric]:
        """Return the measure's metrics with their scores in the arm of that number, in the slice that the measure is about."""
        metrics = [
            ScoredMetric(self.facts[name], reduce_repeats(measure, self._scores(measure, name, number)))
            for name in measure.metrics
        ]
        if measure.by is None or not (measure.slice or row_of(measure).over_slices):
            return metrics
        slicing = self.attributes.slicings[measure.by]
        inside = flag_slice(slicing, measure.slice) if measure.slice else flag_sliced(slicing)
        return [ScoredMetric(facts, keep_slice(scores, inside)) for facts, scores in metrics]

    def attributes_of(self, measure: Measure) -> SampleAttributes:
        """Return the attributes of the measure's samples, with their twins if it is by twin."""
        if not self._is_by_twin(measure):
            return self.attributes
        name = measure.metric
        samples = len(self.scores[name][0].values)
        return stack_attributes(measure, self.attributes, samples, len(self.twins[name]))

    def _is_by_twin(self, measure: Measure) -> bool:
        return is_by_twin(measure.by, self.twins.get(measure.metric, ()))

    def _scores(self, measure: Measure, name: str, number: int) -> Scores:
        scores = self.scores[name][number]
        return (
            stack_scores(scores, [arms[number] for arms in self.twins[name]]) if self._is_by_twin(measure) else scores
        )


def uses_expected(plan: Plan) -> bool:
    """Return whether a metric, a target or a comparison of the plan needs the samples' `expected`."""
    is_conditional = any(facts.applies_to is not None for facts in plan.metrics)
    measures = (*plan.targets, *plan.contrasts)
    return is_conditional or uses_fields(plan) or any(row_of(measure).uses_expected for measure in measures)


def uses_fields(plan: Plan) -> bool:
    """Return whether a target or a comparison of the plan is by a field of the samples."""
    return any(measure.by is not None for measure in (*plan.targets, *plan.contrasts))


def analyse(inputs: AnalysisInputs, table: ScoreTable, *, alpha: float, family_size: int) -> Analysis:
    """Return the estimates, target results and comparisons of one experiment.

    `family_size` is the number of claims that the whole session makes: they share alpha.
    """
    plan = inputs.plan
    # In some sessions all claims share alpha, those that bounds decide included.
    bounds_alpha = alpha / max(family_size, 1) if inputs.claims_alpha is not None else alpha
    return Analysis(
        plan=plan,
        estimates=_estimates(inputs, table, alpha),
        targets=_targets(plan, table, alpha, bounds_alpha),
        comparisons=_comparisons(inputs, table, alpha, bounds_alpha, family_size),
        kinds={name: str(facts.kind) for name, facts in table.facts.items()},
        finished=inputs.finished,
        unanswered=tuple(
            arm.name for arm, answers in zip(plan.arms, inputs.answers, strict=True) if is_unanswered(answers)
        ),
        failed_metrics=_failed_metrics(inputs),
        ended=inputs.ended,
        out_of_reach=inputs.out_of_reach,
        bounds_share_alpha=inputs.claims_alpha is not None,
    )


def _failed_metrics(inputs: AnalysisInputs) -> dict[str, str]:
    """Return the errors of metrics that failed on every sample, and of those that failed on every twin of a variant."""
    of_terms = {
        term.facts.name: failed_metrics(inputs.variants[term.variants[0]][0]).get(term.metric, "")
        for term in inputs.plan.variant_terms
    }
    failed = failed_metrics(inputs.answers[0]) if inputs.answers else {}
    return {**{name: error for name, error in of_terms.items() if error}, **failed}


def is_unanswered(answers: ArmOutcomes) -> bool:
    """Return whether an arm has no result at all, although its time has not run out."""
    # After a deadline, a server without any reply may just be slow or restarting, so resuming helps.
    return not len(answers.positions) and not any(loss.reason == "deadline" for loss in answers.lost)


def metric_facts(inputs: AnalysisInputs) -> dict[str, MetricFacts]:
    """Return the facts of each metric that was declared or observed, resolved from the values of all arms."""
    observed = {name for arm in inputs.answers for name in (*arm.scores, *arm.labels)}
    declared = {facts.name: facts for facts in inputs.plan.metrics if facts.name in observed or not facts.of_ensemble}
    for name in sorted(observed - set(declared)):
        declared[name] = MetricFacts(name=name)
    return {name: resolve(entry, inputs.all_answers, inputs.known_kinds) for name, entry in declared.items()}


def score_table(inputs: AnalysisInputs) -> ScoreTable:
    """Return the scores of each metric and arm, from which targets and comparisons are computed.

    A metric with a sample that changed by more than its declared reach has no reach.
    """
    table = score_as_declared(inputs)
    names = [name for name in table.scores if table.facts[name].reach is not None]
    beyond = find_refuted_reaches(inputs.plan, names, table.arm, inputs.sample_ids)
    facts = {name: replace(entry, reach=None) if name in beyond else entry for name, entry in table.facts.items()}
    return replace(table, facts=facts, beyond_reach=beyond)


def score_as_declared(inputs: AnalysisInputs) -> ScoreTable:
    """Return the scores of each metric and arm, with all facts as they are declared."""
    facts = metric_facts(inputs)
    scored = score_metrics(inputs, facts, numeric_facts(inputs, facts))
    attributes = SampleAttributes(
        clusters_of(inputs.groups),
        inputs.expected,
        slice_all(inputs.plan, inputs.expected, inputs.metadata),
        random_factors=inputs.plan.random_factors,
        keys=hash_ids(inputs.sample_ids) if inputs.sample_ids else None,
        monte_carlo=MonteCarlo(seed=inputs.seed),
    )
    return replace(scored, attributes=attributes)


def numeric_facts(inputs: AnalysisInputs, facts: Mapping[str, MetricFacts]) -> dict[str, MetricFacts]:
    """Return the facts of the metrics that have numbers, among those of all metrics."""
    observed = {name for arm in inputs.answers for name in (*arm.scores, *arm.labels)}
    return {
        name: entry
        for name, entry in facts.items()
        if entry.kind != "text" and (name in observed or entry in inputs.plan.metrics)
    }


def score_metrics(
    inputs: AnalysisInputs, facts: Mapping[str, MetricFacts], numeric: Mapping[str, MetricFacts]
) -> ScoreTable:
    """Return the scores of metrics with numbers, and of the plan's terms, without attributes of the samples."""
    plan, arms = inputs.plan, range(len(inputs.answers))
    table = {name: tuple(arm_scores(entry, inputs, number) for number in arms) for name, entry in numeric.items()}

    def on_variant(entry: MetricFacts, variant: str) -> tuple[Scores, ...]:
        of_variant = replace(inputs, answers=inputs.variants[variant])
        return tuple(arm_scores(entry, of_variant, number) for number in arms)

    terms, of_terms = score_terms(plan, numeric, table, on_variant)
    return ScoreTable(
        facts={**facts, **terms},
        scores=table | of_terms,
        attributes=SampleAttributes(),
        twins=score_twins(plan, numeric, on_variant),
    )


def arm_scores(facts: MetricFacts, inputs: AnalysisInputs, arm: int) -> Scores:
    """Return one metric of one arm."""
    samples, draws = len(inputs.groups), inputs.plan.draws(arm)
    # With one reply a sample, the means are all that there is to show.
    if inputs.plan.random_factors or draws.size > 1:
        return scores_with_units(facts, inputs.answers[arm], samples=samples, draws=draws)
    return scores(facts, inputs.answers[arm], samples=samples, repeats=draws.size)


def main_metric(plan: Plan, scored: Mapping[str, object]) -> str | None:
    """Return the metric that an experiment is mostly about: the first compared, else targeted, else scored one."""
    named = [*(measure.metric for measure in plan.contrasts), *(measure.metric for measure in plan.targets), *scored]
    return next((metric for metric in named if metric in scored), None)


def clusters_of(groups: Sequence[str | None]) -> Clusters | None:
    """Return the codes of the groups; None when there are none, or every sample is its own."""
    if None in groups or len(set(groups)) == len(groups):
        return None
    return np.unique(np.array(groups, dtype=object).astype(str), return_inverse=True)[1].astype(np.int64)


def _estimates(inputs: AnalysisInputs, table: ScoreTable, alpha: float) -> tuple[Estimate, ...]:
    return tuple(
        estimate(
            mean_of(table.facts[name]),
            *_own(inputs.plan, [ScoredMetric(table.facts[name], of_arm)], arm.name, table.attributes),
            level=1 - alpha,
        )
        for name, of_arms in table.scores.items()
        for arm, of_arm, answers in zip(inputs.plan.arms, of_arms, inputs.answers, strict=True)
        if (name in answers.scores or not table.facts[name].of_ensemble) and not table.facts[name].is_part
    )


def _own(
    plan: Plan, metrics: Sequence[ScoredMetric], arm: str, attributes: SampleAttributes
) -> tuple[Sequence[ScoredMetric], str, SampleAttributes]:
    """Return an arm's scores, its name and attributes, of its own samples alone."""
    own_metrics, own_attributes = keep_own_samples(plan, metrics, attributes)
    return own_metrics, arm, own_attributes


def _targets(plan: Plan, table: ScoreTable, alpha: float, bounds_alpha: float) -> tuple[TargetResult, ...]:
    results = (_target(target, plan, table, alpha, bounds_alpha) for target in plan.targets)
    return tuple(result for result in results if result is not None)


def _target(target: Target, plan: Plan, table: ScoreTable, alpha: float, bounds_alpha: float) -> TargetResult | None:
    """Return the target's result; None for a name without scores that is not a number known before sampling either."""
    # A metric takes precedence over a known number of the same name.
    if not table.has(target):
        number = known_numbers().get(target.metric)
        if number is None or target.metric in table.facts:
            return None
        return number.evaluate(target, plan.candidate, alpha=alpha, is_fixed=f"{number.source}s" in plan.fixed)

    def evaluate(level_alpha: float) -> TargetResult:
        own = _own(plan, table.arm(target, 0), plan.candidate.name, table.attributes_of(target))
        return evaluate_target(target, *own, alpha=level_alpha)

    result = evaluate(alpha)
    return result if bounds_alpha == alpha else replace(result, evidence=evaluate(bounds_alpha).evidence)


def _comparisons(
    inputs: AnalysisInputs, table: ScoreTable, alpha: float, bounds_alpha: float, family_size: int
) -> tuple[Comparison, ...]:
    plan = inputs.plan
    if not plan.contrasts:
        return ()
    # Their methods are loaded where something is compared.
    from pytest_crucible.analyse.comparisons import compare

    number = {arm.name: k for k, arm in enumerate(plan.arms)}

    def compare_at(contrast: Contrast, level_alpha: float) -> Comparison:
        arms = table.arm(contrast, 0), table.arm(contrast, number[contrast.baseline])
        attributes, size = table.attributes_of(contrast), max(family_size, 1)
        candidate, plans = plan.candidate.name, inputs.plans_next_run
        compared = compare(contrast, candidate, arms, attributes, alpha=level_alpha, family_size=size, plans=plans)
        beyond = table.beyond_reach.get(contrast.metric) if contrast.statistic == MEAN.name else None
        suggested = None if beyond else suggest_reach(compared, arms, attributes, alpha=level_alpha, family_size=size)
        return replace(compared, beyond_reach=beyond, suggested_reach=suggested)

    results = [compare_at(contrast, alpha) for contrast in plan.contrasts if table.has(contrast)]
    if bounds_alpha == alpha:
        return tuple(results)
    # Without a margin or a relevant difference the p-value decides, and no bounds.
    return tuple(
        result if result.contrast.limit is None else _with_bounds_of(result, compare_at(result.contrast, bounds_alpha))
        for result in results
    )


def _with_bounds_of(comparison: Comparison, other: Comparison) -> Comparison:
    """Return the comparison with the bounds of the same one at another level."""
    return replace(comparison, evidence=other.evidence, suggested_reach=other.suggested_reach)
