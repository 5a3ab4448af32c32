"""Slices: a metric slice by slice, to see where the candidate gains and where it loses; and each arm's gap and quality.

The fields are those that targets and comparisons name, and the samples' groups. Below a mean over slices, `overall(...)`, each
slice has a verdict of its own, adjusted by Holm's procedure over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_crucible.analyse.analysis import ScoreTable, main_metric
from pytest_crucible.analyse.comparisons import compare_pair, paired_samples
from pytest_crucible.analyse.conditional import declaration_problem
from pytest_crucible.analyse.scores import Flags, Scores
from pytest_crucible.analyse.slices import GROUP, flag_field, flag_groups, keep_slice
from pytest_crucible.analyse.statistics import (
    Clusters,
    SampleAttributes,
    ScoredMetric,
    estimate_values,
    mean_of,
    row_of,
)
from pytest_crucible.analyse.targets import estimate
from pytest_crucible.gate.decide import holds
from pytest_crucible.measures.fields import advise_cuts, lacking_text
from pytest_crucible.measures.row import Difference
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Contrast, Estimate, Measure, MetricFacts, Note, Row, Table, Target, View
from pytest_crucible.records.datasets import short_name
from pytest_crucible.records.serialize import pick
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.gaffke import gaffke_p_value
from pytest_crucible.stats.number_format import p_value, with_interval

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One slice: the candidate's mean, and its difference to the first baseline if there is one."""

    name: str
    n: int
    lost: int
    """Samples that the candidate lost."""
    value: float | None
    interval: Interval | None
    pairs: int | None
    difference: float | None
    difference_interval: Interval | None
    p_value: float | None = None
    """Of the test that both arms are alike on the slice."""
    claims: tuple[Claim, ...] = ()
    """That it differs from the baseline, and that it is beyond the target, where a mean over slices makes such claims of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedMetric:
    """The slices of one field by one metric: by groups the largest loss first, by other fields the worst mean first."""

    field: str
    metric: str
    arms: tuple[str, ...]
    slices: tuple[Slice, ...]
    alpha: float = 0.05
    """The error rate of all claims of the section together."""
    lacking: int = 0
    """Samples without the field."""
    target: Target | None = None
    """The target on the mean over these slices."""
    advice: str = ""
    """How to cut a quantity of which each number is a slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The slices of all fields, and the extremes of all arms."""

    fields: tuple[SlicedMetric, ...]
    gaps: tuple[ArmGap, ...] = ()


def compute(inputs: SectionInputs) -> Slices | None:
    """Return each field's slices, and each arm's extremes; None if there is neither a field nor a group."""
    fields = [*_sliced_metrics(inputs), *_groups(inputs)]
    gaps = tuple(_find_gaps(inputs))
    return Slices(fields=tuple(fields), gaps=gaps) if fields or gaps else None


def claims(slices: Slices) -> Sequence[Claim]:
    """Return the claims of all slices, which are one Holm family."""
    return tuple(claim for sliced in slices.fields for entry in sliced.slices for claim in entry.claims)


def view(slices: Slices, claims: Sequence[Claim]) -> View:
    """Return a table of the slices of each field, and one of the arms' extremes with their quality."""
    slices = replace(slices, fields=tuple(_adjust(slices.fields, iter(claims))))
    return View(
        title="Slices",
        tables=(*_gap_tables(slices.gaps), *map(_table, slices.fields)),
        notes=tuple(
            Note(text=text, verbosity=1) for text in dict.fromkeys(each.advice for each in slices.fields) if text
        ),
        document=[
            *(_document(sliced, entry) for sliced in slices.fields for entry in sliced.slices),
            *map(_gap_document, slices.gaps),
        ],
    )


