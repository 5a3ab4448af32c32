"""Rank tests of two arms, dominance, and correlations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from answering import Answer, Case, ends, level, numbers
from pytest_crucible.stats.counts.correlations import pearson
from pytest_crucible.stats.ranks.association import kendall, spearman
from pytest_crucible.stats.ranks.brunner import brunner_munzel
from pytest_crucible.stats.ranks.signed import rank_biserial_paired, sign_test, wilcoxon_signed_rank
from pytest_crucible.stats.ranks.two_samples import mann_whitney

from pytest_crucible.stats.ranks.superiority import cles, cliffs_delta
from pytest_crucible.stats.results import Significance

MIRRORED = {"two-sided": "two-sided", "greater": "less", "less": "greater"}


def arms(given: Case) -> tuple[list[float], list[float]]:
    return numbers(given["x"]), numbers(given["y"])


def effects(result: Significance) -> dict[str, float | None]:
    return {effect.name: effect.value for effect in result.effects}


def answer_mann_whitney(given: Case, options: Case) -> Answer:
    result = mann_whitney(
        *arms(given),
        method=options.get("method", "auto"),
        correction=options.get("correction", True),
        alternative=options.get("alternative", "two-sided"),
        level=level(options),
    )
    return {
        "status": result.status,
        "U": result.statistic,
        "z": result.z,
        "p_value": result.p_value,
        "hl_estimate": result.estimate,
        "cles": effects(result)["cles"],
        "rank_biserial": effects(result)["rank biserial"],
    } | ends(result.interval)


def answer_brunner_munzel(given: Case, options: Case) -> Answer:
    """The file measures P(x < y), so the arms change places."""
    candidate, baseline = arms(given)
    alternative = MIRRORED[options.get("alternative", "two-sided")]
    result = brunner_munzel(baseline, candidate, alternative=alternative, level=level(options))
    return {
        "status": result.status,
        "statistic": result.statistic,
        "df": result.dof[0] if result.dof else None,
        "p_value": result.p_value,
        "p_hat": result.estimate,
        "se": result.se,
    } | ends(result.interval)


def answer_wilcoxon(given: Case, options: Case) -> Answer:
    result = wilcoxon_signed_rank(
        *arms(given),
        zero_method=options.get("zero_method", "pratt"),
        method=options.get("method", "auto"),
        correction=options.get("correction", True),
        alternative=options.get("alternative", "two-sided"),
        level=level(options),
    )
    return {
        "status": result.status,
        "p_value": result.p_value,
        "z": result.z,
        "pseudomedian": result.estimate,
        "w_plus": result.w_plus,
        "w_minus": result.w_minus,
        "n_nonzero": result.n[0] - result.zeros,
        "n_zero": result.zeros,
        "rank_biserial": effects(result)["rank biserial"],
    } | ends(result.interval)


def answer_sign_test(given: Case, options: Case) -> Answer:
    result = sign_test(*arms(given), alternative=options.get("alternative", "two-sided"), level=level(options))
    return {
        "status": result.status,
        "n_pos": result.positive,
        "n_nonzero": result.positive + result.negative,
        "p_value": result.p_value,
    }


def answer_cliffs_delta(given: Case, options: Case) -> Answer:
    asymmetric = cliffs_delta(*arms(given), level=level(options), interval="feng-cliff")
    fisher = cliffs_delta(*arms(given), level=level(options), interval="fisher")
    fisher_ends = {f"{key}_fisher": end for key, end in ends(fisher.interval).items()}
    return {"delta": asymmetric.value, "se": asymmetric.se} | ends(asymmetric.interval) | fisher_ends


def answer_cles(given: Case, options: Case) -> Answer:
    share, delta = cles(*arms(given), level=level(options)), cliffs_delta(*arms(given), level=level(options))
    return (
        {"cles": share.value, "cliffs_delta": delta.value}
        | ends(share.interval)
        | ends(delta.interval, prefix="delta_ci_")
    )


def answer_rank_biserial(given: Case, options: Case) -> Answer:
    effect = rank_biserial_paired(*arms(given), level=level(options))
    return {"r": effect.value} | ends(effect.interval)


def answer_pearson(given: Case, options: Case) -> Answer:
    result = pearson(*arms(given), alternative=options.get("alternative", "two-sided"), level=level(options))
    return {
        "status": result.status,
        "r": result.estimate,
        "statistic": result.statistic,
        "df": result.dof[0] if result.dof else None,
        "p_value": result.p_value,
    } | ends(result.interval)


def answer_spearman(given: Case, options: Case) -> Answer:
    result = spearman(*arms(given), method="asymptotic", level=level(options))
    exact = spearman(*arms(given), method="exact") if len(given["x"]) < 10 else replace(result, p_value=None)
    bonett_wright = {f"{key}_bw": end for key, end in ends(result.interval).items()}
    return {"rho": result.estimate, "p_value_t": result.p_value, "p_value_exact": exact.p_value} | bonett_wright


def answer_kendall(given: Case, options: Case) -> Answer:
    result = kendall(*arms(given), level=level(options))
    fieller = {f"{key}_fieller": end for key, end in ends(result.interval).items()}
    return {"tau_b": result.estimate, "p_value": result.p_value} | fieller


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "mann_whitney": answer_mann_whitney,
    "brunner_munzel": answer_brunner_munzel,
    "wilcoxon_signed_rank": answer_wilcoxon,
    "sign_test": answer_sign_test,
    "cliffs_delta": answer_cliffs_delta,
    "cles_ci_newcombe": answer_cles,
    "rank_biserial_paired": answer_rank_biserial,
    "pearson": answer_pearson,
    "spearman": answer_spearman,
    "kendall": answer_kendall,
}
