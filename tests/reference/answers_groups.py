"""Several arms, and the shape of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from answering import Answer, Case, level, numbers
from pytest_crucible.stats.groups.anova import anova_oneway as anova
from pytest_crucible.stats.groups.anova import sums_of_squares
from pytest_crucible.stats.groups.many_to_one import dunnett as dunnett_contrasts
from pytest_crucible.stats.groups.pairwise import ContrastResult
from pytest_crucible.stats.groups.posthoc import games_howell as games_howell_pairs
from pytest_crucible.stats.groups.posthoc import tukey_hsd as tukey_pairs
from pytest_crucible.stats.groups.repeated import rm_anova as repeated
from pytest_crucible.stats.groups.same_samples import friedman as friedman_test
from pytest_crucible.stats.groups.same_samples import iman_davenport, mean_ranks, nemenyi
from pytest_crucible.stats.groups.shapes import ks_normal, ks_two_sample, shapiro_wilk
from pytest_crucible.stats.groups.variances import bartlett as bartlett_test
from pytest_crucible.stats.groups.variances import levene as levene_test
from pytest_crucible.stats.groups.welch import welch_anova as welch
from pytest_crucible.stats.ranks.many_arms import dunn as dunn_pairs
from pytest_crucible.stats.ranks.many_arms import kruskal_wallis as kruskal

from pytest_crucible.stats.results import Significance


def groups(given: Case) -> list[list[float]]:
    return [numbers(group) for group in given["groups"]]


def matrix(given: Case) -> list[list[float]]:
    return [numbers(row) for row in given["matrix"]]


def effect(found: Significance, name: str) -> float | None:
    return next((one.value for one in found.effects if one.name == name), None)


def f_test(found: Significance) -> Answer:
    df1, df2 = found.dof or (None, None)
    return {"F": found.statistic, "df1": df1, "df2": df2, "p_value": found.p_value, "status": found.status}


def anova_oneway(given: Case, options: Case) -> Answer:
    found, squares = anova(groups(given), level=level(options)), sums_of_squares(groups(given))
    interval = found.effects[0].interval
    return f_test(found) | {
        "ss_between": squares.between,
        "ss_within": squares.within,
        "eta2": effect(found, "eta squared"),
        "omega2": effect(found, "omega squared"),
        "epsilon2": effect(found, "epsilon squared"),
        "cohens_f": effect(found, "cohens f"),
        "eta2_ci_low": interval and interval.low,
        "eta2_ci_high": interval and interval.high,
    }


def welch_anova(given: Case, options: Case) -> Answer:
    return f_test(welch(groups(given)))


def levene(given: Case, options: Case) -> Answer:
    return f_test(levene_test(groups(given), centre=options.get("center", "median")))


def bartlett(given: Case, options: Case) -> Answer:
    found = bartlett_test(groups(given))
    return {"statistic": found.statistic, "df": found.dof[0], "p_value": found.p_value, "status": found.status}


def kruskal_wallis(given: Case, options: Case) -> Answer:
    found = kruskal(groups(given))
    return {
        "H": found.statistic,
        "df": found.dof[0],
        "p_value": found.p_value,
        "epsilon2": effect(found, "epsilon squared"),
        "eta2_h": effect(found, "eta squared h"),
        "status": found.status,
    }


def friedman(given: Case, options: Case) -> Answer:
    found, f_form = friedman_test(matrix(given)), iman_davenport(matrix(given))
    return {
        "Q": found.statistic,
        "df": found.dof[0],
        "p_value": found.p_value,
        "kendalls_w": effect(found, "kendalls w"),
        "F_iman_davenport": f_form.statistic,
        "df1": f_form.dof[0],
        "df2": f_form.dof[1],
        "p_iman_davenport": f_form.p_value,
        "status": found.status,
    }


def rm_anova(given: Case, options: Case) -> Answer:
    found = repeated(matrix(given))
    return {
        "F": found.statistic,
        "df1": found.dof[0],
        "df2": found.dof[1],
        "p_value": found.p_value,
        "gg_eps": found.greenhouse_geisser,
        "p_gg": found.p_greenhouse_geisser,
        "hf_eps": found.huynh_feldt,
        "p_hf": found.p_huynh_feldt,
        "ss_cond": found.ss_conditions,
        "ss_subject": found.ss_subjects,
        "ss_error": found.ss_error,
        "eta2_partial": found.eta_squared_partial,
        "eta2_generalized": found.eta_squared_generalised,
        "status": found.status,
    }


def pairwise(contrasts: Sequence[ContrastResult]) -> Answer:
    """Every column that some post-hoc case asks for."""
    return {
        "pairs": [[one.first, one.second] for one in contrasts],
        "diff": [one.difference for one in contrasts],
        "t": [one.statistic for one in contrasts],
        "df": [one.dof for one in contrasts],
        "p_adj": [one.p_adjusted for one in contrasts],
        "ci_low": [one.interval and one.interval.low for one in contrasts],
        "ci_high": [one.interval and one.interval.high for one in contrasts],
    }


def tukey_hsd(given: Case, options: Case) -> Answer:
    return pairwise(tukey_pairs(groups(given), level=level(options)))


def games_howell(given: Case, options: Case) -> Answer:
    return pairwise(games_howell_pairs(groups(given), level=level(options)))


def dunnett(given: Case, options: Case) -> Answer:
    contrasts = dunnett_contrasts(groups(given), level=level(options))
    return pairwise(contrasts) | {"df": contrasts[0].dof}


def dunn(given: Case, options: Case) -> Answer:
    contrasts = dunn_pairs(groups(given), adjustment=options.get("p_adjust", "holm"))
    return pairwise(contrasts) | {
        "z": [one.statistic for one in contrasts],
        "p_value": [one.p_value for one in contrasts],
    }


def nemenyi_friedman(given: Case, options: Case) -> Answer:
    contrasts = nemenyi(matrix(given), level=level(options))
    return pairwise(contrasts) | {
        "mean_ranks": mean_ranks(matrix(given)),
        "p_value": [one.p_adjusted for one in contrasts],
    }


def shapiro(given: Case, options: Case) -> Answer:
    found = shapiro_wilk(numbers(given["x"]))
    return {"W": found.statistic, "p_value": found.p_value, "status": found.status}


def distance(found: Significance) -> Answer:
    return {"D": found.statistic, "p_value": found.p_value, "status": found.status}


def ks_1samp_norm(given: Case, options: Case) -> Answer:
    return distance(
        ks_normal(numbers(given["x"]), mean=float(options.get("mean", 0)), deviation=float(options.get("sd", 1)))
    )


def ks_2samp(given: Case, options: Case) -> Answer:
    return distance(ks_two_sample(numbers(given["x"]), numbers(given["y"]), method=options.get("method", "auto")))


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "anova_oneway": anova_oneway,
    "welch_anova": welch_anova,
    "levene": levene,
    "bartlett": bartlett,
    "kruskal_wallis": kruskal_wallis,
    "friedman": friedman,
    "rm_anova": rm_anova,
    "tukey_hsd": tukey_hsd,
    "games_howell": games_howell,
    "dunnett": dunnett,
    "dunn": dunn,
    "nemenyi_friedman": nemenyi_friedman,
    "shapiro_wilk": shapiro,
    "ks_1samp_norm": ks_1samp_norm,
    "ks_2samp": ks_2samp,
}