def slice_metric(inputs: SectionInputs, metric: str, field: str, labels: Mapping[str, Flags]) -> SlicedMetric:
    """Return one metric by the slices of a field, worst mean first. Samples in clusters are not independent."""
    facts, scores = inputs.facts[metric], inputs.scores[metric]
    entries = [_slice(facts, scores, name, inside, inputs.clusters, inputs.alpha) for name, inside in labels.items()]
    sign = 1.0 if facts.direction == "higher" else -1.0
    inside = np.any(list(labels.values()), axis=0) if labels else np.zeros(inputs.samples, dtype=bool)
    return SlicedMetric(
        field=field,
        metric=metric,
        arms=tuple(arm.name for arm in inputs.plan.arms[:2]),
        # The first element keeps None from being compared with a number.
        slices=tuple(sorted(entries, key=lambda entry: (entry.value is None, sign * (entry.value or 0.0), entry.name))),
        alpha=inputs.alpha,
        lacking=int((~inside).sum()),
    )


def _sliced_metrics(inputs: SectionInputs) -> Iterator[SlicedMetric]:
    # `by sex within age` has the slices of `by sex`.
    named = {
        (measure.by.title, metric): measure.by
        for measure in (*inputs.plan.targets, *inputs.plan.contrasts)
        if measure.by is not None
        for metric in measure.metrics
    }
    for (title, metric), by in named.items():
        labels = flag_field(inputs.slicings.get(by), inputs.samples)
        if labels is None or metric not in inputs.scores:
            continue
        own = inputs
        if inputs.clusters is not None and all(
            len(np.unique(inputs.clusters[flags])) == 1 for flags in labels.values()
        ):
            # Within a group there is nothing to cluster by.
            own = replace(inputs, clusters=None)
        sliced = slice_metric(own, metric, title, labels)
        yield replace(_with_claims(own, sliced, labels), advice=advise_cuts(by, inputs.slicings[by]))


def _with_claims(inputs: SectionInputs, sliced: SlicedMetric, labels: Mapping[str, Flags]) -> SlicedMetric:
    """Return the slices with claims, if a target or a comparison is about the mean over them."""
    plan, key = inputs.plan, (sliced.field, sliced.metric)
    targets, contrasts = (
        [each for each in measures if each.counts and each.by is not None and (each.by.title, each.metric) == key]
        for measures in (plan.targets, plan.contrasts)
    )
    if not targets and not contrasts:
        return sliced
    target = next((each for each in targets if isinstance(each, Target)), None)

    def claims_of(entry: Slice) -> Iterator[Claim]:
        subject = f"{sliced.metric} by {sliced.field} = {short_name(entry.name)}"
        if contrasts:
            yield Claim(subject=f"{subject}: {' vs '.join(sliced.arms)}", p_value=entry.p_value)
        if target is not None:
            p_value = _beyond_target(inputs, target, labels[entry.name])
            yield Claim(subject=f"{subject} {target.relation} {target.value:g}", p_value=p_value)

    slices = tuple(replace(entry, claims=tuple(claims_of(entry))) for entry in sliced.slices)
    return replace(sliced, slices=slices, target=target)


def _beyond_target(inputs: SectionInputs, target: Target, inside: Flags) -> float | None:
    """Return the two-sided p-value of a slice's mean being the target's, whatever the lost samples are; None without bounds."""
    facts, scores = inputs.facts[target.metric], inputs.scores[target.metric][0]
    if not math.isfinite(facts.low) or not math.isfinite(facts.high):
        return None
    chosen = inside & ~scores.inapplicable
    tail = partial(
        gaffke_p_value, null=target.value, clusters=None if inputs.clusters is None else inputs.clusters[chosen]
    )
    try:
        above = tail(scores.low[chosen], end=facts.low, side="lower")
        below = tail(scores.high[chosen], end=facts.high, side="upper")
    except NotEnoughData:
        return None
    return min(1.0, 2 * min(above, below))


def _adjust(fields: Sequence[SlicedMetric], claims: Iterator[Claim]) -> Iterator[SlicedMetric]:
    """Yield the fields with the claims that the gate has adjusted, in the same order."""
    for sliced in fields:
        slices = (replace(entry, claims=tuple(next(claims) for _ in entry.claims)) for entry in sliced.slices)
        yield replace(sliced, slices=tuple(slices))


