"""All p-values of a comparison change together."""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.analyse.adjusted_analyses import map_p_values
from pytest_crucible.records import BoundedValue, Comparison, Contrast, Evidence

READING = BoundedValue(value=0.1, lower=None, upper=None, p_value=0.02)
COMPARISON = Comparison(
    contrast=Contrast(metric="accuracy", baseline="v1"),
    candidate="v2",
    pairs=50,
    lost=1,
    clusters=None,
    difference=0.1,
    interval=None,
    p_value=0.02,
    p_exact=0.03,
    method="tango",
    evidence=Evidence(observed=READING, worst=replace(READING, p_value=None), best=READING, method="tango"),
    detectable=None,
    needed=None,
)


def test_every_p_value_is_scaled_and_an_unknown_one_stays_unknown():
    scaled = map_p_values(COMPARISON, lambda p_value: 2 * p_value)

    assert (scaled.p_value, scaled.p_exact) == (0.04, 0.06)
    assert [getattr(scaled.evidence, end).p_value for end in ("observed", "worst", "best")] == [0.04, None, 0.04]
    assert scaled.evidence.method == "tango"
    assert scaled.difference == COMPARISON.difference
