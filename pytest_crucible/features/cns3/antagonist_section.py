"""The report section of the antagonist: frequencies of each finding in each arm, and its precision and recall."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from pytest_crucible.analyse.scores import Floats, Scores
from pytest_crucible.analyse.statistics import Clusters
from pytest_crucible.analyse.targets import estimate_mean
from pytest_crucible.features.cns3.antagonist import METRIC, Flagged, Severity, from_text
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, ColumnKind, Estimate, ExportTable, MetricFacts, Row, Table, View
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.number_format import with_interval
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.tables import UNIT, labels

decides = False  # no claim of it can fail the session

Replies = Mapping[tuple[int, int], Flagged]
"""Findings by position and repeat."""
Judgement = Callable[[str, Flagged], bool | None]
"""Returns whether a reply counts for a finding; None if it cannot show it."""
# The gravest first, as in the tables.
SEVERITIES = tuple(reversed(get_args(Severity)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingTally:
    """The tally of one finding in the replies of one arm."""

    arm: str
    name: str
    severities: Mapping[str, int]
    """Counted findings by severity, the gravest first."""
    explained: int
    """Findings that another one explains, and that therefore do not count."""
    rate: Estimate
    """Share of the samples with the finding, explained or not."""
    precision: Estimate | None
    """Share of the counted findings that a person found as well; None without gold flags."""
    recall: Estimate | None
    """Share of a person's findings that were found, explained or not."""


def compute(inputs: SectionInputs) -> tuple[FindingTally, ...] | None:
    """Return the tallies of each arm that has the metric; None if no arm has findings."""
    tallies: list[FindingTally] = []
    for number, (arm, answers) in enumerate(zip(inputs.plan.arms, inputs.answers, strict=True)):
        if METRIC in answers.labels:
            replies = {unit: from_text(text) for unit, text in inputs.stored.texts(number, METRIC).items()}
            tallies += tally_findings(
                arm.name, replies, samples=inputs.samples, clusters=inputs.clusters, level=1 - inputs.alpha
            )
    return tuple(tallies) or None


def claims(tallies: Sequence[FindingTally]) -> Sequence[Claim]:
    """Return no claims."""
    return ()


def view(tallies: Sequence[FindingTally], claims: Sequence[Claim]) -> View:
    """Return a table of frequencies, and one of precision and recall if a person has checked replies."""
    return View(
        title="Findings",
        tables=tuple(table for table in (_frequencies(tallies), _agreement(tallies)) if table.rows),
        document=[_document(tally) for tally in tallies],
    )


def tally_findings(
    arm: str, replies: Replies, *, samples: int, clusters: Clusters | None, level: float
) -> tuple[FindingTally, ...]:
    """Return a tally for each name that was found, or that a person expected.

    Shares are over samples (repeats are averaged inside the sample), with the interval of any binary metric.
    """

    def share(name: str, statistic: str, judgement: Judgement) -> Estimate:
        facts = MetricFacts(name=name, kind="binary", direction="lower", low=0.0, high=1.0)
        values = _values(name, replies, judgement, samples)
        nothing_lost = np.zeros(samples, dtype=bool)
        scores = Scores(values, values, values, nothing_lost, np.isnan(values))
        return dataclasses.replace(estimate_mean(facts, arm, scores, clusters, level=level), statistic=statistic)

    findings = [finding for reply in replies.values() for finding in reply.findings]
    names = {finding.name for finding in findings}.union(*(reply.gold or () for reply in replies.values()))
    counts = Counter((finding.name, str(finding.severity)) for finding in findings if finding.caused_by is None)
    explained = Counter(finding.name for finding in findings if finding.caused_by is not None)
    has_gold = any(reply.gold is not None for reply in replies.values())
    return tuple(
        FindingTally(
            arm=arm,
            name=name,
            severities={severity: counts[name, severity] for severity in SEVERITIES},
            explained=explained[name],
            rate=share(name, "rate", _has),
            precision=share(name, "precision", _is_right) if has_gold else None,
            recall=share(name, "recall", _is_recalled) if has_gold else None,
        )
        for name in sorted(names)
    )


def _has(name: str, reply: Flagged) -> bool:
    return any(finding.name == name for finding in reply.findings)


def _is_right(name: str, reply: Flagged) -> bool | None:
    """Return whether a person agrees with a finding that counts."""
    counts = any(finding.name == name and finding.caused_by is None for finding in reply.findings)
    # An explained finding does not count, so it can be neither right nor wrong.
    return name in reply.gold if counts and reply.gold is not None else None


def _is_recalled(name: str, reply: Flagged) -> bool | None:
    """Return whether a person's finding was found, even if another finding explains it."""
    return _has(name, reply) if reply.gold is not None and name in reply.gold else None


def _values(name: str, replies: Replies, judgement: Judgement, samples: int) -> Floats:
    """Return each sample's mean over the repeats with an answer; NaN without answers."""
    totals, counts = np.zeros(samples), np.zeros(samples)
    for (position, _), reply in replies.items():
        value = judgement(name, reply)
        if value is not None:
            totals[position] += value
            counts[position] += 1
    # 0/0 is NaN on purpose: the sample is no evidence on this finding.
    with np.errstate(invalid="ignore"):
        return np.asarray(totals / counts)


def _frequencies(tallies: Sequence[FindingTally]) -> Table:
    rows = tuple(
        Row(
            cells=(tally.name, tally.arm, *map(str, (*tally.severities.values(), tally.explained)), *_cells(tally.rate))
        )
        for tally in tallies
    )
    return Table(
        title="Findings of the antagonist",
        heads=("finding", "arm", *SEVERITIES, "explained", "share of samples", "n"),
        rows=rows,
        numbers=(*SEVERITIES, "explained", "n"),
    )


def _agreement(tallies: Sequence[FindingTally]) -> Table:
    rows = tuple(
        Row(cells=(tally.name, tally.arm, *_cells(tally.precision), *_cells(tally.recall)))
        for tally in tallies
        if tally.precision is not None
    )
    return Table(
        title="Findings and gold flags",
        heads=("finding", "arm", "precision", "found", "recall", "labelled"),
        rows=rows,
        numbers=("found", "labelled"),
    )


def _cells(estimate: Estimate | None) -> Iterator[str]:
    if estimate is None or estimate.value is None:
        yield from ("-", "0")
    else:
        yield from (with_interval(estimate.value, estimate.interval), f"{estimate.n:,}")


def _document(tally: FindingTally) -> dict[str, Any]:
    facts = {"arm": tally.arm, "name": tally.name, "severities": dict(tally.severities), "explained": tally.explained}
    return {**facts, "rate": _share(tally.rate), "precision": _share(tally.precision), "recall": _share(tally.recall)}


def _share(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"value": estimate.value, "n": estimate.n, **interval_ends(estimate.interval), "method": estimate.method}


COLUMNS: Mapping[str, ColumnKind] = {
    **UNIT,
    "finding": "text",
    "severity": "text",
    "caused_by": "text",
    "evidence": "json",
    "labelled": "flag",
}


def findings(store: RunStore, run: str) -> ExportTable:
    """Return every finding with its evidence. `labelled`: a person found it too; None if no person has looked."""
    rows = (
        (
            *unit,
            *(finding.name, finding.severity, finding.caused_by, dict(finding.evidence)),
            None if reply.gold is None else finding.name in reply.gold,
        )
        for *unit, text in labels(store, run, METRIC)
        for reply in [from_text(text)]
        for finding in reply.findings
    )
    return ExportTable(columns=COLUMNS, rows=rows)
