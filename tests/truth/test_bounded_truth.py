"""Guaranteed bounds of means: error rates at the truth, at several levels, and power beside Gaffke's bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from pytest_crucible.stats.means.gaffke import gaffke_p_value
from pytest_crucible.stats.sequential.paced_bets import betting_p_value
from tests.run_sizes import choose_runs
from tests.truth.bounded_evals import GROUPS, PAIRS, SHAPES

pytestmark = pytest.mark.slow

RUNS = choose_runs(1000)
LEVELS = (0.05, 0.025, 0.005)
SIDES = ("lower", "upper")
BROKEN = "1 and 20, all large ones lost"
"""Its small samples have no large group, so that the assumption of the bounds of groups is wrong."""


def most_errors(runs: int, level: float) -> int:
    """Return a number of errors that is exceeded in one of 100,000 simulations whose rate is the level."""
    return int(binom.isf(1e-5, runs, level))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("n", [20, 50, 100, 300, 1000])
@pytest.mark.parametrize("name", SHAPES)
def test_no_level_is_exceeded_at_the_true_mean(name, n, side):
    shape = SHAPES[name]
    drawn = shape.draw(np.random.default_rng([30, n]), (RUNS, n))
    p_values = np.array([betting_p_value(x, null=shape.mean, bounds=shape.bounds, side=side) for x in drawn])

    for level in LEVELS:
        assert int((p_values <= level).sum()) <= most_errors(RUNS, level)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("count", [10, 20, 50, 200])
@pytest.mark.parametrize("name", [name for name in GROUPS if name != BROKEN])
def test_groups_keep_the_level_of_the_mean_over_values(name, count, side):
    """Equal sizes, very unequal ones, effects that go with size, and large groups that are lost whole."""
    groups, rng, runs = GROUPS[name], np.random.default_rng([31, count]), RUNS // 2
    p_values = []
    for _ in range(runs):
        values, labels = groups.draw(rng, count)
        p_values.append(betting_p_value(values, null=groups.mean, bounds=PAIRS, side=side, clusters=labels))

    for level in LEVELS:
        assert int(np.less_equal(p_values, level).sum()) <= most_errors(runs, level)


def test_groups_larger_than_all_that_were_drawn_break_the_bound():
    """Few groups break the bound: in .9^10 = 35 % of runs no large group is drawn. With 50 it is .5 %, and the bound holds."""
    groups, rng, runs = GROUPS[BROKEN], np.random.default_rng(32), RUNS // 2
    errors = 0
    for _ in range(runs):
        values, labels = groups.draw(rng, 50)
        errors += betting_p_value(values, null=groups.mean, bounds=PAIRS, side="lower", clusters=labels) <= 0.05

    assert errors <= most_errors(runs, 0.05)


@pytest.mark.parametrize(
    ("spread", "n", "least"), [(".1", 100, 0.92), (".2", 100, 0.55), (".2", 200, 0.9), (".3", 200, 0.63)]
)
def test_the_power_at_a_margin_is_that_of_gaffkes_bound(spread, n, least):
    """The bets with a constant stake, before these, had .74, .48, .88 and .57."""
    drawn = SHAPES[f"normal, sd {spread}"].draw(np.random.default_rng([33, n]), (RUNS, n))
    ours = np.mean([betting_p_value(x, null=-0.05, bounds=PAIRS, side="lower") <= 0.05 for x in drawn])
    gaffke = np.mean([gaffke_p_value(x, null=-0.05, end=-1.0, side="lower") <= 0.05 for x in drawn])

    assert ours >= least
    assert ours >= gaffke - 0.03
