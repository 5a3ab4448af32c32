"""Quality targets and comparisons: the text is parsed by `plan.grammar` and checked against the table of statistics.

accuracy >= 0.80                    the mean
rate(entailment >= 0.75) >= 0.45    the proportion of samples for which the condition holds
count(high_flags) == 0              the sum over samples
overall(accuracy by task, macro) >= 0.8    the mean of the slices' means; micro: of all samples, with slices as groups
rate(mean_by_sample(ok) >= 0.8) >= 0.95    the share of samples of whose replies so many pass
pass^3(ok) >= 0.80                  the chance that 3 draws of a sample all pass; pass@3: that some draw does
p95(latency_s) <= 2                 a percentile
auroc(score) >= 0.70                a statistic of a score and of the samples' `expected`
ece(confidence, accuracy) <= 0.05   a statistic of two metrics
accuracy[v1] >= 0.70                a metric of one member of an ensemble, or on one variant of the samples
gap(accuracy by sex) <= 0.05        the largest difference between two slices
ratio(selected by race) >= 0.80     the smallest rate of a slice over the largest
worst(accuracy by topic) >= 0.60    the worst mean of a slice
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

from pytest_crucible.measures.statistic import Statistic
from pytest_crucible.measures.table import MEAN, STATISTICS
from pytest_crucible.plan.grammar import BY_SAMPLE, CONDITION, Requirement, Value, parse_requirement, parse_value
from pytest_crucible.plan.variants import term_metric
from pytest_crucible.records import Contrast, DecisionRule, Measure, MetricFacts, Target
from pytest_crucible.records.errors import SpecError, describe_type, suggest
from pytest_crucible.records.measures import check_amount
from pytest_crucible.stats.number_format import quantity

Claim = TypeVar("Claim", Target, Contrast)


def parse_target(text: str, *, decide: DecisionRule | None = None) -> Target:
    """Parse one target. Without `decide` the estimate decides, except for extremes of slices, which are decided by proof.

    Raises SpecError, with the text, the place and an example, for anything outside the grammar.

    >>> parse_target("rate(entailment >= 0.75) >= 0.45").inner_value
    0.75
    """
    what = f"target {text!r}"
    requirement: Requirement = parse_requirement(text, what)
    fields = _measure_fields(requirement.value, what)
    _check_slices(fields, requirement.relation, what)
    return Target(
        text=" ".join(text.split()),
        relation=requirement.relation,
        value=requirement.number,
        decide=check_decision(text, decide, by_proof=STATISTICS[fields["statistic"]].of_slices),
        **fields,
    )


def parse_measure(text: str, what: str) -> Measure:
    """Parse the measure of a comparison, such as `accuracy` or `auroc(score)`.

    `what` names it in messages. Raises SpecError as `parse_target` does, and for a condition that no arm can be better at.

    >>> parse_measure("rate(entailment >= 0.75)", "this").label
    'rate >= 0.75'
    """
    value = parse_value(text, what)
    measure = Measure(**_measure_fields(value, what), by_mean=value.function == MEAN.name)
    if measure.inner_relation == "==":
        raise SpecError(
            f"{what} does not show which arm is better: write the condition with >= or <=, "
            f"as in 'rate({measure.metric} >= {measure.inner_value:g})'"
        )
    return measure


def check_decision(text: str, decide: str | None, *, by_proof: bool = False) -> DecisionRule:
    """Return `decide`, or its default. Raises SpecError for anything but 'point' and 'bound'.

    The estimate of an extreme of several slices is biased, so that it decides nothing (`by_proof`).
    """
    if decide not in (None, "point", "bound"):
        raise SpecError(
            f"target {text!r} has decide={decide!r}: write 'point' (the estimate decides) or 'bound' (proof decides)"
        )
    if by_proof and decide == "point":
        raise SpecError(
            f"target {text!r} has decide='point', and the estimate of an extreme is biased: ten equal slices of 50 samples "
            "differ by .17 on average; leave decide out, and proof decides"
        )
    return cast(DecisionRule, decide or ("bound" if by_proof else "point"))


def _check_slices(fields: dict[str, Any], relation: str, what: str) -> None:
    """Raise SpecError for a target on single slices, and for an equality of an extreme."""
    of_slices = STATISTICS[fields["statistic"]].of_slices
    if fields["by"] is not None and not STATISTICS[fields["statistic"]].by_field:
        name, by = fields["metric"], fields["by"]
        raise SpecError(
            f"{what} has {str(by)!r} outside of a statistic of slices: write worst({name} {by}), gap({name} {by}), "
            f"ratio({name} {by}) or overall({name} {by}, macro)"
        )
    if of_slices and relation == "==":
        raise SpecError(f"{what} requires an equality, which no sample can prove: write <= or >=")


def _measure_fields(value: Value, what: str) -> dict[str, Any]:
    """Return the fields of a Measure. Raises SpecError for terms or a condition that the statistic does not take."""
    row, number = _statistic(value, what)
    condition = value.condition
    if row.condition == ("never" if condition else "always"):
        raise SpecError(f"{what} cannot be read: {CONDITION}")
    if value.by_sample and not row.of_replies:
        raise SpecError(f"{what} cannot be read: {BY_SAMPLE}(...) {_BY_SAMPLE_EXAMPLE}")
    if row.by_field and value.by is None:
        raise SpecError(f"{what} does not name the slices: add a field of the samples, as in {row.example!r}")
    missing = len(row.takes) - len(value.terms)
    if missing and not (row.takes_more or (row.may_omit_last and missing == 1)):
        raise SpecError(
            f"{what} gives {row.spelling}(...) {_metric_count(len(value.terms))}, and it takes {_metric_count(len(row.takes))}: "
            f"write {row.example!r}"
        )
    _check_counts(row, value, what)
    first, *others = map(str, value.terms)
    names = [f"{first}.{part}" for part in row.parts] or [first, *others]
    return {
        "statistic": row.name,
        "metric": names[0],
        "further": tuple(names[1:]),
        "written": first if row.parts else "",
        "quantile": None if row.percent_prefix is None else _quantile(number, what),
        "draws": None if row.chances is None else _draws(row, number, what),
        "by_sample": value.by_sample,
        "inner_relation": None if condition is None else condition.relation,
        "inner_value": None if condition is None else condition.number,
        "by": value.by,
        "counts": value.counts,
    }


def _check_counts(row: Statistic, value: Value, what: str) -> None:
    """Raise SpecError unless a mean over slices, and nothing else, says what counts alike."""
    if value.counts and not row.over_slices:
        raise SpecError(f"{what} has {value.counts!r} after its field, which only overall(...) takes: leave it out")
    if not row.over_slices:
        return
    name = f"overall({value.terms[0]} {value.by}"
    if value.counts not in ("macro", "micro"):
        raise SpecError(
            f"{what} does not say what counts alike: write {name}, macro), where each "
            f"{value.by.title if value.by else 'slice'} does, or {name}, micro), where each sample does"
        )
    if value.by is not None and value.by.within is not None:
        raise SpecError(f"{what} has within, which standardises gap, ratio and worst only: leave it out")


_BY_SAMPLE_EXAMPLE = "belongs in rate(...), as in 'rate(mean_by_sample(accuracy) >= 0.8) >= 0.95'"


def _statistic(value: Value, what: str) -> tuple[Statistic, str]:
    """Return the statistic's row, and the number at the end of its name as it was written: 95 of `p95`, 3 of `pass^3`."""
    function = value.function or MEAN.name
    for row in STATISTICS.values():
        if row.percent_prefix is None and row.name == function:
            return row, ""
        if row.chances is not None and function.startswith(row.name):
            return row, function.removeprefix(row.name)
        percent = function.removeprefix(row.percent_prefix or function)
        if percent and percent.replace(".", "", 1).isdecimal() and percent[0] != ".":
            return row, percent
    if function == BY_SAMPLE:
        raise SpecError(f"{what} cannot be read: {BY_SAMPLE}(...) {_BY_SAMPLE_EXAMPLE}")
    names = [row.spelling for row in STATISTICS.values()]
    hint = suggest(function, names, always=f"the statistics are {', '.join(names)}")
    raise SpecError(f"{what} cannot be read: {function!r} is not a statistic: {hint}")


