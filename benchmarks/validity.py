"""How often gates say something false where both arms have one mean but not one shape, or where nothing differs.

    python -m benchmarks.validity                 # about five minutes
    python -m benchmarks.validity --only "rare gains" --runs 2000
    python -m benchmarks.validity --only blocks

Prints a table in markdown, for docs/reference/error-rates.md. `t` is the share of runs in which Student's t (in groups: CR2),
two-sided at .05, would call one mean proven lower or higher; `missed` that in which the gate is missed, because the arms are not
alike and the estimate is lower; `proven lower` and `proven higher` those in which the bounds of the mean say so. Where arms are
alike `missed` may be .025; each false proof may be .025 anywhere. Exits 1 where one of these is exceeded by more than four standard
errors. `blocks` prints the power of 2,000 blocks beside that of 10,000 samples.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from tabulate import tabulate

from benchmarks.shares import largest, worst_of_sizes
from pytest_crucible import stats
from pytest_crucible.stats.means.clustered import clustered_p_value
from pytest_crucible.stats.means.gaffke import gaffke_p_value
from pytest_crucible.stats.resampling import alikeness, draws
from pytest_crucible.stats.resampling.draws import MonteCarlo

Array = np.ndarray
# Differences of one run, and their groups.
Draw = Callable[[np.random.Generator, int], tuple[Array, Array | None]]
LEVEL = 0.025


class Shape(NamedTuple):
    """Differences whose mean is 0, between -1 and 1."""

    name: str
    sizes: tuple[int, ...]
    alike: bool
    """Whether a difference is as likely as its negative."""
    draw: Draw


def rare_gains(rng: np.random.Generator, n: int) -> tuple[Array, None]:
    """98 % are worse by .016, 2 % better by .8."""
    return np.where(rng.random(n) < 0.02, 0.784, -0.016), None


def rare_collapses(rng: np.random.Generator, n: int) -> tuple[Array, None]:
    """A level of 1 to 5 better in a fifth of replies, and one in twenty collapses from 5 to 1."""
    return np.select([(u := rng.random(n)) < 0.05, u < 0.25], [-1.0, 0.25], 0.0), None


def one_outlier(rng: np.random.Generator, n: int) -> tuple[Array, None]:
    """A smooth small loss beside one in a hundred that gains all."""
    return np.where(rng.random(n) < 0.01, 1.0, -0.0101 * rng.gamma(4, 0.25, n)), None


def skewed(rng: np.random.Generator, n: int) -> tuple[Array, None]:
    """Beta(.3, 3) less its mean."""
    return rng.beta(0.3, 3, n) - 0.3 / 3.3, None


def growing_groups(rng: np.random.Generator, groups: int) -> tuple[Array, Array]:
    """Large groups gain and small ones lose: the mean over samples is 0."""
    sizes = rng.integers(1, 21, groups)
    # E[size x effect] = 0 where effect = size - E[size^2] / E[size].
    effects = (sizes - 143.5 / 10.5) / 40
    return np.repeat(effects, sizes) + rng.normal(0, 0.05, sizes.sum()), np.repeat(np.arange(groups), sizes)


def alike_normal(rng: np.random.Generator, n: int) -> tuple[Array, None]:
    return np.clip(rng.normal(0, 0.2, n), -1, 1), None


def alike_rare(rng: np.random.Generator, n: int) -> tuple[Array, None]:
    return np.where(rng.random(n) < 0.05, rng.choice([-1.0, 1.0], n), 0.0), None


def alike_groups(rng: np.random.Generator, groups: int) -> tuple[Array, Array]:
    """Whole groups of very unequal sizes, up to 60, gain or lose."""
    sizes = np.minimum(60, np.ceil(rng.pareto(1, groups))).astype(int).clip(1)
    return np.repeat(rng.choice([-1.0, 1.0], groups) * rng.random(groups), sizes), np.repeat(np.arange(groups), sizes)


SHAPES = (
    Shape("rare gains: 98 % worse by .016, 2 % better by .8", (20, 50, 100, 200), False, rare_gains),
    Shape("levels 1 to 5 with rare collapses", (20, 50, 100, 200), False, rare_collapses),
    Shape("small losses, one in a hundred gains all", (50, 200, 1000), False, one_outlier),
    Shape("skewed", (20, 100, 500), False, skewed),
    Shape("effects go with the size of groups (n: groups)", (8, 20, 60), False, growing_groups),
    Shape("alike: smooth", (10, 50, 500), True, alike_normal),
    Shape("alike: one in twenty gains or loses all", (20, 100, 500), True, alike_rare),
    Shape("alike: whole groups of up to 60 (n: groups)", (8, 30, 100), True, alike_groups),
)
HEADS = ("both arms have one mean", "n", "t", "missed", "proven lower", "proven higher", "")


def main() -> int:
    """Print the table; return 1 where an error rate is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validity")
    parser.add_argument("--only", default="", help="shapes whose name contains this, or blocks")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--sizes", action="store_true", help="a row for each number of samples, not the worst of them")
    given = parser.parse_args()
    if given.only == "blocks":
        return print_blocks(given.runs)
    chosen = [shape for shape in SHAPES if given.only in shape.name]
    rows = [row for shape in chosen for row in measure(shape, given.runs)]
    if given.sizes:
        print(tabulate(rows, headers=HEADS, tablefmt="github", disable_numparse=True))
    else:
        worst = worst_of_sizes(rows, (0,), dict.fromkeys(range(2, 6), largest))
        print(tabulate(worst, headers=(HEADS[0], *HEADS[2:6]), tablefmt="github", disable_numparse=True))
    return int(any(row[-1] for row in rows))


