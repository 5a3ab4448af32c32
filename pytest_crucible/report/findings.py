"""What the antagonist found, by name, severity and arm: as terminal lines, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tabulate import tabulate

from pytest_crucible.numerals import with_interval
from pytest_crucible.records import Analysis, Estimate, FindingTally


def findings_lines(analyses: Sequence[Analysis]) -> Iterator[str]:
    """One table an experiment: how often, how grave, and, where a person has looked, how right."""
    for analysis in analyses:
        if analysis.findings:
            yield f"{analysis.plan.nodeid.partition('::')[2]}: findings of the antagonist"
            yield from _aligned(("finding", "arm", "HIGH", "MEDIUM", "LOW", "explained", "share of samples", "n"),
                                [_often(one) for one in analysis.findings])  # fmt: skip
            judged = [_right(one) for one in analysis.findings if one.precision is not None]
            if judged:
                yield from _aligned(("finding", "arm", "precision", "found", "recall", "labelled"), judged)
            yield ""


def finding_document(one: FindingTally) -> dict[str, Any]:
    """The keys of docs/reference/json.md."""
    return {
        "arm": one.arm,
        "name": one.name,
        "severities": dict(one.severities),
        "explained": one.explained,
        "rate": _share(one.rate),
        "precision": _share(one.precision),
        "recall": _share(one.recall),
    }


def _often(one: FindingTally) -> tuple[str, ...]:
    return (one.name, one.arm, *map(str, one.severities.values()), str(one.explained), *_shown(one.rate))


def _right(one: FindingTally) -> tuple[str, ...]:
    return (one.name, one.arm, *_shown(one.precision), *_shown(one.recall))


def _shown(one: Estimate | None) -> tuple[str, str]:
    return ("-", "0") if one is None or one.value is None else (with_interval(one.value, one.interval), f"{one.n:,}")


def _share(one: Estimate | None) -> dict[str, Any] | None:
    if one is None:
        return None
    ends = (one.interval.low, one.interval.high) if one.interval else (None, None)
    return {"value": one.value, "n": one.n, "low": ends[0], "high": ends[1], "method": one.method}


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Words and intervals to the left, counts to the right."""
    words = ("finding", "arm", "share of samples", "precision", "recall")
    align = ["left" if head in words else "right" for head in heads]
    return tabulate([heads, *rows], tablefmt="plain", colalign=align, disable_numparse=True).splitlines()
