"""The power of tests of twins, exactly: 200 prompts, of which 6 % turn one way and 1 % the other.

    python -m benchmarks.twin_power [--prompts 200] [--up 0.06] [--down 0.01]

Prints the power of the rule of `gap(... by twin)`, of textbook tests, and of the best test that there is, beside their errors: how
often each finds a difference where there is none, at the same rate of changes and at the worst of SIZES x RATES.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import linprog
from scipy.special import ndtri, stdtrit, xlogy
from scipy.stats import binom
from tabulate import tabulate

from pytest_crucible.stats.proportions.paired import tango_lower

Array = np.ndarray
Test = Callable[[int, int], Array]
"""Prompts that changed, and all prompts -> the chance to find a difference, by how many of the changes are upwards."""
ALPHA = 0.05
Z = float(ndtri(1 - ALPHA / 2))
SIZES = (20, 50, 100, 200, 500, 1000)
RATES = np.linspace(0.005, 0.3, 60)
"""Shares of prompts that change."""
HEADS = ("test at .05, two-sided", "power", "error", "largest error")
# Chances of counts below this are left out.
_NEVER = 1e-9
# Rates of changes at which the best test must hold its error rate: others are too far from 7 % to matter.
_BEST_UP_TO = 0.15


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--up", type=float, default=0.06)
    parser.add_argument("--down", type=float, default=0.01)
    options = parser.parse_args()
    n, rate, share = options.prompts, options.up + options.down, options.up / (options.up + options.down)
    rows = []
    for name, test in TESTS.items():
        errors = [chance(test, size, each, 0.5) for size in SIZES for each in RATES.tolist()]
        figures = chance(test, n, rate, share), chance(test, n, rate, 0.5), max(errors)
        rows.append([name, *(f"{figure:.3f}" for figure in figures)])
    best = f"the best of all for {options.up:g} and {options.down:g} (randomised)"
    rows.append([best, f"{best_power(n, rate, share):.3f}", "", "0.050"])
    print(tabulate(rows, headers=HEADS, tablefmt="github", disable_numparse=True))


def chance(test: Test, n: int, rate: float, share: float) -> float:
    """Return how often a test finds a difference where `rate` of n prompts change, and `share` of these upwards."""
    low, high = (int(binom.ppf(tail, n, rate)) for tail in (_NEVER, 1 - _NEVER))
    return float(
        sum(
            binom.pmf(changed, n, rate) * (binom.pmf(np.arange(changed + 1), changed, share) @ test(changed, n))
            for changed in range(low, high + 1)
        )
    )


@cache
def _tango(changed: int, n: int) -> Array:
    ups = np.arange(changed + 1)
    statistic = np.abs(2 * ups - changed) / np.sqrt(max(changed, 1))
    proven = statistic > Z
    # A bound of every count would take minutes; where the score statistic is far from z it is known.
    near = np.flatnonzero(np.abs(statistic - Z) < 0.1)
    counts = [(max(up, changed - up), min(up, changed - up)) for up in near.tolist()]
    proven[near] = [tango_lower(more, fewer, n, Z) > 0 for more, fewer in counts]
    return proven.astype(np.float64)


@cache
def _exact(changed: int, n: int) -> Array:
    ups = np.arange(changed + 1)
    fewer = np.minimum(ups, changed - ups)
    return np.asarray(2 * binom.cdf(fewer, changed, 0.5) <= ALPHA, dtype=np.float64)


@cache
def _mid_p(changed: int, n: int) -> Array:
    ups = np.arange(changed + 1)
    fewer = np.minimum(ups, changed - ups)
    p_values = 2 * binom.cdf(fewer, changed, 0.5) - binom.pmf(fewer, changed, 0.5)
    return np.asarray(p_values <= ALPHA, dtype=np.float64)


@cache
def _likelihood_ratio(changed: int, n: int) -> Array:
    ups = np.arange(changed + 1.0)
    half = max(changed, 1) / 2
    ratio = 2 * (xlogy(ups, ups / half) + xlogy(changed - ups, (changed - ups) / half))
    return np.asarray(ratio > Z**2, dtype=np.float64)


def _mean_over_error(changed: int, n: int, z: float, freedom: int) -> Array:
    difference = 2 * np.arange(changed + 1.0) - changed
    variance = (changed - difference**2 / n) * n / freedom
    return np.asarray(np.abs(difference) > z * np.sqrt(variance), dtype=np.float64)


@cache
def _wald(changed: int, n: int) -> Array:
    return _mean_over_error(changed, n, Z, n)


@cache
def _paired_t(changed: int, n: int) -> Array:
    return _mean_over_error(changed, n, float(stdtrit(n - 1, 1 - ALPHA / 2)), n - 1)


@cache
def _unbiased(changed: int, n: int) -> Array:
    """The uniformly most powerful unbiased test (Lehmann & Romano 2005, section 4.5): the exact one, randomised to .05."""
    chances = binom.pmf(np.arange(changed + 1), changed, 0.5)
    found = np.zeros(changed + 1)
    left = ALPHA / 2
    for ups in range(changed, changed // 2, -1):
        found[ups] = min(1.0, left / chances[ups])
        left -= found[ups] * chances[ups]
    return np.maximum(found, found[::-1]) if changed else np.full(1, ALPHA)


def best_power(n: int, rate: float, share: float) -> float:
    """Return the power of the best test for these rates, of all that err in at most .05 at whatever rate of changes.

    A linear program over the chances to find a difference, by counts; tests may be randomised, and treat both versions alike.
    More rates in it could only make this power smaller.
    """
    most = int(binom.ppf(1 - _NEVER, n, max(rate, _BEST_UP_TO)))
    cells = [(changed, ups) for changed in range(most + 1) for ups in range((changed + 1) // 2, changed + 1)]
    changed, ups = (np.array(column) for column in zip(*cells, strict=True))

    def chances(rate: float, share: float) -> Array:
        mirrored = np.where(2 * ups == changed, 0.0, binom.pmf(changed - ups, changed, share))
        return np.asarray(binom.pmf(changed, n, rate) * (binom.pmf(ups, changed, share) + mirrored))

    errors = np.array([chances(each, 0.5) for each in RATES.tolist() if each < _BEST_UP_TO])
    solved = linprog(-chances(rate, share), A_ub=errors, b_ub=np.full(len(errors), ALPHA), bounds=(0, 1))
    return float(-solved.fun)


TESTS: dict[str, Test] = {
    "gap by twin: Tango's score bound": _tango,
    "McNemar, exact": _exact,
    "McNemar, mid-p": _mid_p,
    "paired t (CR2 of pairs)": _paired_t,
    "Wald": _wald,
    "likelihood ratio": _likelihood_ratio,
    "the most powerful unbiased one (randomised)": _unbiased,
}

if __name__ == "__main__":
    main()