def measure(shape: Shape, runs: int) -> list[list[str]]:
    """Return a row of shares for each number of samples."""
    rows = []
    for n in shape.sizes:
        rng = np.random.default_rng(n)
        by_t, missed, lower, higher = (
            sum(flags) / runs for flags in zip(*(decide(*shape.draw(rng, n)) for _ in range(runs)), strict=True)
        )
        most = LEVEL + 4 * math.sqrt(LEVEL * (1 - LEVEL) / runs)
        liberal = max(lower, higher) > most or (shape.alike and missed > most)
        shares = [f"{share:.3f}"[-4:] for share in (by_t, missed, lower, higher)]
        rows.append([shape.name, f"{n:,}", *shares, "liberal" if liberal else ""])
        print(shape.name, n, *shares, file=sys.stderr, flush=True)
    return rows


def decide(differences: Array, groups: Array | None) -> tuple[bool, bool, bool, bool]:
    """Return whether t calls one mean lower, and whether the gate is missed, proven lower and proven higher."""
    estimate = float(differences.mean())
    if groups is None:
        p_value = stats.paired_t(differences).p_value
    else:
        p_value = clustered_p_value(stats.clustered_mean(differences, groups))
    alike = alikeness.flip_signs(differences, clusters=groups, monte_carlo=MonteCarlo(draws=999, finest=1e-3)).p_value
    above, below = (
        gaffke_p_value(differences, null=0.0, end=end, side=side, clusters=groups)
        for end, side in ((-1.0, "lower"), (1.0, "upper"))
    )
    by_t = p_value is not None and p_value <= 0.05
    return by_t, alike <= 0.05 and estimate < 0, below <= LEVEL, above <= LEVEL


def print_blocks(runs: int) -> int:
    """Print how often a difference of two standard errors of 10,000 samples is found, with blocks and without."""
    rng, found = np.random.default_rng(0), [0, 0]
    for _ in range(runs):
        differences = rng.normal(0.02, 1, 10_000)
        for k, most in enumerate((draws.MOST_UNITS, differences.size)):
            kept = draws.MOST_UNITS
            draws.MOST_UNITS = most
            found[k] += (
                alikeness.flip_signs(differences, monte_carlo=MonteCarlo(draws=999, finest=1e-3)).p_value <= 0.05
            )
            draws.MOST_UNITS = kept
    print(
        f"power with {draws.MOST_UNITS:,} blocks {found[0] / runs:.3f}, with 10,000 samples {found[1] / runs:.3f}, {runs} runs"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
