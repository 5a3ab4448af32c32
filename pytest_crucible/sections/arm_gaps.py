"""Each arm's quality beside an extreme of its slices, for the section of slices; members of an ensemble too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_crucible.analyse.analysis import main_metric
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric, mean_of, row_of
from pytest_crucible.analyse.targets import estimate
from pytest_crucible.records import Estimate, Measure, Row, Table
from pytest_crucible.records.number_format import with_interval
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmGap:
    """An arm, or a member of an ensemble: its quality, and an extreme of its slices."""

    arm: str
    metric: str
    quality: Estimate
    extreme: Estimate
    expression: str


def find_gaps(inputs: SectionInputs) -> Iterator[ArmGap]:
    """Yield the extremes of all arms, and of the members of an ensemble, beside the quality of each."""
    metric = "correct" if "correct" in inputs.scores else main_metric(inputs.plan, inputs.scores)
    measures = {
        measure.expression: measure
        for measure in (*inputs.plan.targets, *inputs.plan.contrasts)
        if row_of(measure).of_slices
        and all(name in inputs.scores for name in measure.metrics)
        and measure.by is not None
        and len(inputs.slicings[measure.by].codes) == inputs.samples
    }
    if metric is None:
        return
    attributes = SampleAttributes(inputs.clusters, slicings=inputs.slicings)
    for expression, measure in measures.items():
        for number, arm in enumerate(inputs.plan.arms):
            for label, suffix in ((arm.name, ""), *((f"{arm.name}[{name}]", f"[{name}]") for name in arm.members)):
                names = [f"{name}{suffix}" for name in (metric, *measure.metrics)]
                if all(name in inputs.scores for name in names):
                    quality, *scored = [ScoredMetric(inputs.facts[name], inputs.scores[name][number]) for name in names]
                    yield _arm_gap(inputs, label, expression, measure, quality, scored, attributes)


def _arm_gap(
    inputs: SectionInputs,
    label: str,
    expression: str,
    measure: Measure,
    quality: ScoredMetric,
    scored: Sequence[ScoredMetric],
    attributes: SampleAttributes,
) -> ArmGap:
    level = 1 - inputs.alpha
    return ArmGap(
        arm=label,
        metric=quality.facts.name.partition("[")[0],
        quality=estimate(mean_of(quality.facts), [quality], label, attributes, level=level),
        extreme=estimate(measure, scored, label, attributes, level=level),
        expression=expression,
    )


def gap_tables(gaps: Sequence[ArmGap]) -> Iterator[Table]:
    """Yield a table of all arms; none without extremes."""
    if not gaps:
        return
    rows = tuple(
        Row(
            cells=(
                gap.arm,
                with_interval(gap.quality.value, gap.quality.interval),
                gap.expression,
                with_interval(gap.extreme.value, gap.extreme.interval),
                f"{gap.extreme.n:,}",
            )
        )
        for gap in gaps
    )
    yield Table(
        title="Quality and extremes of slices",
        heads=("arm", gaps[0].metric, "of slices", "value", "n"),
        rows=rows,
        numbers=("n",),
        note="An end of an interval beyond 0 (of a ratio, beyond 1) means that no two slices are proven to differ.",
        verbosity=1,
    )


def gap_document(gap: ArmGap) -> dict[str, object]:
    """Return an arm's extreme for a JSON document."""
    return {
        "arm": gap.arm,
        "metric": gap.metric,
        "quality": gap.quality.value,
        "expression": gap.expression,
        "n": gap.extreme.n,
        "value": gap.extreme.value,
        **interval_ends(gap.extreme.interval),
    }
