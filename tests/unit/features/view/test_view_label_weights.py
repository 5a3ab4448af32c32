"""Labels that were chosen where arms disagree give an unbiased agreement with their weights, and a biased one without."""

from __future__ import annotations

import numpy as np

from pytest_crucible.features.view.label_queue import ROW, STRATA, order_rows
from pytest_crucible.stats.agreement.kappa import weighted_share

REPLIES, DISAGREE, LABELS, RUNS = 1_000, 250, 80, 400


def test_the_weighted_agreement_is_unbiased_and_the_unweighted_is_not():
    generator = np.random.default_rng(1)
    rows = np.zeros(REPLIES, dtype=ROW)
    rows["position"], rows["stratum"] = np.arange(REPLIES), np.arange(REPLIES) < DISAGREE
    rows["hash"] = generator.integers(0, 2**63, (REPLIES, 2))
    # The judge agrees with people on 95 % of the replies on which arms agree, and on half of the others.
    agrees = generator.random(REPLIES) < np.where(rows["stratum"], 0.5, 0.95)
    estimates, unweighted, covered = [], [], 0
    for run in range(RUNS):
        labelled = order_rows(rows, f"run {run}", "disagreements")[:LABELS]
        counts = np.bincount(labelled["stratum"], minlength=len(STRATA["disagreements"]))
        weights = (np.array([REPLIES - DISAGREE, DISAGREE]) / counts)[labelled["stratum"]]
        flags = agrees[labelled["position"]]
        share, interval = weighted_share(flags, weights)
        estimates.append(share)
        unweighted.append(flags.mean())
        covered += interval.low <= agrees.mean() <= interval.high

    # Twice the error of a mean of 400 estimates, each of which has an error of about .055.
    assert abs(np.mean(estimates) - agrees.mean()) < 0.006
    assert np.mean(unweighted) < agrees.mean() - 0.15
    assert covered / RUNS > 0.93