def _groups(inputs: SectionInputs) -> Iterator[SlicedMetric]:
    """Yield the main metric by group; nothing if groups are not shown.

    Samples of a group count as independent here: within a group there is nothing to cluster by.
    """
    metric = main_metric(inputs.plan, inputs.scores)
    flags = flag_groups(inputs.groups)
    if metric is None or flags is None:
        return
    sliced = slice_metric(replace(inputs, clusters=None), metric, GROUP, flags)
    by_loss = sorted(sliced.slices, key=lambda entry: (entry.difference is None, entry.difference, entry.name))
    yield replace(sliced, slices=tuple(by_loss), lacking=0)


def _table(sliced: SlicedMetric) -> Table:
    heads: tuple[str, ...] = (sliced.field, f"{sliced.metric} of {sliced.arms[0]}", "n", "lost")
    if len(sliced.arms) > 1:
        heads = (*heads, f"{sliced.arms[0]} vs {sliced.arms[1]}", "pairs")
    lacking = lacking_text(sliced.lacking)
    more = _claim_heads(sliced)
    tested = ' p and "proven" are adjusted for it (Holm).' if more else ""
    return Table(
        title=f"By {sliced.field}",
        heads=(*heads, *more),
        rows=tuple(Row(cells=(*_cells(entry)[: len(heads)], *_claim_cells(sliced, entry))) for entry in sliced.slices),
        numbers=("n", "lost", "pairs", "p"),
        note=f"Intervals are not adjusted for looking at many slices.{tested}{f' {lacking}.' if lacking else ''}",
        verbosity=3 if sliced.field == GROUP else 1,
    )


def _claim_heads(sliced: SlicedMetric) -> tuple[str, ...]:
    """Return the heads of the columns for the claims of each slice."""
    count = max((len(entry.claims) for entry in sliced.slices), default=0)
    target = () if sliced.target is None else (f"{sliced.target.relation} {sliced.target.value:g}",)
    return (*(("p",) if count > len(target) else ()), *target)


def _claim_cells(sliced: SlicedMetric, entry: Slice) -> Iterator[str]:
    for number, claim in enumerate(entry.claims):
        is_target = sliced.target is not None and number == len(entry.claims) - 1
        yield _target_cell(sliced, entry, claim) if is_target else p_value(claim.p_adjusted)


def _target_cell(sliced: SlicedMetric, entry: Slice, claim: Claim) -> str:
    """Return a slice's verdict on the target of all, such as `met, unproven`."""
    assert sliced.target is not None
    if entry.value is None:
        return "-"
    state = "met" if holds(sliced.target.relation, entry.value, sliced.target.value) else "missed"
    proven = claim.p_adjusted is not None and claim.p_adjusted <= sliced.alpha
    return f"{state}, {'proven' if proven else 'unproven'}"


def _slice(
    facts: MetricFacts, scores: tuple[Scores, ...], name: str, inside: Flags, clusters: Clusters | None, alpha: float
) -> Slice:
    chosen = inside & scores[0].seen
    values = scores[0].values[chosen]
    of_values = None if clusters is None else clusters[chosen]
    mean = None
    if len(values) and np.isfinite(values).all():
        mean = estimate_values(mean_of(facts), [facts], [values], of_values, level=1 - alpha)
    difference = _compare(facts, scores, inside, clusters, alpha)
    return Slice(
        name=name,
        n=len(values),
        lost=int((inside & scores[0].lost).sum()),
        value=mean.value if mean else None,
        interval=mean.interval if mean else None,
        pairs=difference.n if difference else None,
        difference=difference.value if difference else None,
        difference_interval=difference.interval if difference else None,
        p_value=difference.p_value if difference else None,
    )


def _compare(
    facts: MetricFacts, scores: tuple[Scores, ...], inside: Flags, clusters: Clusters | None, alpha: float
) -> Difference | None:
    """Return the difference to the first baseline; None where fewer than two samples are compared, or a value is infinite."""
    if len(scores) < 2:
        return None
    # With a margin it is a difference of means, also for a metric whose arms are compared by ratios.
    contrast = Contrast(metric=facts.name, baseline="", margin=0.0)
    arms = [ScoredMetric(facts, keep_slice(scores[0], inside))], [ScoredMetric(facts, keep_slice(scores[1], inside))]
    pairs, _ = paired_samples(contrast, *arms)
    if pairs.sum() < 2 or declaration_problem(*arms):
        return None
    return compare_pair(contrast, arms, SampleAttributes(clusters), pairs, ("observed", "observed"), alpha)


