"""Write winner_reference.json: `pip install multiple-inference==1.2.0 "scipy<1.12" "numpy<2" mpmath`, then run this file.

The package's simultaneous interval is drawn at random; the hybrid numbers here use Sidak's instead, which is given to the
same distribution. `exact` are the same ends by mpmath with 300 digits, because the package loses its digits far from the
winner's mean: see README.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from multiple_inference.rank_condition import RankCondition
from multiple_inference.stats import quantile_unbiased
from scipy.stats import norm

ALPHA, BETA = 0.05, 0.005
SHARES = [ALPHA / 2, 0.5, 1 - ALPHA / 2]
HYBRID = (ALPHA - BETA) / (1 - BETA)


def cases() -> dict[str, tuple[list[float], Any]]:
    rng = np.random.default_rng(17)
    root = rng.normal(size=(8, 12))
    return {
        "five independent arms": ([0.0, 1.0, 2.0, 3.0, 4.0], np.identity(5)),
        "two arms that nearly tie": ([0.70, 0.69], [[0.0021, 0.0012], [0.0012, 0.0022]]),
        "a clear winner": ([0.5, 0.9], [[0.0025, 0.001], [0.001, 0.0009]]),
        "eight correlated arms": (rng.normal(0.6, 0.05, 8).tolist(), root @ root.T / 4000),
        "a rival that moves more": ([0.8, 0.7, 0.6], [[0.002, 0.003, 0.001], [0.003, 0.006, 0.001], [0.001, 0.001, 0.002]]),
        "32 equal arms": (rng.normal(0.6, 0.05, 32).tolist(), 0.0025 * (0.4 * np.identity(32) + 0.6)),
    }  # fmt: skip


def answer(means: list[float], covariance: Any) -> dict[str, Any]:
    matrix = np.asarray(covariance, dtype=float)
    arm = int(np.argmax(means))
    conditional = RankCondition(means, matrix).get_marginal_distribution(arm)
    scale = float(np.sqrt(matrix[arm, arm]))
    reach = scale * float(-norm.ppf((1 - (1 - BETA) ** (1 / len(means))) / 2))
    truncation = conditional.truncnorm_kwargs["truncation_set"]
    hybrid = quantile_unbiased(y=means[arm], scale=scale, projection_interval=reach, truncation_set=truncation)
    hybrid_shares = [HYBRID / 2, 0.5, 1 - HYBRID / 2]
    return {
        "estimates": means,
        "covariance": matrix.tolist(),
        "arm": arm,
        "package": {
            "conditional": [float(conditional.ppf(share)) for share in SHARES],
            "hybrid": [float(hybrid.ppf(share)) for share in hybrid_shares],
        },
        "exact": {
            "conditional": [solve(means, matrix, arm, mp.inf, 1 - share) for share in SHARES],
            "hybrid": [solve(means, matrix, arm, reach, 1 - share) for share in hybrid_shares],
        },
    }


def solve(means: list[float], covariance: Any, arm: int, reach: Any, share: float) -> float:
    """Return the mean at which the winner's estimate has this share of its truncated distribution below it."""
    winner, variance = mp.mpf(means[arm]), mp.mpf(covariance[arm, arm])
    low, high = -mp.inf, mp.inf
    for rival in range(len(means)):
        gain = variance - mp.mpf(covariance[rival, arm])
        if rival != arm:
            limit = winner - variance * (winner - mp.mpf(means[rival])) / gain
            low, high = (max(low, limit), high) if gain > 0 else (low, min(high, limit))

    def share_below(mean: Any) -> Any:
        least, most = max(low, mean - reach), min(high, mean + reach)
        below, at, above = (mp.ncdf(end, mean, mp.sqrt(variance)) for end in (least, winner, most))
        return (at - below) / (above - below)

    start = winner - (reach if reach < mp.inf else 20 * mp.sqrt(variance))
    end = winner + (reach if reach < mp.inf else 20 * mp.sqrt(variance))
    for _ in range(100):
        middle = (start + end) / 2
        start, end = (middle, end) if share_below(middle) > share else (start, middle)
    return float(start)


if __name__ == "__main__":
    mp.mp.dps = 300
    answers = {name: answer(*case) for name, case in cases().items()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(answers) + "\n", encoding="utf-8")