def _quantile(percent: str, what: str) -> float:
    quantile = float(percent) / 100
    if not 0 < quantile < 1:
        raise SpecError(
            f"{what} asks for p{percent}: write a percentage between 0 and 100, as in 'p95(latency_s) <= 2'"
        )
    return quantile


def _draws(row: Statistic, number: str, what: str) -> int:
    if not number.isdecimal() or int(number) < 1:
        raise SpecError(
            f"{what} asks for {row.name}{number}: write a whole number of draws from 1 on, as in {row.example!r}"
        )
    return int(number)


def _metric_count(metrics: int) -> str:
    return "1 metric" if metrics == 1 else f"{metrics} metrics"


ALTERNATIVES = ("regression", "non-inferior", "superior", "equivalent")


def parse_contrast(
    metric: Any,
    margin: float | str | None = None,
    alternative: str | None = None,
    relevant: float | str | None = None,
) -> Contrast:
    """Return the comparison of `ab_compare(metric, margin=..., alternative=..., relevant=...)`, without its baseline.

    Raises SpecError.

    >>> parse_contrast("latency_s", margin="10 %").limit_text
    '10 %'
    """
    what = f"ab_compare({metric!r})"
    if not isinstance(metric, str):
        raise SpecError(f"{what} compares {describe_type(metric)}: name the metric by a string")
    measure = parse_measure(metric, what)
    number, margin_is_share = _read_amount(margin, "margin", measure, what)
    smallest, relevant_is_share = _read_amount(relevant, "relevant", measure, what)
    chosen = alternative or ("regression" if margin is None else "non-inferior")
    _check_claim(what, margin, alternative, chosen)
    if smallest is not None and chosen != "regression":
        raise SpecError(f"{what} has relevant={relevant!r} beside {_claim_text(margin, alternative)}: {_ONE_OF_THEM}")
    return Contrast(
        **{item.name: getattr(measure, item.name) for item in fields(measure)},
        baseline="",
        alternative=chosen,  # type: ignore[arg-type]  # one of ALTERNATIVES
        margin=number,
        is_relative=margin_is_share or relevant_is_share,
        relevant=smallest,
    )


