"""Slices: the main metric group by group, to see where the candidate gains and where it loses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.analysis import main_metric
from pytest_crucible.analyse.scores import Flags, Scores
from pytest_crucible.analyse.statistics import estimate_values, mean_of, numeric
from pytest_crucible.records import Claim, Interval, MetricFacts, Row, Table, View
from pytest_crucible.records.number_format import with_interval
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs

# A longer table is not readable, and each group costs a comparison.
MOST_GROUPS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One group: the candidate's mean, and its difference to the first baseline if there is one."""

    group: str
    n: int
    lost: int
    """Samples that the candidate lost."""
    value: float | None
    interval: Interval | None
    pairs: int | None
    difference: float | None
    difference_interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The slices of one metric, ordered by the candidate's loss, largest first."""

    metric: str
    arms: tuple[str, ...]
    groups: tuple[Slice, ...]


def compute(inputs: SectionInputs) -> Slices | None:
    """Return each group's mean and difference.

    None without groups, with one a sample, or with more than MOST_GROUPS. Samples of a group count as independent here:
    within a group there is nothing to cluster by.
    """
    metric = main_metric(inputs.plan, inputs.scores)
    labels = np.array([group or "" for group in inputs.groups], dtype=object)
    names = sorted(set(labels) - {""})
    # With fewer than two samples a group on average, the table would list samples rather than groups.
    if metric is None or not 2 <= len(names) <= min(MOST_GROUPS, inputs.samples // 2):
        return None
    facts, scores = inputs.facts[metric], inputs.scores[metric]
    groups = [_slice(facts, scores, name, labels == name, inputs.alpha) for name in names]
    return Slices(
        metric=metric,
        arms=tuple(arm.name for arm in inputs.plan.arms[:2]),
        # The first element keeps None from being compared with a number.
        groups=tuple(sorted(groups, key=lambda entry: (entry.difference is None, entry.difference, entry.group))),
    )


def claims(slices: Slices) -> Sequence[Claim]:
    """Return no claims."""
    return ()


def view(slices: Slices, claims: Sequence[Claim]) -> View:
    """Return a table of the groups."""
    heads: tuple[str, ...] = ("group", f"{slices.metric} of {slices.arms[0]}", "n", "lost")
    if len(slices.arms) > 1:
        heads = (*heads, f"{slices.arms[0]} vs {slices.arms[1]}", "pairs")
    table = Table(
        title="By group",
        heads=heads,
        rows=tuple(Row(cells=_cells(entry)[: len(heads)]) for entry in slices.groups),
        numbers=("n", "lost", "pairs"),
        note="Intervals are not adjusted for looking at many groups.",
        verbosity=3,
    )
    return View(title="Groups", tables=(table,), document=[_document(slices.metric, entry) for entry in slices.groups])


def _slice(facts: MetricFacts, scores: tuple[Scores, ...], group: str, inside: Flags, alpha: float) -> Slice:
    values = scores[0].values[inside & scores[0].seen]
    mean = estimate_values(mean_of(facts), [facts], [values], level=1 - alpha)
    comparison = next(_comparison(facts, scores, inside, alpha), None)
    return Slice(
        group=group,
        n=len(values),
        lost=int((inside & scores[0].lost).sum()),
        value=mean.value,
        interval=mean.interval,
        pairs=comparison.n if comparison else None,
        difference=comparison.estimate if comparison else None,
        difference_interval=comparison.interval if comparison else None,
    )


def _comparison(
    facts: MetricFacts, scores: tuple[Scores, ...], inside: Flags, alpha: float
) -> Iterator[stats.ComparisonResult]:
    """Yield the comparison with the first baseline, where both arms answered at least two samples."""
    if len(scores) < 2:
        return
    both = inside & scores[0].seen & scores[1].seen
    candidate, baseline = scores[0].values[both], scores[1].values[both]
    if both.sum() >= 2 and np.isfinite(candidate).all() and np.isfinite(baseline).all():
        # Exchanged where lower is better, so that a positive difference is a gain here as everywhere.
        pair = (candidate, baseline) if facts.direction == "higher" else (baseline, candidate)
        yield stats.compare(*pair, kind=numeric(facts.kind), bounds=(facts.low, facts.high), alpha=alpha)


def _cells(entry: Slice) -> tuple[str, ...]:
    """Return all cells of a group; one that too few answered has no difference."""
    mean = (entry.group, with_interval(entry.value, entry.interval), f"{entry.n:,}", f"{entry.lost:,}")
    difference = with_interval(entry.difference, entry.difference_interval, sign=True)
    return (*mean, difference, "-" if entry.pairs is None else f"{entry.pairs:,}")


def _document(metric: str, entry: Slice) -> dict[str, object]:
    return {
        "metric": metric,
        "group": entry.group,
        "n": entry.n,
        "lost": entry.lost,
        "value": entry.value,
        **interval_ends(entry.interval),
        "pairs": entry.pairs,
        "difference": entry.difference,
        "difference_low": interval_ends(entry.difference_interval)["low"],
        "difference_high": interval_ends(entry.difference_interval)["high"],
    }
