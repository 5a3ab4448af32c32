"""Error rates of data drift and of the order test, by simulation."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import at_most, show_share
from tiny_base import write_tiny_base

from pytest_crucible.backends.local import load_local, open_engine
from pytest_crucible.features.contamination.memorisation import run_order_test
from pytest_crucible.stats import holm
from pytest_crucible.stats.data_drift import compare_categories, compare_numbers, compare_vectors, decide_margin

pytestmark = pytest.mark.slow
ALPHA = 0.05


def fields(draw, n, shift=0.0):
    """Fifteen fields of n rows: numbers without and with ties, categories of equal, skewed and rare shares, and a text."""
    numbers = [
        draw.normal(shift, 1, n), draw.exponential(1 + shift, n), draw.standard_t(2, n) + shift, draw.uniform(0, 1, n),
        draw.integers(0, 5, n), draw.poisson(0.3, n), np.where(draw.random(n) < 0.9, 0, draw.exponential(1, n)),
    ]  # fmt: skip
    shares = [np.ones(k) / k for k in (2, 5, 20)]
    shares += [1 / np.arange(1, k + 1) / (1 / np.arange(1, k + 1)).sum() for k in (5, 20, 40)]
    shares.append(np.array([0.98, 0.01, 0.01]))
    categories = [draw.multinomial(n, share) for share in shares]
    topics = draw.dirichlet(np.ones(30), size=min(n, 200))
    return numbers, categories, topics / np.linalg.norm(topics, axis=1)[:, None]


def categories_p(old, new, seed):
    # A rare category that neither sample has: there is nothing to test.
    return compare_categories(old, new, seed=seed, draws=499).p_value if np.count_nonzero(old + new) > 1 else 1.0


@pytest.mark.parametrize(("n", "runs"), [(50, 400), (500, 400), (5000, 120)])
def test_data_without_drift_rarely_show_any(n, runs):
    draw, runs = np.random.default_rng(n), choose_runs(runs)
    count, by_test = 0, np.zeros(15)
    for run in range(runs):
        old, new = fields(draw, n), fields(draw, n)
        p_values = [compare_numbers(*pair).p_value for pair in zip(old[0], new[0], strict=True)]
        p_values += [categories_p(*pair, seed=run) for pair in zip(old[1], new[1], strict=True)]
        vectors = np.concatenate([old[2], new[2]])
        p_values.append(compare_vectors(vectors, len(old[2]), seed=run, draws=499).p_value)
        by_test += np.array(p_values) <= ALPHA
        count += min(holm(p_values)) <= ALPHA

    assert at_most(show_share(f"any of 15 fields, n = {n}", count, runs), runs, ALPHA)
    # Each test by itself, also at small counts and with ties.
    assert all(at_most(int(hits), runs, ALPHA) for hits in by_test), by_test / runs


@pytest.mark.parametrize("n", [50, 1000])
def test_margins_are_rarely_called_wrong(n):
    """The true distance of the shares is the margin itself: neither side of it may be proven often."""
    draw, runs = np.random.default_rng(n), choose_runs(800)
    old, new = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])
    states = [
        decide_margin(
            compare_categories(draw.multinomial(n, old), draw.multinomial(n, new)), 0.1, alpha=ALPHA, family_size=1
        )
        for _ in range(runs)
    ]

    assert at_most(show_share(f"within, n = {n}", states.count("met"), runs), runs, ALPHA)
    assert at_most(show_share(f"beyond, n = {n}", states.count("missed"), runs), runs, ALPHA)


def test_the_order_of_unseen_texts_is_rarely_proven(tmp_path):
    backend = load_local(open_engine(write_tiny_base(tmp_path)), None, name="base")
    draw, runs = np.random.default_rng(5), choose_runs(400)
    words = np.array(["sum", "two", "three", "answer", "five", "one", "is", "the", "what"])

    async def p_values():
        count = []
        for run in range(runs):
            texts = [" ".join(draw.choice(words, 2)) for _ in range(6)]
            count.append((await run_order_test(backend, texts, orders=19, seed=run)).p_value)
        return np.array(count)

    p = asyncio.run(p_values())
    assert at_most(show_share("order test, p <= 0.05", int((p <= ALPHA).sum()), runs), runs, ALPHA)
    # Uniform on 1/20, 2/20, ..., 1, but for ties of equal texts: quarters hold a quarter each.
    quarters = np.histogram(p, bins=[0, 0.2501, 0.5001, 0.7501, 1.01])[0] / runs
    assert np.abs(quarters - 0.25).max() < 4 * math.sqrt(0.25 * 0.75 / runs), quarters
