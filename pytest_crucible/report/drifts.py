"""A baseline's drift in a sentence: it is the server's finding, not the adapter's."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_crucible.numerals import p_equals, with_interval
from pytest_crucible.records import Analysis, Drift


def drift_lines(analysis: Analysis) -> Iterator[str]:
    """One for each metric, whether something was found or not: that it was looked for is worth knowing."""
    name = analysis.plan.nodeid.partition("::")[2]
    yield from (f"{name}: {_sentence(one)}" for one in analysis.drifts)


def _sentence(one: Drift) -> str:
    pair = one.comparison
    lost = f", {pair.lost:,} lost" if pair.lost else ""
    shown = f"{pair.contrast.metric} {with_interval(pair.difference, pair.interval, sign=True)}, n {pair.pairs:,}{lost}"
    if one.found:
        return (
            f"{one.arm} has drifted since run {one.run}: {shown}, {p_equals(pair.p_adjusted)}; "
            "the server changed, not the adapter"
        )
    return f"{one.arm}, asked anew, is not proven to have drifted since run {one.run}: {shown}"
