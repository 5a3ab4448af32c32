"""Exact unconditional inference on pairs against a brute-force computation in R (`paired_exact_reference.R`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_crucible.stats import paired_exact_p_value
from pytest_crucible.stats.proportions.exact import paired_exact_bound

REFERENCE = json.loads(Path(__file__).with_name("paired_exact_reference.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("gained", "lost", "n", "p_value"), REFERENCE["p"])
def test_p_values(gained, lost, n, p_value):
    # The nuisance rate is sought on a coarser grid here, and the largest probability is flat.
    assert paired_exact_p_value(gained, lost, n) == pytest.approx(p_value, rel=3e-4)
    assert paired_exact_p_value(lost, gained, n) == pytest.approx(p_value, rel=3e-4)


@pytest.mark.parametrize(("gained", "lost", "n", "alpha", "lower"), REFERENCE["lower"])
def test_bounds(gained, lost, n, alpha, lower):
    assert paired_exact_bound(gained, lost, n, alpha=alpha, side="lower") == pytest.approx(lower, abs=5e-6)
    assert paired_exact_bound(lost, gained, n, alpha=alpha, side="upper") == pytest.approx(-lower, abs=5e-6)
