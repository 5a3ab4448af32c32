"""Agreement of raters, and means corrected by a few human labels."""

from __future__ import annotations

from collections.abc import Callable

from answering import Answer, Case, ends, level, numbers

from pytest_crucible.stats.agreement.coefficients import Agreement
from pytest_crucible.stats.agreement.corrected import ppi_mean
from pytest_crucible.stats.agreement.fleiss import fleiss_kappa, fleiss_kappa_test
from pytest_crucible.stats.agreement.gwet import gwet_ac1
from pytest_crucible.stats.agreement.intraclass import intraclass_correlation
from pytest_crucible.stats.agreement.kappa import cohen_kappa
from pytest_crucible.stats.agreement.krippendorff import krippendorff_alpha


def coefficient(name: str, agreement: Agreement) -> Answer:
    parts = {"p_observed": agreement.observed, "p_expected": agreement.expected, "se": agreement.se}
    return parts | {name: agreement.value, "status": agreement.status} | ends(agreement.interval)


def cohen(data: Case, options: Case) -> Answer:
    weights, levels = options.get("weights", "none"), options.get("levels")
    agreement = cohen_kappa(
        data["rater1"], data["rater2"], weights=weights, levels=levels, level=level(options), transform="none"
    )
    return coefficient("kappa", agreement)


def fleiss(data: Case, options: Case) -> Answer:
    test = fleiss_kappa_test(data["counts"])
    agreement = fleiss_kappa(data["counts"], level=level(options), transform="none")
    return coefficient("kappa", agreement) | {"se_null": test.se, "z": test.statistic, "p_value": test.p_value}


def gwet(data: Case, options: Case) -> Answer:
    ratings = [data["rater1"], data["rater2"]]
    levels = options.get("categories")
    return coefficient("ac1", gwet_ac1(ratings, levels=levels, level=level(options), transform="none"))


def krippendorff(data: Case, options: Case) -> Answer:
    scale = options.get("level", "nominal")
    return coefficient("alpha", krippendorff_alpha(data["ratings"], scale=scale, level=level(options)))


def icc(data: Case, options: Case) -> Answer:
    answer: Answer = {}
    for form in ("1", "2", "3", "1k", "2k", "3k"):
        correlation = intraclass_correlation(data["matrix"], form=form, level=level(options), interval="f")
        answer |= {f"icc{form}": correlation.value} | ends(correlation.interval, prefix=f"icc{form}_ci_")
    return answer


def ppi(data: Case, options: Case) -> Answer:
    mean = ppi_mean(
        numbers(data["y"]),
        numbers(data["yhat"]),
        numbers(data["yhat_unlabeled"]),
        lam=options.get("lam"),
        level=1 - options["alpha"] if "alpha" in options else level(options),
        distribution="normal",
    )
    return {"estimate": mean.estimate, "lam": mean.tuning, "status": mean.status} | ends(mean.interval)


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "cohen_kappa": cohen,
    "fleiss_kappa": fleiss,
    "gwet_ac1": gwet,
    "krippendorff": krippendorff,
    "icc": icc,
    "ppi_mean": ppi,
}