def contrast_of_unnamed(facts: MetricFacts, values: Iterable[object]) -> Contrast:
    """Return the comparison of a metric that the user did not name, without its baseline.

    Of an amount with a 0 it claims nothing: its ratio of geometric means does not exist, which is an error only where it was named.
    """
    is_zero = facts.kind == "positive" and any(value == 0 for value in values)
    return Contrast(metric=facts.name, baseline="", alternative="estimate" if is_zero else "regression")


_ONE_OF_THEM = (
    "relevant= is for a comparison that guards against regressions; leave it out, and write margin= for what matters to "
    "any other claim"
)


def _read_amount(amount: Any, name: str, measure: Measure, what: str) -> tuple[float | None, bool]:
    number, is_share = check_amount(amount, f"{what} has {name}")
    problem = STATISTICS[measure.statistic].no_margin(measure)
    if number is not None and problem:
        raise SpecError(f"{what} has {name}={amount!r}, and {problem}")
    if is_share and measure.statistic != MEAN.name:
        raise SpecError(
            f"{what} has {name}={amount!r}, and only a metric alone is compared by a ratio: "
            f"write ab_compare({measure.metric!r}), or a {_WORDS[name]} in units"
        )
    return number, is_share


_WORDS = {"margin": "margin", "relevant": "relevant difference"}


