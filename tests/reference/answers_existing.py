"""Procedures that have not yet moved to the file of their room."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.records import Interval
from pytest_crucible.stats import (
    augmented_t_bound,
    augmented_t_interval,
    clopper_pearson_interval,
    clustered_interval,
    clustered_mean,
    clustered_p_value,
    count_discordant,
    detectable_mean,
    holm,
    korn_graubard_interval,
    mcnemar_exact,
    mcnemar_mid_p,
    mean_interval,
    paired_t,
    power_paired_proportions,
    quantile_interval,
    samples_for_paired_proportions,
    t_bound,
    tango_interval,
    tango_p_value,
    tango_statistic,
    wilson_interval,
)
from pytest_crucible.stats.observations import difference
from pytest_crucible.stats.planning.power import t_power
from pytest_crucible.stats.ranks.quantiles import quantile_ranks

Case = Mapping[str, Any]
Answer = dict[str, Any]

def numbers(values: list[Any]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def ends(interval: Interval | None) -> Answer:
    return {"ci_low": interval and interval.low, "ci_high": interval and interval.high}


def level(options: Case) -> float:
    return float(options.get("conf_level", 0.95))


def bounds_of_difference(given: Case, options: Case) -> tuple[float, float] | None:
    bounds = given.get("bounds") or options.get("bounds")
    return None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])


def proportion_ci(given: Case, options: Case) -> Answer:
    function = wilson_interval if options["method"] == "wilson" else clopper_pearson_interval
    count, n = given["count"], given["nobs"]
    return {"estimate": count / n if n else None} | ends(function(count, n, level=level(options)))


def paired_proportions_ci(given: Case, options: Case) -> Answer:
    both, gained, lost, neither = (int(count) for count in given["table4"])
    n = both + gained + lost + neither
    interval, p_value = tango_interval(gained, lost, n, level=level(options)), tango_p_value(gained, lost, n)
    return ends(interval) | {
        "estimate": (gained - lost) / n,
        "p_value_score": p_value,
        "ci_excludes_zero": interval.low > 0 or interval.high < 0,
        "p_below_alpha": p_value < 1 - level(options),
    }


def mcnemar(given: Case, options: Case) -> Answer:
    gained, lost = count_discordant(given["x"], given["y"])
    n = len(given["x"])
    p_values = {
        "exact": mcnemar_exact(gained, lost),
        "midp": mcnemar_mid_p(gained, lost),
        "asymptotic": tango_p_value(gained, lost, n),
    }
    return {
        "b": gained,
        "c": lost,
        "n": n,
        "diff": (gained - lost) / n,
        "statistic": tango_statistic(gained, lost, n, 0.0) ** 2,
        "p_value": p_values[options["method"]],
    }


def t_paired(given: Case, options: Case) -> Answer:
    differences = difference(numbers(given["x"]), numbers(given["y"]))
    alternative, estimate = options.get("alternative", "two-sided"), float(differences.mean())
    if alternative != "two-sided":
        return {"estimate": estimate} | one_sided(differences, alternative, level(options))
    try:
        result = paired_t(differences, level=level(options), bounds=bounds_of_difference(given, options))
    except NotEnoughData:
        return {"status": "insufficient_data", "estimate": estimate, "p_value": None, "ci_low": None, "ci_high": None}
    status = "degenerate" if np.ptp(differences) == 0 else "ok"
    return {"status": status, "estimate": result.difference, "p_value": result.p_value} | ends(result.interval)


def t_one_sample(given: Case, options: Case) -> Answer:
    values = np.array(given["x"], dtype=float)
    if options["alternative"] != "two-sided":
        return {"estimate": float(values.mean())} | one_sided(values, options["alternative"], level(options))
    shifted = paired_t(values - options["mu"], level=level(options))
    return {"estimate": float(values.mean()), "p_value": shifted.p_value} | ends(
        mean_interval(values, level=level(options))
    )


def one_sided(values: Any, alternative: str, level: float) -> Answer:
    side = "lower" if alternative == "greater" else "upper"
    bound = t_bound(values, alpha=1 - level, side=side)
    return {"ci_low": bound, "ci_high": math.inf} if side == "lower" else {"ci_low": -math.inf, "ci_high": bound}


def augmented_t(given: Case, options: Case) -> Answer:
    low, high = options["bounds"]
    values = np.array(given["x"], dtype=float)
    if "y" in given:
        values, low, high = difference(given["x"], given["y"]), low - high, high - low
    interval = augmented_t_interval(values, bounds=(low, high), level=level(options))
    bound = augmented_t_bound(values, bounds=(low, high), alpha=1 - level(options), side="lower")
    centre = (interval.low + interval.high) / 2
    return {"estimate": float(values.mean()), "center": centre, "one_sided_low": bound} | ends(interval)


def clustered(values: Any, labels: list[Any], options: Case) -> Answer:
    try:
        mean = clustered_mean(values, labels, fewest=2)
    except NotEnoughData:
        refused = {"se_cr2": None, "ci_low_cr2": None, "ci_high_cr2": None}
        return {"status": "insufficient_clusters", "estimate": float(np.mean(values))} | refused
    interval = clustered_interval(mean, level=level(options))
    assert interval is not None
    return {
        "estimate": mean.estimate,
        "n_clusters": mean.clusters,
        "se_cr2": mean.se,
        "df_satterthwaite": mean.dof,
        "ci_low_cr2": interval.low,
        "ci_high_cr2": interval.high,
        "p_value_cr2": clustered_p_value(mean),
    }


def clustered_paired_diff(given: Case, options: Case) -> Answer:
    return clustered(difference(given["x"], given["y"]), given["clusters"], options)


def clustered_proportion_ci(given: Case, options: Case) -> Answer:
    values = given["x"]
    interval = korn_graubard_interval(values, given["clusters"], level=level(options))
    return {"estimate": float(np.mean(values))} | ends(interval)


def quantile_ci(given: Case, options: Case) -> Answer:
    values, q = given["x"], options["q"]
    low_rank, high_rank = quantile_ranks(len(values), q, tail=(1 - level(options)) / 2)
    interval = quantile_interval(values, q, level=level(options))
    return {"rank_low": low_rank, "rank_high": high_rank} | ends(interval)


def power_mcnemar(given: Case, options: Case) -> Answer:
    gained, lost, alpha = options["p10"], options["p01"], options["alpha"]
    if "n" in options:
        return {"power": power_paired_proportions(options["n"], gained - lost, gained + lost, alpha=alpha)}
    n = samples_for_paired_proportions(gained - lost, gained + lost, alpha=alpha, power=options["power"])
    return {"n_ceiling": n}


def mde_t(given: Case, options: Case) -> Answer:
    return {"d": detectable_mean(options["n"], 1.0, alpha=options["alpha"], power=options["power"])}


def power_t(given: Case, options: Case) -> Answer:
    from scipy.special import stdtrit

    n, alpha = options["n"], options["alpha"]
    return {"power": t_power(n - 1, options["d"] * math.sqrt(n), -float(stdtrit(n - 1, alpha / 2)))}


def noninferiority_paired(given: Case, options: Case) -> Answer:
    differences = difference(given["x"], given["y"])
    bound = t_bound(differences, alpha=options["alpha"], side="lower")
    return {"ci_low": bound, "estimate": float(differences.mean())}


def noninferiority_paired_binary(given: Case, options: Case) -> Answer:
    gained, lost = count_discordant(given["x"], given["y"])
    n, margin = len(given["x"]), options["margin"]
    return {
        "z": tango_statistic(gained, lost, n, -margin),
        "p_value": tango_p_value(gained, lost, n, difference=-margin, alternative="greater"),
        "estimate": (gained - lost) / n,
        "ci_low": tango_interval(gained, lost, n, level=1 - 2 * options["alpha"]).low,
    }


def tost_paired(given: Case, options: Case) -> Answer:
    return ends(mean_interval(difference(given["x"], given["y"]), level=1 - 2 * options["alpha"]))


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "proportion_ci": proportion_ci,
    "paired_proportions_ci": paired_proportions_ci,
    "mcnemar": mcnemar,
    "t_paired": t_paired,
    "t_one_sample": t_one_sample,
    "augmented_t": augmented_t,
    "clustered_mean": lambda given, options: clustered(given["x"], given["clusters"], options),
    "clustered_paired_diff": clustered_paired_diff,
    "clustered_proportion_ci": clustered_proportion_ci,
    "quantile_ci": quantile_ci,
    "p_adjust": lambda given, options: {"p_adj": holm(given["p_values"])},
    "power_mcnemar": power_mcnemar,
    "mde_t": mde_t,
    "power_t": power_t,
    "noninferiority_paired": noninferiority_paired,
    "noninferiority_paired_binary": noninferiority_paired_binary,
    "tost_paired": tost_paired,
}
