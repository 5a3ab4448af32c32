"""Proportions, contingency tables, rare events and quantiles."""

from __future__ import annotations

from collections.abc import Callable

from answering import Answer, Case, ends, level

from pytest_crucible.stats.effects import cohens_h
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.proportions.one import (
    clopper_pearson_interval,
    wilson_interval,
)
from pytest_crucible.stats.proportions.paired import (
    count_discordant,
    mcnemar_exact,
    tango_interval,
    tango_p_value,
)
from pytest_crucible.stats.proportions.score import score_interval
from pytest_crucible.stats.ranks.quantiles import (
    quantile_estimate,
    quantile_interval,
    quantile_ranks,
)


def proportion_ci(inputs: Case, options: Case) -> Answer:
    count, n, method = inputs["count"], inputs["nobs"], options.get("method", "wilson")
    at = level(options)
    intervals: dict[str, Callable[[], Interval]] = {
        "wilson": lambda: wilson_interval(count, n, level=at),
        "wilson_cc": lambda: wilson_interval(count, n, level=at, correction=True),
        "clopper_pearson": lambda: clopper_pearson_interval(count, n, level=at),
    }
    answer = {"status": "ok" if n else "insufficient_data", "estimate": count / n if n else None}
    return answer | ends(intervals[method]())


def two_proportions_ci(inputs: Case, options: Case) -> Answer:
    arms, at, method = (inputs["x1"], inputs["n1"], inputs["x2"], inputs["n2"]), level(options), options["method"]
    intervals: dict[str, Callable[[], Interval]] = {
        "miettinen_nurminen": lambda: score_interval(*arms, level=at, skewness=False),
    }
    answer: Answer = {"estimate": inputs["x1"] / inputs["n1"] - inputs["x2"] / inputs["n2"]}
    return answer | ends(intervals[method]())


def paired_proportions_ci(inputs: Case, options: Case) -> Answer:
    both, gained, lost, neither = (int(count) for count in inputs["table4"])
    n, at = both + gained + lost + neither, level(options)
    intervals: dict[str, Callable[[], Interval]] = {
        "tango": lambda: tango_interval(gained, lost, n, level=at),
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


def mcnemar(inputs: Case, options: Case) -> Answer:
    gained, lost = count_discordant(inputs["x"], inputs["y"])
    n = len(inputs["x"])
    return {
        "b": gained,
        "c": lost,
        "n": n,
        "diff": (gained - lost) / n,
        "p_value": mcnemar_exact(gained, lost),
    }


def quantile_ci(inputs: Case, options: Case) -> Answer:
    sample, q, at = inputs["x"], options["q"], level(options)
    low_rank, high_rank = quantile_ranks(len(sample), q, tail=(1 - at) / 2)
    return ends(quantile_interval(sample, q, level=at)) | {
        "estimate": quantile_estimate(sample, q),
        "rank_low": low_rank,
        "rank_high": high_rank,
    }


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "proportion_ci": proportion_ci,
    "two_proportions_ci": two_proportions_ci,
    "paired_proportions_ci": paired_proportions_ci,
    "mcnemar": mcnemar,
    "cohens_h": lambda inputs, options: {"h": cohens_h(inputs["p1"], inputs["p2"])},
    "quantile_ci": quantile_ci,
}
