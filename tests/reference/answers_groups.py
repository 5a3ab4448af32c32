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


def groups(data: Case) -> list[list[float]]:
    return [numbers(group) for group in data["groups"]]


def matrix(data: Case) -> list[list[float]]:
    return [numbers(row) for row in data["matrix"]]


def effect(answer: Significance, name: str) -> float | None:
    return next((effect.value for effect in answer.effects if effect.name == name), None)


def f_test(answer: Significance) -> Answer:
    df1, df2 = answer.dof or (None, None)
    return {"F": answer.statistic, "df1": df1, "df2": df2, "p_value": answer.p_value, "status": answer.status}


def anova_oneway(data: Case, options: Case) -> Answer:
    answer, squares = anova(groups(data), level=level(options)), sums_of_squares(groups(data))
    interval = answer.effects[0].interval
    return f_test(answer) | {
        "ss_between": squares.between,
        "ss_within": squares.within,
        "eta2": effect(answer, "eta squared"),
        "omega2": effect(answer, "omega squared"),
        "epsilon2": effect(answer, "epsilon squared"),
        "cohens_f": effect(answer, "cohens f"),
        "eta2_ci_low": interval and interval.low,
        "eta2_ci_high": interval and interval.high,
    }


def welch_anova(data: Case, options: Case) -> Answer:
    return f_test(welch(groups(data)))


def levene(data: Case, options: Case) -> Answer:
    return f_test(levene_test(groups(data), centre=options.get("center", "median")))


def bartlett(data: Case, options: Case) -> Answer:
    answer = bartlett_test(groups(data))
    return {"statistic": answer.statistic, "df": answer.dof[0], "p_value": answer.p_value, "status": answer.status}


def kruskal_wallis(data: Case, options: Case) -> Answer:
    answer = kruskal(groups(data))
    return {
        "H": answer.statistic,
        "df": answer.dof[0],
        "p_value": answer.p_value,
        "epsilon2": effect(answer, "epsilon squared"),
        "eta2_h": effect(answer, "eta squared h"),
        "status": answer.status,
    }


def friedman(data: Case, options: Case) -> Answer:
    answer, f_form = friedman_test(matrix(data)), iman_davenport(matrix(data))
    return {
        "Q": answer.statistic,
        "df": answer.dof[0],
        "p_value": answer.p_value,
        "kendalls_w": effect(answer, "kendalls w"),
        "F_iman_davenport": f_form.statistic,
        "df1": f_form.dof[0],
        "df2": f_form.dof[1],
        "p_iman_davenport": f_form.p_value,
        "status": answer.status,
    }


def rm_anova(data: Case, options: Case) -> Answer:
    answer = repeated(matrix(data))
    return {
        "F": answer.statistic,
        "df1": answer.dof[0],
        "df2": answer.dof[1],
        "p_value": answer.p_value,
        "gg_eps": answer.greenhouse_geisser,
        "p_gg": answer.p_greenhouse_geisser,
        "hf_eps": answer.huynh_feldt,
        "p_hf": answer.p_huynh_feldt,
        "ss_cond": answer.ss_conditions,
        "ss_subject": answer.ss_subjects,
        "ss_error": answer.ss_error,
        "eta2_partial": answer.eta_squared_partial,
        "eta2_generalized": answer.eta_squared_generalised,
        "status": answer.status,
    }


def pairwise(contrasts: Sequence[ContrastResult]) -> Answer:
    """Every column that some post-hoc case asks for."""
    return {
        "pairs": [[contrast.first, contrast.second] for contrast in contrasts],
        "diff": [contrast.difference for contrast in contrasts],
        "t": [contrast.statistic for contrast in contrasts],
        "df": [contrast.dof for contrast in contrasts],
        "p_adj": [contrast.p_adjusted for contrast in contrasts],
        "ci_low": [contrast.interval and contrast.interval.low for contrast in contrasts],
        "ci_high": [contrast.interval and contrast.interval.high for contrast in contrasts],
    }


def tukey_hsd(data: Case, options: Case) -> Answer:
    return pairwise(tukey_pairs(groups(data), level=level(options)))


def games_howell(data: Case, options: Case) -> Answer:
    return pairwise(games_howell_pairs(groups(data), level=level(options)))


def dunnett(data: Case, options: Case) -> Answer:
    contrasts = dunnett_contrasts(groups(data), level=level(options))
    return pairwise(contrasts) | {"df": contrasts[0].dof}


def dunn(data: Case, options: Case) -> Answer:
    contrasts = dunn_pairs(groups(data), adjustment=options.get("p_adjust", "holm"))
    return pairwise(contrasts) | {
        "z": [contrast.statistic for contrast in contrasts],
        "p_value": [contrast.p_value for contrast in contrasts],
    }


def nemenyi_friedman(data: Case, options: Case) -> Answer:
    contrasts = nemenyi(matrix(data), level=level(options))
    return pairwise(contrasts) | {
        "mean_ranks": mean_ranks(matrix(data)),
        "p_value": [contrast.p_adjusted for contrast in contrasts],
    }


def shapiro(data: Case, options: Case) -> Answer:
    answer = shapiro_wilk(numbers(data["x"]))
    return {"W": answer.statistic, "p_value": answer.p_value, "status": answer.status}


def distance(answer: Significance) -> Answer:
    return {"D": answer.statistic, "p_value": answer.p_value, "status": answer.status}


def ks_1samp_norm(data: Case, options: Case) -> Answer:
    return distance(
        ks_normal(numbers(data["x"]), mean=float(options.get("mean", 0)), deviation=float(options.get("sd", 1)))
    )


def ks_2samp(data: Case, options: Case) -> Answer:
    return distance(ks_two_sample(numbers(data["x"]), numbers(data["y"]), method=options.get("method", "auto")))


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
