"""A judge's agreement with people on replies that were chosen with unequal probabilities."""

from __future__ import annotations

import pytest

from pytest_crucible.features.judges.section import measure_agreement
from pytest_crucible.stats.agreement.kappa import cohen_kappa, weighted_share

# The judge's level, a person's, the value of that, and how many replies it stands for.
LABELS = [
    ["good", "poor", 0.0, 1.0],
    ["poor", "poor", 0.0, 1.0],
    ["good", "good", 1.0, 10.0],
    ["poor", "good", 1.0, 10.0],
    ["good", "good", 1.0, 10.0],
]


def test_share_and_kappa_are_weighted_alike():
    agreement = measure_agreement("v2", "right", LABELS, 0.95)

    judged, human, _, weights = zip(*LABELS, strict=True)
    same = [ours == theirs for ours, theirs in zip(judged, human, strict=True)]
    kappa = cohen_kappa(judged, human, sample_weights=weights)
    assert (agreement.raw.value, agreement.raw.interval) == weighted_share(same, weights)
    assert (agreement.kappa.value, agreement.kappa.interval) == (kappa.value, kappa.interval)
    assert kappa.value != pytest.approx(cohen_kappa(judged, human).value)
    assert (agreement.n, agreement.is_weighted) == (5, True)


def test_labels_without_weights_count_alike():
    plain = measure_agreement("v2", "right", [row[:3] for row in LABELS], 0.95)

    assert plain == measure_agreement("v2", "right", [[*row[:3], 2.0] for row in LABELS], 0.95)
    assert not plain.is_weighted
