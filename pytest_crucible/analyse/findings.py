"""How often each rule of the antagonist fired in one arm, and how right it was where a person has looked too."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from typing import get_args

import numpy as np

from pytest_crucible.analyse.questions import Clusters, mean_of
from pytest_crucible.analyse.scores import Floats, Scores
from pytest_crucible.analyse.targets import estimate
from pytest_crucible.cns3.antagonist.rules import Severity
from pytest_crucible.cns3.antagonist.stored import Flagged
from pytest_crucible.records import Estimate, FindingTally, MetricFacts

Unit = tuple[int, int]
"""Position and epoch."""
Reading = Callable[[str, Flagged], bool | None]
"""What is said of one reply about the finding of that name; None where nothing is."""


def tallies(
    arm: str,
    flagged: Mapping[Unit, Flagged],
    *,
    samples: int,
    clusters: Clusters | None,
    level: float,
) -> tuple[FindingTally, ...]:
    """One for each name that was found, or that a person says should have been, by name.

    Shares are over samples (repeats are averaged inside the sample), with the interval of any metric of yes and no.
    """

    def share(name: str, statistic: str, reading: Reading) -> Estimate:
        facts = MetricFacts(name=name, kind="binary", direction="lower", low=0.0, high=1.0)
        values = _values(name, flagged, reading, samples)
        none = np.zeros(samples, dtype=bool)
        found = estimate(
            mean_of(facts), facts, arm, Scores(values, values, values, none, np.isnan(values)), clusters, level=level
        )
        return dataclasses.replace(found, statistic=statistic)

    looked_at = any(one.gold is not None for one in flagged.values())
    return tuple(
        FindingTally(
            arm=arm,
            name=name,
            severities=_severities(name, flagged),
            explained=sum(
                one.name == name and one.caused_by is not None for it in flagged.values() for one in it.findings
            ),
            rate=share(name, "rate", _has),
            precision=share(name, "precision", _right) if looked_at else None,
            recall=share(name, "recall", _recalled) if looked_at else None,
        )
        for name in sorted({name for one in flagged.values() for name in _names(one)})
    )


def _names(one: Flagged) -> set[str]:
    return {finding.name for finding in one.findings} | (one.gold or frozenset())


def _has(name: str, one: Flagged) -> bool:
    return any(finding.name == name for finding in one.findings)


def _right(name: str, one: Flagged) -> bool | None:
    """Of findings that count: does a person say so too?"""
    counts = any(finding.name == name and finding.caused_by is None for finding in one.findings)
    return name in one.gold if counts and one.gold is not None else None


def _recalled(name: str, one: Flagged) -> bool | None:
    """Of what a person found: was it found, be it explained by another finding?"""
    return _has(name, one) if one.gold is not None and name in one.gold else None


def _severities(name: str, flagged: Mapping[Unit, Flagged]) -> dict[str, int]:
    counts = Counter(
        str(one.severity)
        for it in flagged.values()
        for one in it.findings
        if one.name == name and one.caused_by is None
    )
    return {severity: counts[severity] for severity in reversed(get_args(Severity))}


def _values(name: str, flagged: Mapping[Unit, Flagged], reading: Reading, samples: int) -> Floats:
    """The mean of each sample over the repeats that the reading speaks of; NaN where there is none."""
    totals, counts = np.zeros(samples), np.zeros(samples)
    for (position, _), one in flagged.items():
        value = reading(name, one)
        if value is not None:
            totals[position] += value
            counts[position] += 1
    with np.errstate(invalid="ignore"):
        return np.asarray(totals / counts)