def _check_claim(what: str, margin: Any, alternative: str | None, chosen: str) -> None:
    if chosen not in ALTERNATIVES:
        raise SpecError(f"{what} has alternative={alternative!r}: write one of {', '.join(ALTERNATIVES)}")
    if margin is None and chosen in ("non-inferior", "equivalent"):
        raise SpecError(f"{what} has alternative={chosen!r} without a margin: add one, for example margin=0.05")
    if margin is not None and chosen == "regression":
        raise SpecError(f"{what} has a margin and alternative='regression': leave one of them out")


def _claim_text(margin: Any, alternative: str | None) -> str:
    return f"alternative={alternative!r}" if margin is None else f"margin={margin!r}"


def with_last_metrics(measures: Iterable[Claim], metrics: Sequence[MetricFacts]) -> tuple[Claim, ...]:
    """Return targets or comparisons with the metric that `ece(confidence)` leaves out. Raises SpecError if it is not clear."""
    return tuple(
        replace(measure, further=(_only_binary(measure, metrics),)) if _omits_last(measure) else measure
        for measure in measures
    )


def _omits_last(measure: Measure) -> bool:
    row = STATISTICS[measure.statistic]
    return row.may_omit_last and len(measure.metrics) < len(row.takes)


def _only_binary(measure: Measure, metrics: Sequence[MetricFacts]) -> str:
    others = [facts for facts in metrics if facts.name not in measure.metrics and facts.direction == "higher"]
    # The kind of a suite's own metric may be known from its values only.
    names = [facts.name for facts in others if facts.kind in ("binary", None)]
    if len(names) == 1:
        return names[0]
    takes = STATISTICS[measure.statistic].takes
    example = f"{measure.statistic}({measure.metric}, {(*names, 'passed')[0]})"
    raise SpecError(
        f"{measure.expression} does not name its {takes[-1]}, and the experiment has "
        f"{quantity(len(names), 'yes-or-no metric')}: write for example {example}"
    )


def with_declarations(contrasts: Iterable[Contrast], metrics: Iterable[MetricFacts]) -> tuple[Contrast, ...]:
    """Return comparisons with the relevant differences that their metrics declare, and `mean(...)` only where it differs.

    A relevant difference is left out if the comparison has its own, makes another claim than "no regression", or is about
    another value. `mean(accuracy)` is `accuracy`; of an amount, whose name alone means the ratio of geometric means, it stays.
    """
    declared = {facts.name: facts for facts in metrics}
    named = with_last_metrics(contrasts, tuple(declared.values()))
    resolved = (_without_needless_mean(contrast, declared.get(term_metric(contrast.metric))) for contrast in named)
    return tuple(dict.fromkeys(_with_relevance(contrast, declared.get(contrast.metric)) for contrast in resolved))


def _with_relevance(contrast: Contrast, facts: MetricFacts | None) -> Contrast:
    is_own = contrast.relevant is not None or contrast.statistic != MEAN.name
    if facts is None or facts.relevant is None or is_own or contrast.alternative != "regression":
        return contrast
    return replace(contrast, relevant=facts.relevant, is_relative=facts.relevant_is_share)


def _without_needless_mean(contrast: Contrast, facts: MetricFacts | None) -> Contrast:
    return contrast if facts is not None and facts.kind == "positive" else replace(contrast, by_mean=False)


def is_sequence(first: Contrast, second: Contrast) -> bool:
    """Return whether one metric may have both comparisons: not worse by the margin, then better.

    A better candidate is also not worse, so the first costs the second no power (closed testing: Marcus, Peritz & Gabriel
    1976, Biometrika 63:655).
    """
    return {first.alternative, second.alternative} == {"non-inferior", "superior"}
