"""Confidence sequences: confseq 0.0.11 by its own names and options, and the asymptotic sequence.

confseq reports betting ends on a grid, one step outside the last mean that it found; ours are roots, moved onto it here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from answering import Answer, Case, numbers

from pytest_crucible.stats.arrays import difference
from pytest_crucible.stats.sequential.asymptotic import asymptotic_interval
from pytest_crucible.stats.sequential.bernoulli import bernoulli_interval
from pytest_crucible.stats.sequential.betting import betting_sequence
from pytest_crucible.stats.sequential.confidence_sequence import ConfidenceSequence
from pytest_crucible.stats.sequential.empirical_bernstein import empirical_bernstein_sequence, hoeffding_sequence
from pytest_crucible.stats.sequential.mixtures import (
    gamma_exponential_boundary,
    mixture_bernstein_sequence,
    mixture_hoeffding_sequence,
    normal_mixture_boundary,
    stitched_boundary,
)


def sequence(values: Sequence[float], bounds: tuple[float, float], options: Case) -> ConfidenceSequence:
    function, shared = options["function"], {"bounds": bounds, "alpha": options.get("alpha", 0.05)}
    if function in ("betting_cs", "hedged_cs"):
        largest = options.get("trunc_scale", 0.5)
        intersect = options.get("running_intersection", function == "hedged_cs")
        return betting_sequence(values, largest_bet=largest, intersect=intersect, **shared)
    shared |= {"intersect": options.get("running_intersection", False)}
    if function == "predmix_empbern_twosided_cs":
        return empirical_bernstein_sequence(values, **shared)
    if function == "predmix_hoeffding_cs":
        return hoeffding_sequence(values, **shared)
    if function == "conjmix_hoeffding_twosided_cs":
        return mixture_hoeffding_sequence(values, best_at=options.get("t_opt", 50), **shared)
    if function == "conjmix_empbern_lower_cs":
        return mixture_bernstein_sequence(values, best_at=options.get("v_opt", 2.5), **shared)
    # the two-sided function halves alpha, and so does the one-sided one that it calls
    assert function == "conjmix_empbern_twosided_cs"
    return mixture_bernstein_sequence(
        values, best_at=options.get("v_opt", 2.5), **(shared | {"alpha": shared["alpha"] / 2})
    )


def at_times(answer: ConfidenceSequence, bounds: tuple[float, float], options: Case) -> Answer:
    at = np.array(options.get("times", [answer.n])) - 1
    lower, upper = answer.lower[at], answer.upper[at]
    if options["function"] in ("betting_cs", "hedged_cs"):
        breaks, low, width = options.get("breaks", 1000), bounds[0], bounds[1] - bounds[0]
        lower = low + width * np.maximum(np.ceil((lower - low) / width * breaks) - 1, 0) / breaks
        upper = low + width * np.minimum(np.floor((upper - low) / width * breaks) + 1, breaks) / breaks
    return {"lower": lower.tolist(), "upper": upper.tolist()}


def confseq(data: Case, options: Case) -> Answer:
    bounds = tuple(options.get("bounds", (0.0, 1.0)))
    return at_times(sequence(numbers(data["x"]), bounds, options), bounds, options)


def confseq_paired(data: Case, options: Case) -> Answer:
    bounds = (-1.0, 1.0)
    differences = difference(numbers(data["x"]), numbers(data["y"]))
    return at_times(sequence(differences.tolist(), bounds, options), bounds, options)


def confseq_boundary(data: Case, options: Case) -> Answer:
    function, alpha, time = options["function"], options.get("alpha", 0.05), data["v"]
    tuned = options.get("alpha_opt", 0.05)
    if function == "poly_stitching_bound":
        bound = stitched_boundary(
            time,
            alpha=alpha,
            starts_at=options["v_min"],
            scale=options.get("c", 0.0),
            power=options.get("s", 1.4),
            ratio=options.get("eta", 2.0),
        )
    elif function == "normal_mixture_bound":
        bound = normal_mixture_boundary(
            time,
            alpha=alpha,
            best_at=options["v_opt"],
            tuned_alpha=tuned,
            one_sided=options.get("is_one_sided", True),
        )
    else:
        assert function == "gamma_exponential_mixture_bound"
        bound = gamma_exponential_boundary(
            time, alpha=alpha, best_at=options["v_opt"], scale=options["c"], tuned_alpha=tuned
        )
    return {"bound": bound.tolist()}


def confseq_bernoulli(data: Case, options: Case) -> Answer:
    interval = bernoulli_interval(
        options["num_successes"],
        options["num_trials"],
        planned=options["t_opt"],
        alpha=options.get("alpha", 0.05),
        tuned_alpha=options.get("alpha_opt", 0.05),
    )
    return {"lower": interval.low, "upper": interval.high}


def asymptotic_cs(data: Case, options: Case) -> Answer:
    summary: Any = data
    if "x" in data:
        values = np.array(numbers(data["x"]))
        summary = {"mean": float(values.mean()), "sd": float(values.std(ddof=1)), "n": values.size}
    look = asymptotic_interval(
        summary["mean"],
        summary["sd"],
        summary["n"],
        planned=options.get("t_opt", 200),
        alpha=options.get("alpha", 0.05),
        null=options.get("null", 0.0),
    )
    assert math.isfinite(look.e_value)
    return {
        "rho": look.rho,
        "halfwidth": look.halfwidth,
        "ci_low": look.interval.low,
        "ci_high": look.interval.high,
        "e_value": look.e_value,
        "p_always_valid": look.p_value,
    }


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "confseq": confseq,
    "confseq_paired": confseq_paired,
    "confseq_boundary": confseq_boundary,
    "confseq_bernoulli": confseq_bernoulli,
    "asymptotic_cs": asymptotic_cs,
}
