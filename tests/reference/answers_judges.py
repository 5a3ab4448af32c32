"""Agreement of raters, and means corrected by a few human labels."""

from __future__ import annotations

from collections.abc import Callable

from answering import Answer, Case, ends, level, numbers

from pytest_crucible.stats.agreement.corrected import ppi_mean
from pytest_crucible.stats.agreement.kappa import Agreement, cohen_kappa


def coefficient(name: str, agreement: Agreement) -> Answer:
    parts = {"p_observed": agreement.observed, "p_expected": agreement.expected, "se": agreement.se}
    return parts | {name: agreement.value, "status": agreement.status} | ends(agreement.interval)


def cohen(inputs: Case, options: Case) -> Answer:
    weights, levels = options.get("weights", "none"), options.get("levels")
    agreement = cohen_kappa(
        inputs["rater1"], inputs["rater2"], weights=weights, levels=levels, level=level(options), transform="none"
    )
    return coefficient("kappa", agreement)


def ppi(inputs: Case, options: Case) -> Answer:
    mean = ppi_mean(
        numbers(inputs["y"]),
        numbers(inputs["yhat"]),
        numbers(inputs["yhat_unlabeled"]),
        lam=options.get("lam"),
        level=1 - options["alpha"] if "alpha" in options else level(options),
        distribution="normal",
    )
    return {"estimate": mean.estimate, "lam": mean.tuning, "status": mean.status} | ends(mean.interval)


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "cohen_kappa": cohen,
    "ppi_mean": ppi,
}
