"""Resampling and standardised effects: the reference procedures of `stats.resampling` and `stats.effects`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from answering import Answer, Case, ends, level, numbers

from pytest_crucible.stats.arrays import difference
from pytest_crucible.stats.effects import (
    cohens_d,
    cohens_dav,
    cohens_dz,
    glass_delta,
    hedges_correction,
    hedges_g,
    pooled_deviation,
)
from pytest_crucible.stats.resampling.permutation import PermutationTest, permute_two_samples, sign_flip


def _deviation(samples: object, axis: int) -> object:
    return np.std(samples, axis=axis, ddof=1)  # type: ignore[call-overload]


STATISTICS: dict[str, Callable[..., object]] = {"mean": np.mean, "median": np.median, "sd": _deviation}


def permutation_paired(given: Case, options: Case) -> Answer:
    differences = difference(numbers(given["x"]), numbers(given["y"]))
    return permuted(sign_flip(differences, alternative=options.get("alternative", "two-sided")))


def permutation_two_sample(given: Case, options: Case) -> Answer:
    x, y = numbers(given["x"]), numbers(given["y"])
    return permuted(permute_two_samples(x, y, alternative=options.get("alternative", "two-sided")))


def permuted(found: PermutationTest) -> Answer:
    return {
        "status": found.status,
        "statistic": found.statistic,
        "p_value": found.p_value,
        "n_permutations": found.arrangements,
    }


def cohens_d_independent(given: Case, options: Case) -> Answer:
    x, y = numbers(given["x"]), numbers(given["y"])
    effect, corrected = cohens_d(x, y, level=level(options)), hedges_g(x, y, level=level(options))
    return (
        {
            "status": "degenerate" if effect.value is None else "ok",
            "d": effect.value,
            "sd_pooled": pooled_deviation(x, y),
            "hedges_J": hedges_correction(len(x) + len(y) - 2),
            "g": corrected.value,
        }
        | ends(effect.interval)
        | ends(corrected.interval, prefix="g_ci_")
    )


def cohens_d_paired(given: Case, options: Case) -> Answer:
    x, y = numbers(given["x"]), numbers(given["y"])
    effect = cohens_dz(x, y, level=level(options))
    return {
        "status": "degenerate" if effect.value is None else "ok",
        "dz": effect.value,
        "hedges_J": hedges_correction(len(x) - 1),
        "d_av": cohens_dav(x, y).value,
    } | ends(effect.interval)


def glass(given: Case, options: Case) -> Answer:
    effect = glass_delta(numbers(given["x"]), numbers(given["y"]), level=level(options))
    return {"status": "degenerate" if effect.value is None else "ok", "delta": effect.value} | ends(effect.interval)


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "permutation_paired_exact": permutation_paired,
    "permutation_two_sample_exact": permutation_two_sample,
    "cohens_d": cohens_d_independent,
    "cohens_dz": cohens_d_paired,
    "glass_delta": glass,
}
