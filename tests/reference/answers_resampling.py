"""Resampling and standardised effects: the reference procedures of `stats.resampling` and `stats.effects.standardized`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from answering import Answer, Case, ends, level, numbers

from pytest_crucible.stats.arrays import difference
from pytest_crucible.stats.effects.standardized import (
    cohens_d,
    cohens_dav,
    cohens_dz,
    glass_delta,
    hedges_correction,
    hedges_g,
    hedges_gz,
    pooled_deviation,
)
from pytest_crucible.stats.resampling.exact_distributions import enumerate_distribution
from pytest_crucible.stats.resampling.intervals import (
    basic_interval,
    bca_interval,
    bca_shares,
    bias_correction,
    percentile_interval,
)
from pytest_crucible.stats.resampling.jackknife import jackknife
from pytest_crucible.stats.resampling.max_t import step_down_max_t
from pytest_crucible.stats.resampling.permutation import PermutationTest, permute_two_samples, sign_flip


def _deviation(samples: object, axis: int) -> object:
    return np.std(samples, axis=axis, ddof=1)  # type: ignore[call-overload]


STATISTICS: dict[str, Callable[..., object]] = {"mean": np.mean, "median": np.median, "sd": _deviation}


def jackknife_answer(data: Case, options: Case) -> Answer:
    answer = jackknife(numbers(data["x"]), STATISTICS[options.get("statistic", "mean")])
    return {"estimate": answer.estimate, "bias": answer.bias, "se": answer.se, "acceleration": answer.acceleration}


def bca_full_enumeration(data: Case, options: Case) -> Answer:
    values, statistic = numbers(data["x"]), STATISTICS[options.get("statistic", "mean")]
    law, leaving_one_out = enumerate_distribution(values, statistic), jackknife(values, statistic)
    estimate, acceleration = leaving_one_out.estimate, leaving_one_out.acceleration or 0.0
    correction = bias_correction(law, estimate)
    shares = bca_shares(correction, acceleration, level=level(options)) or (None, None)
    return (
        {
            "estimate": estimate,
            "n_resamples": law.resamples,
            "boot_mean": law.mean,
            "boot_se_pop": law.deviation,
            "z0": correction,
            "acceleration": acceleration,
            "alpha1": shares[0],
            "alpha2": shares[1],
        }
        | ends(bca_interval(law, estimate, acceleration, level=level(options)), prefix="bca_")
        | ends(percentile_interval(law, level=level(options)), prefix="perc_")
        | ends(basic_interval(law, estimate, level=level(options)), prefix="basic_")
    )


def permutation_paired(data: Case, options: Case) -> Answer:
    differences = difference(numbers(data["x"]), numbers(data["y"]))
    return permutation_answer(sign_flip(differences, alternative=options.get("alternative", "two-sided")))


def permutation_two_sample(data: Case, options: Case) -> Answer:
    x, y = numbers(data["x"]), numbers(data["y"])
    return permutation_answer(permute_two_samples(x, y, alternative=options.get("alternative", "two-sided")))


def permutation_answer(answer: PermutationTest) -> Answer:
    return {
        "status": answer.status,
        "statistic": answer.statistic,
        "p_value": answer.p_value,
        "n_permutations": answer.arrangements,
    }


def max_t(data: Case, options: Case) -> Answer:
    answer = step_down_max_t([numbers(row) for row in data["D"]], alternative=options.get("alternative", "two-sided"))
    return {
        "abs_t": [None if t is None else abs(t) for t in answer.statistics],
        "p_raw": list(answer.p_values),
        "p_adj": list(answer.p_adjusted),
    }


def cohens_d_independent(data: Case, options: Case) -> Answer:
    x, y = numbers(data["x"]), numbers(data["y"])
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


def cohens_d_paired(data: Case, options: Case) -> Answer:
    x, y = numbers(data["x"]), numbers(data["y"])
    effect = cohens_dz(x, y, level=level(options))
    return {
        "status": "degenerate" if effect.value is None else "ok",
        "dz": effect.value,
        "hedges_J": hedges_correction(len(x) - 1),
        "gz": hedges_gz(x, y).value,
        "d_av": cohens_dav(x, y).value,
    } | ends(effect.interval)


def glass(data: Case, options: Case) -> Answer:
    effect = glass_delta(numbers(data["x"]), numbers(data["y"]), level=level(options))
    return {"status": "degenerate" if effect.value is None else "ok", "delta": effect.value} | ends(effect.interval)


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "jackknife": jackknife_answer,
    "bca_full_enumeration": bca_full_enumeration,
    "permutation_paired_exact": permutation_paired,
    "permutation_two_sample_exact": permutation_two_sample,
    "maxt_signflip": max_t,
    "cohens_d": cohens_d_independent,
    "cohens_dz": cohens_d_paired,
    "glass_delta": glass,
}
