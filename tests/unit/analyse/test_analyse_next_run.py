"""An undecided comparison needs more samples than it had, for any claim, any number of groups and any values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_crucible.analyse.next_run import samples_to_decide
from pytest_crucible.measures.means import compare_means, samples_to_prove_mean
from pytest_crucible.measures.row import Difference, Prepared
from pytest_crucible.records import Contrast

ALPHA = 0.05
CLAIMS = [
    {},
    {"margin": 0.02},
    {"margin": 0.1},
    {"alternative": "superior"},
    {"alternative": "superior", "margin": 0.05},
    {"alternative": "equivalent", "margin": 0.05},
    {"relevant": 0.05},
]


def difference_of(kind: str, seed: int, size: int, groups: int | None, effect: float) -> Difference | None:
    rng = np.random.default_rng(seed)
    old = rng.random(size)
    new = np.clip(old + effect + rng.normal(0, 0.1, size) - (rng.random(size) < 0.05), 0, 1)
    if kind == "binary":
        old, new = (old > 0.3).astype(float), (new > 0.3).astype(float)
    clusters = None if groups is None else rng.permutation(np.arange(size) % groups)
    arms = (Prepared(values=values, kind=kind, bounds=(0.0, 1.0), clusters=clusters) for values in (new, old))
    return compare_means(*arms, ALPHA)


def decides(difference: Difference, contrast: Contrast) -> bool:
    """Return whether the bounds, or without a margin the test, already settle the claim."""
    low, high = difference.lower, difference.upper
    margin = contrast.limit
    if margin is None:
        # An improvement is proven by its bound, and missed as by a gate.
        improved = contrast.alternative == "superior" and low is not None and low > 0
        is_gate = contrast.alternative != "superior" or difference.value < 0
        return improved or (is_gate and difference.p_value is not None and difference.p_value <= ALPHA)
    if low is None or high is None:
        return False
    if contrast.alternative == "superior":
        return low > margin or high < margin
    if contrast.alternative == "equivalent":
        return (low > -margin and high < margin) or low > margin or high < -margin
    return low > -margin or high < -margin or (contrast.relevant is not None and difference.p_value <= ALPHA)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["binary", "bounded"]),
    st.integers(0, 10**6),
    st.integers(20, 300),
    st.sampled_from([None, 6, 12, 20]),
    st.sampled_from([-0.2, -0.05, 0.0, 0.03, 0.1]),
    st.sampled_from(CLAIMS),
)
def test_an_undecided_comparison_needs_more_than_it_had(kind, seed, size, groups, effect, claim):
    difference = difference_of(kind, seed, size, groups, effect)
    contrast = Contrast(metric="m", baseline="v1", **claim)
    assume(difference is not None and not decides(difference, contrast))

    needed = samples_to_decide(difference, contrast, alpha=ALPHA, family_size=1)

    assert needed is None or needed > size


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["binary", "bounded"]), st.integers(0, 10**6), st.integers(5, 300), st.floats(0.01, 0.99))
def test_an_unproven_target_needs_more_than_it_had(kind, seed, size, share):
    from pytest_crucible.measures.means import bound_mean

    values = np.random.default_rng(seed).random(size)
    values = (values > 0.3).astype(float) if kind == "binary" else values
    prepared = Prepared(values=values, kind=kind, bounds=(0.0, 1.0))
    reading, _ = bound_mean(prepared, ALPHA)
    limit = reading.lower + share * (reading.upper - reading.lower)

    needed = samples_to_prove_mean(prepared, limit, ALPHA)

    assert needed is None or needed > size


@pytest.mark.parametrize("groups", [5, 12])
def test_few_groups_with_small_differences_do_not_promise_a_pair(groups):
    """A plan by moments said that two samples would decide what 300 in 12 groups had not."""
    difference = Difference(
        value=0.1, interval=None, p_value=0.2, p_exact=None, lower=-0.02, upper=0.2, method="sign flips",
        bounds_method="gaffke", n=300, clusters=groups, deviation=0.01, dof=groups - 1.0, span=1.0,
    )  # fmt: skip

    assert samples_to_decide(difference, Contrast(metric="m", baseline="v1"), alpha=ALPHA, family_size=1) > 300
    margin = Contrast(metric="m", baseline="v1", margin=0.01)
    assert samples_to_decide(difference, margin, alpha=ALPHA, family_size=1) > 300
