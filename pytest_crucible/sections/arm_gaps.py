"""Each arm's quality with an extreme of its slices, for the section on slices; also for members of an ensemble."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_crucible.analyse.analysis import ScoreTable, main_metric
from pytest_crucible.analyse.statistics import SampleAttributes, row_of
from pytest_crucible.analyse.targets import estimate
from pytest_crucible.records import Estimate, Measure, Row, Table
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.number_format import with_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmGap:
    """An arm, or a member of an ensemble: its quality, and an extreme of its slices."""

    arm: str
    metric: str
    quality: Estimate
    extreme: Estimate
    expression: str


def find_gaps(inputs: SectionInputs) -> Iterator[ArmGap]:
    """Yield the extremes of all arms, and of the members of an ensemble, with the quality of each."""
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
    estimates = [
        estimate(measure, table.arm(measure, number), label, table.attributes_of(measure), level=level)
        for measure in (quality, extreme)
    ]
    return ArmGap(
        arm=label,
        metric=quality.metric.partition("[")[0],
        quality=estimates[0],
        extreme=estimates[1],
        expression=extreme.expression,
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
