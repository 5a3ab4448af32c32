"""The power of tests of twins, exactly: 200 prompts, of which 6 % turn one way and 1 % the other.

    python -m benchmarks.twin_power [--prompts 200] [--up 0.06] [--down 0.01]

Prints the power of the rule of `gap(... by twin)` and of textbook tests beside it, and how often each errs without a difference.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln, ndtri, stdtrit, xlogy
from scipy.stats import binom
from tabulate import tabulate

from pytest_crucible.stats.proportions.paired import tango_lower

Array = np.ndarray
Test = Callable[[Array, Array, int], Array]
HEADS = ("test at .05, two-sided", "power", "without a difference")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--up", type=float, default=0.06)
    parser.add_argument("--down", type=float, default=0.01)
    options = parser.parse_args()
    n, even = options.prompts, (options.up + options.down) / 2
    ups, downs = (axis.ravel() for axis in np.indices((n + 1, n + 1)))
    ups, downs = ups[ups + downs <= n], downs[ups + downs <= n]
    rows = []
    for name, test in TESTS.items():
        proves = test(ups, downs, n) & (ups > downs)
        chances = (_chances(ups, downs, n, *pair) @ proves for pair in ((options.up, options.down), (even, even)))
        power, alarm = chances
        # Either version may be the better one.
        rows.append([name, f"{power:.3f}", f"{2 * alarm:.3f}"])
    print(tabulate(rows, headers=HEADS, tablefmt="github", disable_numparse=True))


def _chances(ups: Array, downs: Array, n: int, up: float, down: float) -> Array:
    """Return the chance of each pair of counts: a trinomial."""
    rest = n - ups - downs
    ways = gammaln(n + 1) - gammaln(ups + 1) - gammaln(downs + 1) - gammaln(rest + 1)
    return np.asarray(np.exp(ways + xlogy(ups, up) + xlogy(downs, down) + xlogy(rest, 1 - up - down)))


def _tango(ups: Array, downs: Array, n: int) -> Array:
    z = float(ndtri(0.975))
    # A bound of every pair of counts would take minutes; where the score statistic is far from z it is known.
    statistic = (ups - downs) / np.sqrt(np.maximum(ups + downs, 1))
    near = np.abs(statistic - z) < 0.5
    proven = statistic > z
    proven[near] = [
        tango_lower(up, down, n, z) > 0 for up, down in zip(ups[near].tolist(), downs[near].tolist(), strict=True)
    ]
    return proven


def _exact(ups: Array, downs: Array, n: int) -> Array:
    return np.asarray(2 * binom.cdf(np.minimum(ups, downs), ups + downs, 0.5) <= 0.05)


def _paired_t(ups: Array, downs: Array, n: int) -> Array:
    mean = (ups - downs) / n
    variance = ((ups + downs) / n - mean**2) / (n - 1)
    return np.asarray(mean > float(stdtrit(n - 1, 0.975)) * np.sqrt(variance))


TESTS: dict[str, Test] = {
    "gap by twin: Tango's score bound": _tango,
    "McNemar, exact": _exact,
    "paired t (CR2 of pairs)": _paired_t,
}

if __name__ == "__main__":
    main()
