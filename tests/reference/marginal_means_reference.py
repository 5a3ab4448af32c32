"""Write marginal_means_reference.json: with statsmodels 0.15.0 installed, run this file.

Cell means with a variance of their own are ordinary least squares with one dummy for each cell and the covariance HC2, which is
then s^2 / n of each cell. Of two cells, `CompareMeans` also has Welch's degrees of freedom.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import statsmodels.api as sm
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

STEPS, RANKS = (9, 30, 90), (8, 32)


def grid_case(counts: dict[tuple[int, int], int]) -> dict[str, Any]:
    """Trainings in the cells of steps x rank: contrasts of two levels over all cells, by OLS of cell means with HC2."""
    rng = np.random.default_rng(3)
    cells = [cell for cell in itertools.product(STEPS, RANKS) for _ in range(counts[cell])]
    scores = [
        0.5 + 0.03 * STEPS.index(steps) + 0.01 * RANKS.index(rank) + rng.normal(0, 0.02 + steps / 3000)
        for steps, rank in cells
    ]
    names = list(itertools.product(STEPS, RANKS))
    design = np.array([[float(cell == name) for name in names] for cell in cells])
    fit = sm.OLS(np.array(scores), design).fit(cov_type="HC2")
    contrasts = {}
    for low, high in itertools.combinations(STEPS, 2):
        weights = [((cell[0] == high) - (cell[0] == low)) / len(RANKS) for cell in names]
        test = fit.t_test(np.array(weights, dtype=float))
        contrasts[f"{high} - {low}"] = [float(test.effect[0]), float(test.sd[0, 0])]
    return {"cells": cells, "scores": scores, "contrasts": contrasts}


def two_levels(first: int, second: int) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    low, high = rng.normal(0.6, 0.01, first), rng.normal(0.65, 0.04, second)
    pair = CompareMeans(DescrStatsW(high), DescrStatsW(low))
    return {
        "low": low.tolist(),
        "high": high.tolist(),
        "interval": list(pair.tconfint_diff(usevar="unequal")),
        "p_value": float(pair.ttest_ind(usevar="unequal")[1]),
    }


if __name__ == "__main__":
    full = dict.fromkeys(itertools.product(STEPS, RANKS), 3)
    cases = {
        "balanced": grid_case(full),
        "unequal": grid_case({**full, (9, 8): 5, (90, 32): 2}),
        "two levels": [two_levels(3, 3), two_levels(5, 3), two_levels(2, 6)],
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(cases) + "\n", encoding="utf-8")
