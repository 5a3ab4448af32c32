"""Proportions, contingency tables, rare events and quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from answering import Answer, Case, ends, level
from pytest_crucible.stats.counts.poisson import poisson_rate_interval, poisson_rate_ratio, poisson_ratio_interval
from pytest_crucible.stats.proportions.binomial import binomial_test
from pytest_crucible.stats.proportions.cochran import cochran_q
from pytest_crucible.stats.proportions.contingency import chi2_goodness_of_fit, chi2_independence
from pytest_crucible.stats.proportions.fisher import conditional_odds_ratio, fisher_exact
from pytest_crucible.stats.proportions.paired_intervals import (
    agresti_min_interval,
    bonett_price_interval,
    paired_newcombe_interval,
    paired_wald_interval,
)
from pytest_crucible.stats.proportions.ratios import odds_ratio, risk_ratio
from scipy.special import ndtri

from pytest_crucible.stats.effects.proportions import cohens_h
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.proportions.clustered import (
    clustered_logit_interval,
    clustered_proportion_se,
    korn_graubard_interval,
)
from pytest_crucible.stats.proportions.one import (
    agresti_coull_interval,
    clopper_pearson_interval,
    jeffreys_interval,
    wald_interval,
    wilson_interval,
)
from pytest_crucible.stats.proportions.paired import (
    count_discordant,
    mcnemar_asymptotic,
    mcnemar_exact,
    mcnemar_mid_p,
    tango_interval,
    tango_p_value,
)
from pytest_crucible.stats.proportions.score import score_interval
from pytest_crucible.stats.proportions.two import (
    agresti_caffo_interval,
    newcombe_interval,
    pooled_z_p_value,
    wald_difference_interval,
)
from pytest_crucible.stats.ranks.quantiles import (
    quantile_coverage,
    quantile_estimate,
    quantile_interval,
    quantile_ranks,
)
from pytest_crucible.stats.results import Effect, Significance

UNCLIPPED = {"agresti_coull", "agresti_caffo"}


def unclipped(interval: Interval) -> Answer:
    return {"ci_low_unclipped": interval.low, "ci_high_unclipped": interval.high}


def tested(test: Significance, statistic: str) -> Answer:
    return {"status": test.status, statistic: test.statistic, "p_value": test.p_value, "df": (*test.dof, None)[0]}


def values(effects: tuple[Effect, ...]) -> dict[str, float | None]:
    return {effect.name: effect.value for effect in effects}


def proportion_ci(given: Case, options: Case) -> Answer:
    count, n, method = given["count"], given["nobs"], options.get("method", "wilson")
    at = level(options)
    intervals: dict[str, Callable[[], Interval]] = {
        "wilson": lambda: wilson_interval(count, n, level=at),
        "wilson_cc": lambda: wilson_interval(count, n, level=at, correction=True),
        "clopper_pearson": lambda: clopper_pearson_interval(count, n, level=at),
        "agresti_coull": lambda: agresti_coull_interval(count, n, level=at),
        "jeffreys": lambda: jeffreys_interval(count, n, level=at),
        "wald": lambda: wald_interval(count, n, level=at),
    }
    answer = {"status": "ok" if n else "insufficient_data", "estimate": count / n if n else None}
    answer |= ends(intervals[method]())
    if method == "agresti_coull" and n:
        answer |= unclipped(agresti_coull_interval(count, n, level=at, clip=False))
    return answer


def clustered_proportion_ci(given: Case, options: Case) -> Answer:
    labels, at = given["clusters"], level(options)
    interval = korn_graubard_interval if options.get("method", "beta") == "beta" else clustered_logit_interval
    answer: Answer = {"estimate": float(np.mean(given["x"])), "n_clusters": len(set(labels))}
    try:
        answer |= {"status": "ok", "se": clustered_proportion_se(given["x"], labels)}
        return answer | ends(interval(given["x"], labels, level=at))
    except NotEnoughData:
        return answer | {"status": "insufficient_clusters", "se": None, "ci_low": None, "ci_high": None}


def binomial(given: Case, options: Case) -> Answer:
    alternative = options.get("alternative", "two-sided")
    test = binomial_test(given["count"], given["nobs"], options.get("p0", 0.5), alternative=alternative)
    return tested(test, "statistic") | {"estimate": test.estimate}


def two_proportions_ci(given: Case, options: Case) -> Answer:
    arms, at, method = (given["x1"], given["n1"], given["x2"], given["n2"]), level(options), options["method"]
    intervals: dict[str, Callable[[], Interval]] = {
        "newcombe": lambda: newcombe_interval(*arms, level=at),
        "agresti_caffo": lambda: agresti_caffo_interval(*arms, level=at),
        "miettinen_nurminen": lambda: score_interval(*arms, level=at, skewness=False),
        "wald": lambda: wald_difference_interval(*arms, level=at),
    }
    answer: Answer = {"estimate": given["x1"] / given["n1"] - given["x2"] / given["n2"]}
    answer |= ends(intervals[method]()) | {"p_value_pooled_z": pooled_z_p_value(*arms)}
    return answer | (unclipped(agresti_caffo_interval(*arms, level=at, clip=False)) if method in UNCLIPPED else {})


def paired_proportions_ci(given: Case, options: Case) -> Answer:
    both, gained, lost, neither = (int(count) for count in given["table4"])
    n, at = both + gained + lost + neither, level(options)
    table = (both, gained, lost, neither)
    intervals: dict[str, Callable[[], Interval]] = {
        "tango": lambda: tango_interval(gained, lost, n, level=at),
        "newcombe": lambda: paired_newcombe_interval(*table, level=at),
        "newcombe_nocc": lambda: paired_newcombe_interval(*table, level=at, correction=False),
        "bonett_price": lambda: bonett_price_interval(gained, lost, n, level=at, clip=False),
        "agresti_min": lambda: agresti_min_interval(gained, lost, n, level=at, clip=False),
        "wald": lambda: paired_wald_interval(gained, lost, n, level=at),
    }
    interval, p_value = intervals[options.get("method", "tango")](), tango_p_value(gained, lost, n)
    return ends(interval) | {
        "a": both,
        "b": gained,
        "c": lost,
        "d": neither,
        "estimate": (gained - lost) / n,
        "p_value_score": p_value,
        "ci_excludes_zero": interval.low > 0 or interval.high < 0,
        "p_below_alpha": p_value < 1 - at,
    }


def mcnemar(given: Case, options: Case) -> Answer:
    gained, lost = count_discordant(given["x"], given["y"])
    method, n = options.get("method", "exact"), len(given["x"])
    chi2 = mcnemar_asymptotic(gained, lost, correction=method == "asymptotic_cc")
    p_values = {"exact": mcnemar_exact(gained, lost), "midp": mcnemar_mid_p(gained, lost)}
    return {
        "b": gained,
        "c": lost,
        "n": n,
        "diff": (gained - lost) / n,
        "statistic": chi2.statistic,
        "p_value": p_values.get(method, chi2.p_value),
    }


def chi2(given: Case, options: Case) -> Answer:
    test = chi2_independence(given["table"], correction=options.get("correction", False))
    sizes = values(test.effects)
    return tested(test, "chi2") | {
        "cramers_v": sizes.get("cramers v"),
        "cramers_v_bc": sizes.get("cramers v, bias-corrected"),
        "cohens_w": sizes.get("cohens w"),
    }


def goodness_of_fit(given: Case, options: Case) -> Answer:
    test = chi2_goodness_of_fit(given["observed"], given.get("expected_probs"))
    return tested(test, "chi2") | {"cohens_w": values(test.effects).get("cohens w")}


def fisher(given: Case, options: Case) -> Answer:
    table, alternative = given["table"], options.get("alternative", "two-sided")
    (a, b), (c, d) = table
    test = fisher_exact(table, alternative=alternative)
    odds = conditional_odds_ratio(table, level=level(options), alternative=alternative)
    return ends(odds.interval) | {
        "status": test.status,
        "p_value": test.p_value,
        "odds_ratio_conditional": odds.value,
        "odds_ratio_sample": odds_ratio(a, a + b, c, c + d).value,
    }


def sample_odds_ratio(given: Case, options: Case) -> Answer:
    (a, b), (c, d) = given["table"]
    effect = odds_ratio(a, a + b, c, c + d, level=level(options), haldane=options.get("haldane", False))
    answer: Answer = {"odds_ratio": effect.value} | ends(effect.interval)
    if effect.value is None or effect.interval is None:
        return answer | {"log_or": None, "se_log": None}
    # The interval is symmetric on the log scale, so its half-width is z standard errors.
    half = math.log(effect.interval.high / effect.interval.low) / 2
    return answer | {"log_or": math.log(effect.value), "se_log": half / float(ndtri(0.5 + level(options) / 2))}


def katz(given: Case, options: Case) -> Answer:
    (a, b), (c, d) = given["table"]
    effect = risk_ratio(a, a + b, c, c + d, level=level(options))
    return {"risk_ratio": effect.value} | ends(effect.interval)


def rate_ratio(given: Case, options: Case) -> Answer:
    arms, alternative = (given["x1"], given["t1"], given["x2"], given["t2"]), options.get("alternative", "two-sided")
    test = poisson_rate_ratio(*arms, alternative=alternative)
    interval = poisson_ratio_interval(*arms, alternative=alternative, level=level(options))
    return {"status": test.status, "ratio": test.estimate, "p_value": test.p_value} | ends(interval)


def rate(given: Case, options: Case) -> Answer:
    return {"rate": given["x"] / given["t"]} | ends(poisson_rate_interval(given["x"], given["t"], level=level(options)))


def quantile_ci(given: Case, options: Case) -> Answer:
    sample, q, at = given["x"], options["q"], level(options)
    low_rank, high_rank = quantile_ranks(len(sample), q, tail=(1 - at) / 2)
    return ends(quantile_interval(sample, q, level=at)) | {
        "estimate": quantile_estimate(sample, q),
        "rank_low": low_rank,
        "rank_high": high_rank,
        "coverage": quantile_coverage(len(sample), q, level=at),
    }


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "proportion_ci": proportion_ci,
    "clustered_proportion_ci": clustered_proportion_ci,
    "binomial_test": binomial,
    "two_proportions_ci": two_proportions_ci,
    "paired_proportions_ci": paired_proportions_ci,
    "mcnemar": mcnemar,
    "cochran_q": lambda given, options: tested(cochran_q(given["matrix"]), "Q"),
    "chi2_independence": chi2,
    "chi2_gof": goodness_of_fit,
    "fisher_exact": fisher,
    "odds_ratio": sample_odds_ratio,
    "risk_ratio": katz,
    "cohens_h": lambda given, options: {"h": cohens_h(given["p1"], given["p2"])},
    "poisson_rate_ratio": rate_ratio,
    "poisson_rate_ci": rate,
    "quantile_ci": quantile_ci,
}
