"""Agreement of units with sample weights against R's survey (weighted_agreement_reference.R)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pytest_crucible import stats
from pytest_crucible.stats.agreement.kappa import weighted_share
from pytest_crucible.stats.proportions.one import effective_wilson_interval

CASES = json.loads((Path(__file__).parent / "weighted_agreement_reference.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_weighted_kappa_and_its_error_equal_those_of_survey(case):
    result = stats.cohen_kappa(case["judge"], case["person"], sample_weights=case["weights"])
    n = len(case["judge"])

    assert result.value == pytest.approx(case["kappa"], rel=1e-12)
    # survey multiplies variances by n / (n - 1); the error of Fleiss, Cohen & Everitt, without weights too, does not.
    assert result.se == pytest.approx(case["kappa_se"] * math.sqrt((n - 1) / n), rel=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_the_weighted_share_has_the_variance_of_survey(case):
    same = [judge == person for judge, person in zip(case["judge"], case["person"], strict=True)]
    n = len(same)

    share, interval = weighted_share(same, case["weights"])

    assert share == pytest.approx(case["share"], rel=1e-12)
    effective = share * (1 - share) / (case["share_se"] ** 2 * (n - 1) / n)
    expected = effective_wilson_interval(share, effective, level=0.95)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
