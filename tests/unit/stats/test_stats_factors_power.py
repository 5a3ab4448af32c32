"""The power of a design with random factors: against the formulas for one source, and by simulated runs."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.stats import Source, detectable_over_sources, samples_over_sources
from pytest_crucible.stats.factors.sources import half_width
from pytest_crucible.stats.planning.next_sample import detectable_by_error, samples_to_clear

SAMPLES = Source(name="samples", levels=200, dof=199, variance=2e-4)
PROMPTS = Source(name="prompts", levels=5, dof=4, variance=3e-4, floor=5e-5)


@pytest.mark.parametrize("dof", [9, 40, 199])
def test_with_one_source_it_is_the_formula_for_one(dof):
    source = Source(name="samples", levels=dof + 1, dof=dof, variance=0.01)

    assert detectable_over_sources([source]) == pytest.approx(detectable_by_error(0.1, dof), rel=0.005)


def test_with_one_source_of_known_variance_samples_are_those_of_a_t_bound():
    source = Source(name="samples", levels=200, dof=199, variance=0.16 / 200)

    needed = samples_over_sources([source], 0.05, measured=False)

    assert needed == pytest.approx(samples_to_clear((0.05,), 0.4, dof_share=1.0), rel=0.01)


@pytest.mark.parametrize("factors", [[PROMPTS], [PROMPTS, Source(name="rounds", levels=3, dof=2, variance=1e-4)]])
def test_runs_of_this_design_find_the_difference_in_80_percent(factors):
    """The variances are known to be these; each run measures them again."""
    sources, rng, runs = [SAMPLES, *factors], np.random.default_rng(5), 1500
    difference = detectable_over_sources(sources, measured=False)
    true = sum(source.variance - source.floor for source in sources)

    result = 0
    for _ in range(runs):
        observed = [
            Source(
                name=single.name,
                levels=single.levels,
                dof=single.dof,
                variance=single.variance * rng.chisquare(single.dof) / single.dof,
                floor=single.floor,
            )
            for single in sources
        ]
        result += difference + rng.normal(0, true**0.5) > half_width(observed, 0.05)

    assert result / runs == pytest.approx(0.8, abs=0.035)


def test_a_factor_sets_a_limit_that_no_number_of_samples_passes():
    assert samples_over_sources([SAMPLES, PROMPTS], 0.1) > 20
    assert samples_over_sources([SAMPLES, PROMPTS], 0.02) is None


def test_without_a_distance_or_any_noise_there_is_nothing_to_plan():
    still = Source(name="samples", levels=200, dof=199, variance=0.0)

    assert samples_over_sources([SAMPLES, PROMPTS], 0.0) is None
    assert samples_over_sources([still], 0.1) is None
    assert detectable_over_sources([still]) is None
