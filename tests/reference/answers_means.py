"""Means of independent, paired, clustered and repeated values; equivalence, non-inferiority and ratios."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from answering import Answer, Case, ends, level, numbers

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_arms, clustered_interval, clustered_mean, clustered_p_value
from pytest_crucible.stats.means.ratios import geometric_mean_ratio_paired, geometric_mean_ratio_welch
from pytest_crucible.stats.means.repeats import (
    RepeatedSuccess,
    cluster_effect,
    pass_at_k,
    pass_hat_k,
    variance_components,
)
from pytest_crucible.stats.means.t_tests import one_sample_t, paired_differences, paired_t, student_t, welch_t
from pytest_crucible.stats.results import Significance

NOTHING = {"statistic": None, "df": None, "se": None, "p_value": None, "ci_low": None, "ci_high": None}


def read_options(options: Case) -> dict[str, Any]:
    return {"alternative": options.get("alternative", "two-sided"), "level": level(options)}


def dof(result: Significance) -> float | None:
    return result.dof[0] if result.dof else None


def significance(result: Significance) -> Answer:
    return ends(result.interval) | {
        "status": result.status,
        "estimate": result.estimate,
        "statistic": result.statistic,
        "df": dof(result),
        "se": result.se,
        "p_value": result.p_value,
        "n": result.n[0],
    }


def or_too_few(test: Callable[[], Significance], estimate: Callable[[], float]) -> Answer:
    try:
        return significance(test())
    except NotEnoughData:
        return NOTHING | {"status": "insufficient_data", "estimate": float(estimate())}


def t_one_sample(inputs: Case, options: Case) -> Answer:
    values, bounds = numbers(inputs["x"]), inputs.get("bounds") or options.get("bounds")
    test = lambda: one_sample_t(values, mu=options.get("mu", 0.0), bounds=bounds, **read_options(options))  # noqa: E731
    return or_too_few(test, lambda: np.mean(values))


def t_paired(inputs: Case, options: Case) -> Answer:
    x, y = numbers(inputs["x"]), numbers(inputs["y"])
    bounds = inputs.get("bounds") or options.get("bounds")
    test = lambda: paired_t(x, y, bounds=bounds, **read_options(options))  # noqa: E731
    return or_too_few(test, lambda: paired_differences(x, y).mean())


def two_arms(test: Callable[..., Significance]) -> Callable[[Case, Case], Answer]:
    def answer(inputs: Case, options: Case) -> Answer:
        x, y = numbers(inputs["x"]), numbers(inputs["y"])
        return or_too_few(lambda: test(x, y, **read_options(options)), lambda: np.mean(x) - np.mean(y))

    return answer


def answer_clusters(values: Any, labels: list[Any], options: Case) -> Answer:
    try:
        means = {kind: clustered_mean(values, labels, variance=kind, fewest=2) for kind in KINDS}
    except NotEnoughData:
        empty = {f"{key}_{kind}": None for kind in KINDS for key in ("se", "ci_low", "ci_high", "p_value")}
        return empty | {"estimate": float(np.mean(values))}
    effect = cluster_effect(values, labels)
    answer: Answer = {
        "estimate": means["cr2"].estimate,
        "n_clusters": effect.clusters,
        "se_naive": effect.se_naive,
        "icc_anova": effect.icc,
        "n0": effect.size,
        "df_satterthwaite": means["cr2"].dof,
    }
    for kind, mean in means.items():
        interval = clustered_interval(mean, level=level(options))
        answer |= {f"se_{kind}": mean.se, f"p_value_{kind}": clustered_p_value(mean)}
        answer |= {f"{end}_{kind}": value for end, value in ends(interval).items()}
    return answer


KINDS = ("cr0", "cr1", "cr2", "cr3")


def clustered_two_sample(inputs: Case, options: Case) -> Answer:
    arms = numbers(inputs["x"]), numbers(inputs["y"]), inputs["clusters_x"], inputs["clusters_y"]
    tests = {kind: clustered_arms(*arms, variance=kind, fewest=2, **read_options(options)) for kind in KINDS}
    return {
        "estimate": tests["cr2"].estimate,
        "df_satterthwaite": dof(tests["cr2"]),
        **{f"se_{kind}": test.se for kind, test in tests.items()},
        **{f"p_value_{kind}": test.p_value for kind, test in tests.items()},
        **{f"{end}_{kind}": value for kind, test in tests.items() for end, value in ends(test.interval).items()},
    }


def components(inputs: Case, options: Case) -> Answer:
    parts = variance_components(inputs["groups"])
    return {
        "mean": parts.mean,
        "var_between": parts.between,
        "var_within": parts.within,
        "se_mean": parts.se,
        "icc1": parts.icc,
        "var_mean_of_one": None if parts.se_single is None else parts.se_single**2,
    }


def answer_repeats(function: Callable[..., RepeatedSuccess]) -> Callable[[Case, Case], Answer]:
    def answer(inputs: Case, options: Case) -> Answer:
        result = function(inputs["n"], inputs["c"], options["k"], level=level(options))
        return ends(result.interval) | {"per_question": list(result.per_sample), "mean": result.mean}

    return answer


def ratio(test: Callable[..., Significance]) -> Callable[[Case, Case], Answer]:
    def answer(inputs: Case, options: Case) -> Answer:
        result = significance(test(numbers(inputs["x"]), numbers(inputs["y"]), **read_options(options)))
        return result | {"ratio": result["estimate"]}

    return answer


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "t_one_sample": t_one_sample,
    "t_paired": t_paired,
    "t_welch": two_arms(welch_t),
    "t_student": two_arms(student_t),
    "clustered_mean": lambda inputs, options: answer_clusters(numbers(inputs["x"]), inputs["clusters"], options),
    "clustered_paired_diff": lambda inputs, options: answer_clusters(
        paired_differences(numbers(inputs["x"]), numbers(inputs["y"])), inputs["clusters"], options
    ),
    "clustered_two_sample": clustered_two_sample,
    "variance_components": components,
    "pass_at_k": answer_repeats(pass_at_k),
    "pass_hat_k": answer_repeats(pass_hat_k),
    "geometric_mean_ratio_paired": ratio(geometric_mean_ratio_paired),
    "geometric_mean_ratio_welch": ratio(geometric_mean_ratio_welch),
}
