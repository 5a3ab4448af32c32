"""Planning, families of questions, and posterior answers."""

from __future__ import annotations

from collections.abc import Callable

from answering import Answer, Case, ends, level, numbers

from pytest_crucible.stats.bayes.beta_binomial import beta_binomial, probability_superior
from pytest_crucible.stats.bayes.bootstrap_posterior import bayesian_bootstrap_moments
from pytest_crucible.stats.effects.proportions import cohens_h
from pytest_crucible.stats.multiplicity.adjust import adjust
from pytest_crucible.stats.planning.correlations import (
    detectable_correlation,
    power_correlation,
    samples_for_correlation,
)
from pytest_crucible.stats.planning.many_arms import (
    detectable_anova,
    detectable_chi2,
    power_anova,
    power_chi2,
    samples_for_anova,
    samples_for_chi2,
)
from pytest_crucible.stats.planning.paired_proportions import detectable_mcnemar, power_mcnemar, samples_for_mcnemar
from pytest_crucible.stats.planning.proportions import power_proportions, samples_for_proportions
from pytest_crucible.stats.planning.repeats import power_with_repeats, samples_with_repeats
from pytest_crucible.stats.planning.roots import SampleSize
from pytest_crucible.stats.planning.t_tests import detectable_t, power_t, samples_for_t


def sizes(needed: SampleSize, *, n: str = "n") -> Answer:
    return {n: needed.n, f"{n}_ceiling": needed.ceiling, "power_at_ceiling": needed.power}


def power_options(options: Case) -> dict[str, float]:
    """Return the options besides the effect: alpha, and the desired power."""
    alpha = float(options.get("alpha", 0.05))
    return {"alpha": alpha} if "n" in options or "N" in options else {"alpha": alpha, "power": options["power"]}


def t_test(data: Case, options: Case) -> Answer:
    kind = {
        "design": options.get("type", "two.sample").replace(".", "-"),
        "alternative": options.get("alternative", "two-sided"),
    }
    if "d" not in options:
        alpha, power = options.get("alpha", 0.05), options["power"]
        return {"d": detectable_t(options["n"], alpha=alpha, power=power, **kind)}
    if "n" in options:
        return {"power": power_t(options["n"], options["d"], **power_options(options), **kind)}
    return sizes(samples_for_t(options["d"], **power_options(options), **kind))


def t_test_unequal(data: Case, options: Case) -> Answer:
    power = power_t(
        options["n1"],
        options["d"],
        n_baseline=options["n2"],
        design="two-sample",
        alpha=options.get("alpha", 0.05),
        alternative=options.get("alternative", "two-sided"),
    )
    return {"power": power}


def two_proportions(method: str, *, strict: bool) -> Callable[[Case, Case], Answer]:
    def answer(data: Case, options: Case) -> Answer:
        rates = options["p1"], options["p2"]
        how = {
            "method": method,
            "alternative": options.get("alternative", "two-sided"),
            "strict": options.get("strict", strict),
        }
        if "n" in options:
            table: Answer = {"power": power_proportions(options["n"], *rates, **power_options(options), **how)}
        else:
            table = sizes(samples_for_proportions(*rates, **power_options(options), **how))
        return table | {"h": cohens_h(*rates)}

    return answer


def anova(data: Case, options: Case) -> Answer:
    if "f" not in options:
        alpha, power = options.get("alpha", 0.05), options["power"]
        return {"f": detectable_anova(options["n"], options["k"], alpha=alpha, power=power)}
    if "n" in options:
        return {"power": power_anova(options["n"], options["k"], options["f"], **power_options(options))}
    return sizes(samples_for_anova(options["k"], options["f"], **power_options(options)))


def chi2(data: Case, options: Case) -> Answer:
    if "w" not in options:
        alpha, power = options.get("alpha", 0.05), options["power"]
        return {"w": detectable_chi2(options["N"], options["df"], alpha=alpha, power=power)}
    if "N" in options:
        return {"power": power_chi2(options["N"], options["w"], options["df"], **power_options(options))}
    return sizes(samples_for_chi2(options["w"], options["df"], **power_options(options)), n="N")


def correlation(data: Case, options: Case) -> Answer:
    side = {"alternative": options.get("alternative", "two-sided")}
    if "r" not in options:
        alpha, power = options.get("alpha", 0.05), options["power"]
        return {"r": detectable_correlation(options["n"], alpha=alpha, power=power, **side)}
    if "n" in options:
        return {"power": power_correlation(options["n"], options["r"], **power_options(options), **side)}
    return sizes(samples_for_correlation(options["r"], **power_options(options), **side))


def mcnemar(data: Case, options: Case) -> Answer:
    method = {"midp": "mid-p"}.get(options.get("method", "connor"), options.get("method", "connor"))
    if "p10" not in options:
        alpha, power = options.get("alpha", 0.05), options["power"]
        return {"delta": detectable_mcnemar(options["n"], options["psi"], method=method, alpha=alpha, power=power)}
    rates = options["p10"], options["p01"]
    if "n" in options:
        return {"power": power_mcnemar(options["n"], *rates, method=method, **power_options(options))}
    return sizes(samples_for_mcnemar(*rates, method=method, **power_options(options)))


def miller(data: Case, options: Case) -> Answer:
    variances = {
        "between": options["omega2"],
        "within": (options.get("sigma2_a", 0.0), options.get("sigma2_b", 0.0)),
        "repeats": (options.get("k_a", 1), options.get("k_b", 1)),
    }
    if "n" in options:
        return {"power": power_with_repeats(options["n"], options["delta"], **variances, **power_options(options))}
    return sizes(samples_with_repeats(options["delta"], **variances, **power_options(options)))


def prior(options: Case) -> tuple[float, float]:
    return float(options.get("a", 1.0)), float(options.get("b", 1.0))


def one_rate(data: Case, options: Case) -> Answer:
    posterior = beta_binomial(data["count"], data["nobs"], prior=prior(options), level=level(options))
    return {"mean": posterior.mean} | ends(posterior.interval)


def superiority(data: Case, options: Case) -> Answer:
    counts = data["x1"], data["n1"], data["x2"], data["n2"]
    return {"prob": probability_superior(*counts, prior=prior(options))}


def bootstrap_moments(data: Case, options: Case) -> Answer:
    moments = bayesian_bootstrap_moments(numbers(data["x"]))
    return {"mean": moments.mean, "var": moments.variance}


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "p_adjust": lambda data, options: {"p_adj": adjust(data["p_values"], options.get("method", "holm"))},
    "power_t": t_test,
    "mde_t": t_test,
    "power_t2n": t_test_unequal,
    "power_two_proportions_h": two_proportions("arcsine", strict=True),
    "power_prop_test": two_proportions("pooled", strict=False),
    "power_anova": anova,
    "power_chi2": chi2,
    "power_corr": correlation,
    "power_mcnemar": mcnemar,
    "miller_sample_size": miller,
    "beta_binomial": one_rate,
    "beta_prob_superiority": superiority,
    "bayesian_bootstrap_moments": bootstrap_moments,
}