def _cells(entry: Slice) -> tuple[str, ...]:
    """Return all cells of a slice; one that too few answered has no difference."""
    mean = (short_name(entry.name), with_interval(entry.value, entry.interval), f"{entry.n:,}", f"{entry.lost:,}")
    difference = with_interval(entry.difference, entry.difference_interval, sign=True)
    return (*mean, difference, "-" if entry.pairs is None else f"{entry.pairs:,}")


def _document(sliced: SlicedMetric, entry: Slice) -> dict[str, object]:
    difference = interval_ends(entry.difference_interval)
    return {
        **pick(sliced, "field metric"),
        "slice": entry.name,
        **pick(entry, "n lost value"),
        **interval_ends(entry.interval),
        **pick(entry, "pairs difference"),
        **{f"difference_{name}": end for name, end in difference.items()},
        **({"claims": [pick(claim, "subject p_value p_adjusted") for claim in entry.claims]} if entry.claims else {}),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmGap:
    """An arm, or a member of an ensemble: its quality, and an extreme of its slices."""

    arm: str
    metric: str
    quality: Estimate
    extreme: Estimate
    expression: str


def _find_gaps(inputs: SectionInputs) -> Iterator[ArmGap]:
    metric = "correct" if "correct" in inputs.scores else main_metric(inputs.plan, inputs.scores)
    attributes = SampleAttributes(inputs.clusters, slicings=inputs.slicings)
    table = ScoreTable(inputs.facts, inputs.scores, attributes, inputs.twins)
    measures = {
        measure.expression: measure
        for measure in (*inputs.plan.targets, *inputs.plan.contrasts)
        if row_of(measure).of_slices and table.has(measure)
    }
    if metric is None:
        return
    for measure in measures.values():
        for number, arm in enumerate(inputs.plan.arms):
            yield _arm_gap(table, arm.name, number, Measure(metric=metric), measure, level=1 - inputs.alpha)
            for member in arm.members:
                quality, own = (_of_member(each, member) for each in (Measure(metric=metric), measure))
                if table.has(quality) and table.has(own):
                    yield _arm_gap(table, f"{arm.name}[{member}]", number, quality, own, level=1 - inputs.alpha)


def _of_member(measure: Measure, member: str) -> Measure:
    first, *others = (f"{name}[{member}]" for name in measure.metrics)
    return replace(measure, metric=first, further=tuple(others))


def _arm_gap(table: ScoreTable, label: str, number: int, quality: Measure, extreme: Measure, *, level: float) -> ArmGap:
    of_slices, of_all = (
        estimate(measure, table.arm(measure, number), label, table.attributes_of(measure), level=level)
        for measure in (extreme, quality)
    )
    metric = quality.metric.partition("[")[0]
    return ArmGap(arm=label, metric=metric, quality=of_all, extreme=of_slices, expression=extreme.expression)


def _gap_tables(gaps: Sequence[ArmGap]) -> Iterator[Table]:
    if not gaps:
        return
    cells = (
        (
            gap.arm,
            with_interval(gap.quality.value, gap.quality.interval),
            gap.expression,
            with_interval(gap.extreme.value, gap.extreme.interval),
            f"{gap.extreme.n:,}",
        )
        for gap in gaps
    )
    yield Table(
        title="Quality and extremes of slices",
        heads=("arm", gaps[0].metric, "of slices", "value", "n"),
        rows=tuple(Row(cells=row) for row in cells),
        numbers=("n",),
        note="An end of an interval beyond 0 (of a ratio, beyond 1) means that no two slices are proven to differ.",
        verbosity=1,
    )


def _gap_document(gap: ArmGap) -> dict[str, object]:
    facts = {"quality": gap.quality.value, "expression": gap.expression}
    return {**pick(gap, "arm metric"), **facts, **pick(gap.extreme, "n value"), **interval_ends(gap.extreme.interval)}
