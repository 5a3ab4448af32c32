"""Planning, and families of questions."""

from __future__ import annotations

from collections.abc import Callable

from answering import Answer, Case

from pytest_crucible.stats.multiplicity import adjust
from pytest_crucible.stats.planning.designs import power_anova, samples_for_anova
from pytest_crucible.stats.planning.paired_proportions import power_mcnemar, samples_for_mcnemar
from pytest_crucible.stats.planning.roots import SampleSize
from pytest_crucible.stats.planning.t_tests import detectable_t, power_t, samples_for_t


def sizes(needed: SampleSize) -> Answer:
    return {"n": needed.n, "n_ceiling": needed.ceiling, "power_at_ceiling": needed.power}


def levels(options: Case) -> dict[str, float]:
    """Return alpha, and the power unless n is an input."""
    alpha = float(options.get("alpha", 0.05))
    return {"alpha": alpha} if "n" in options else {"alpha": alpha, "power": options["power"]}


def t_test(inputs: Case, options: Case) -> Answer:
    kind = {
        "design": options.get("type", "two.sample").replace(".", "-"),
        "alternative": options.get("alternative", "two-sided"),
    }
    if "d" not in options:
        alpha, power = options.get("alpha", 0.05), options["power"]
        return {"d": detectable_t(options["n"], alpha=alpha, power=power, **kind)}
    if "n" in options:
        return {"power": power_t(options["n"], options["d"], **levels(options), **kind)}
    return sizes(samples_for_t(options["d"], **levels(options), **kind))


def t_test_unequal(inputs: Case, options: Case) -> Answer:
    power = power_t(
        options["n1"],
        options["d"],
        n_baseline=options["n2"],
        design="two-sample",
        alpha=options.get("alpha", 0.05),
        alternative=options.get("alternative", "two-sided"),
    )
    return {"power": power}


def anova(inputs: Case, options: Case) -> Answer:
    if "n" in options:
        return {"power": power_anova(options["n"], options["k"], options["f"], **levels(options))}
    return sizes(samples_for_anova(options["k"], options["f"], **levels(options)))


def mcnemar(inputs: Case, options: Case) -> Answer:
    method = {"midp": "mid-p"}.get(options.get("method", "connor"), options.get("method", "connor"))
    rates = options["p10"], options["p01"]
    if "n" in options:
        return {"power": power_mcnemar(options["n"], *rates, method=method, **levels(options))}
    return sizes(samples_for_mcnemar(*rates, method=method, **levels(options)))


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "p_adjust": lambda inputs, options: {"p_adj": adjust(inputs["p_values"], options.get("method", "holm"))},
    "power_t": t_test,
    "mde_t": t_test,
    "power_t2n": t_test_unequal,
    "power_anova": anova,
    "power_mcnemar": mcnemar,
}
