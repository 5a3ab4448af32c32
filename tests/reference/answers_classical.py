"""Textbook tests: thin calls of scipy."""

from __future__ import annotations

from collections.abc import Callable

from answering import Answer, Case, ends, level, numbers

from pytest_crucible import stats
from pytest_crucible.stats.results import Significance


def arms(inputs: Case) -> tuple[list[float], list[float]]:
    return numbers(inputs["x"]), numbers(inputs["y"])


def groups(inputs: Case) -> list[list[float]]:
    return [numbers(group) for group in inputs["groups"]]


def effects(result: Significance) -> dict[str, float | None]:
    return {effect.name: effect.value for effect in result.effects}


def f_test(result: Significance) -> Answer:
    df1, df2 = result.dof
    return {"F": result.statistic, "df1": df1, "df2": df2, "p_value": result.p_value}


def mann_whitney(inputs: Case, options: Case) -> Answer:
    result = stats.mann_whitney(*arms(inputs), alternative=options.get("alternative", "two-sided"))
    return {"U": result.statistic, "p_value": result.p_value, "cles": effects(result)["cles"]}


def wilcoxon(inputs: Case, options: Case) -> Answer:
    result = stats.wilcoxon_signed_rank(*arms(inputs), alternative=options.get("alternative", "two-sided"))
    return {"p_value": result.p_value, "w_plus": result.statistic}


def anova_oneway(inputs: Case, options: Case) -> Answer:
    result = stats.anova_oneway(groups(inputs))
    names = {"eta2": "eta squared", "omega2": "omega squared", "epsilon2": "epsilon squared"}
    return f_test(result) | {key: effects(result).get(name) for key, name in names.items()}


def kruskal_wallis(inputs: Case, options: Case) -> Answer:
    result = stats.kruskal_wallis(groups(inputs))
    sizes = {"epsilon2": effects(result).get("epsilon squared"), "eta2_h": effects(result).get("eta squared h")}
    return {"H": result.statistic, "df": result.dof[0], "p_value": result.p_value} | sizes


def levene(inputs: Case, options: Case) -> Answer:
    return f_test(stats.levene(groups(inputs), centre=options.get("center", "median")))


def shapiro(inputs: Case, options: Case) -> Answer:
    result = stats.shapiro_wilk(numbers(inputs["x"]))
    return {"W": result.statistic, "p_value": result.p_value}


def chi2_independence(inputs: Case, options: Case) -> Answer:
    result = stats.chi2_independence(inputs["table"], correction=options.get("correction", False))
    sizes = {"cramers_v": effects(result)["cramers v"], "cohens_w": effects(result)["cohens w"]}
    return {"chi2": result.statistic, "df": result.dof[0], "p_value": result.p_value} | sizes


def chi2_goodness_of_fit(inputs: Case, options: Case) -> Answer:
    result = stats.chi2_goodness_of_fit(inputs["observed"], inputs.get("expected_probs"))
    size = effects(result).get("cohens w")
    return {"chi2": result.statistic, "df": result.dof[0], "p_value": result.p_value, "cohens_w": size}


def pearson(inputs: Case, options: Case) -> Answer:
    alternative = options.get("alternative", "two-sided")
    result = stats.pearson(*arms(inputs), alternative=alternative, level=level(options))
    dof = result.dof[0] if result.dof else None
    answer = {"r": result.estimate, "statistic": result.statistic, "df": dof, "p_value": result.p_value}
    return answer | ends(result.interval)


def spearman(inputs: Case, options: Case) -> Answer:
    result = stats.spearman(*arms(inputs))
    return {"rho": result.estimate, "p_value_t": result.p_value}


def kendall(inputs: Case, options: Case) -> Answer:
    result = stats.kendall(*arms(inputs))
    return {"tau_b": result.estimate, "p_value": result.p_value}


def cles(inputs: Case, options: Case) -> Answer:
    share, delta = (method(*arms(inputs), level=level(options)) for method in (stats.cles, stats.cliffs_delta))
    answer = {"cles": share.value, "cliffs_delta": delta.value} | ends(share.interval)
    return answer | ends(delta.interval, prefix="delta_ci_")


def cliffs_delta(inputs: Case, options: Case) -> Answer:
    return {"delta": stats.cliffs_delta(*arms(inputs), level=level(options)).value}


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "mann_whitney": mann_whitney,
    "wilcoxon_signed_rank": wilcoxon,
    "anova_oneway": anova_oneway,
    "kruskal_wallis": kruskal_wallis,
    "levene": levene,
    "shapiro_wilk": shapiro,
    "chi2_independence": chi2_independence,
    "chi2_gof": chi2_goodness_of_fit,
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
    "cliffs_delta": cliffs_delta,
    "cles_ci_newcombe": cles,
}
