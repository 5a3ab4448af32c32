"""An ensemble beside its members: as terminal lines, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tabulate import tabulate

from pytest_crucible.numerals import with_interval
from pytest_crucible.records import Analysis, Diversity, MemberPair, Share

HEADS = ("members", "disagreement", "both wrong", "error correlation", "n")


def diversity_lines(analyses: Sequence[Analysis]) -> Iterator[str]:
    """Accuracy of the ensemble, of its best member and of a perfect choice between them; below, each pair of members."""
    for analysis in analyses:
        for one in analysis.diversity:
            yield f"{analysis.plan.nodeid.partition('::')[2]}: members of {one.arm} by {one.metric}, n={one.n:,}"
            yield from (f"  {line}" for line in _lines(one))


def _lines(one: Diversity) -> Iterator[str]:
    yield from [one.oracle.note] if one.best is None else _aligned(_levels(one, one.best))
    yield from _aligned([HEADS, *map(_cells, one.pairs)])
    yield from [one.note] if one.note else []
    for pair in one.pairs:
        if pair.error_correlation.note:
            yield f"{pair.first}, {pair.second}: {pair.error_correlation.note}"


def diversity_document(one: Diversity) -> dict[str, Any]:
    """The keys of docs/reference/json.md."""
    return {
        "arm": one.arm,
        "metric": one.metric,
        "n": one.n,
        "members": [{"name": name, **_share(share)} for name, share in one.accuracies.items()],
        "best": one.best,
        "oracle": _share(one.oracle),
        "ensemble": _share(one.ensemble),
        "pairs": [_pair(pair) for pair in one.pairs],
        "note": one.note,
    }


def _levels(one: Diversity, best: str) -> Sequence[Sequence[str]]:
    named = {"ensemble": one.ensemble, f"best member, {best}": one.accuracies[best], "some member right": one.oracle}
    return [(name, _shown(share)) for name, share in named.items()]


def _cells(pair: MemberPair) -> tuple[str, ...]:
    shares = (pair.disagreement, pair.double_fault, pair.error_correlation)
    return (f"{pair.first}, {pair.second}", *map(_shown, shares), f"{pair.n:,}")


def _shown(share: Share) -> str:
    return "-" if share.value is None else with_interval(share.value, share.interval)


def _aligned(rows: Sequence[Sequence[str]]) -> Sequence[str]:
    align = ["left" if head != "n" else "right" for head in rows[0]]
    return tabulate(rows, tablefmt="plain", colalign=align, disable_numparse=True).splitlines()


def _pair(pair: MemberPair) -> dict[str, Any]:
    return {
        "first": pair.first,
        "second": pair.second,
        "n": pair.n,
        "disagreement": _share(pair.disagreement),
        "double_fault": _share(pair.double_fault),
        "error_correlation": _share(pair.error_correlation),
    }


def _share(share: Share) -> dict[str, Any]:
    interval = share.interval
    return {
        "value": share.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "note": share.note,
    }
