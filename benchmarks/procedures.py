"""What the statistics are timed on: data of n samples, one call of every closed form, and whole comparisons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pytest_crucible import stats
from pytest_crucible.stats.means.clustered import clustered_arms
from pytest_crucible.stats.means.differences import melded_bound
from pytest_crucible.stats.means.ratios import geometric_mean_ratio_paired
from pytest_crucible.stats.proportions.one import korn_graubard_bound

UNIT = (0.0, 1.0)
MEMBERS = 32

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Data:
    """Two arms of n samples, in passages of five, and what else the procedures want."""

    n: int

    @cached_property
    def scores(self) -> tuple[Array, Array]:
        """Candidate and baseline, between 0 and 1."""
        rng = np.random.default_rng(1)
        difficulty = rng.normal(size=self.n)
        first, second = (1 / (1 + np.exp(difficulty + rng.normal(size=self.n))) for _ in range(2))
        return first, second

    @cached_property
    def bits(self) -> tuple[Array, Array]:
        first, second = ((scores > 0.3).astype(float) for scores in self.scores)
        return first, second

    @cached_property
    def counts(self) -> tuple[int, int, int, int]:
        """Successes and samples of both arms."""
        first, second = self.bits
        return int(first.sum()), self.n, int(second.sum()), self.n

    @cached_property
    def discordant(self) -> tuple[int, int]:
        first, second = self.bits
        return int((first > second).sum()), int((first < second).sum())

    @cached_property
    def passages(self) -> npt.NDArray[np.intp]:
        return np.arange(self.n) // 5

    @cached_property
    def arms(self) -> list[Array]:
        """Three of them."""
        return [*self.scores, np.random.default_rng(2).beta(2, 1, self.n)]

    @cached_property
    def members(self) -> Array:
        """n samples x 32 members of a sweep, 0 and 1, right in 50 to 70 %."""
        chances = np.random.default_rng(4).random((self.n, MEMBERS))
        return (chances < np.linspace(0.5, 0.7, MEMBERS)).astype(float)

    @cached_property
    def levels(self) -> tuple[Array, Array]:
        first, second = (np.round(4 * scores) + 1 for scores in self.scores)
        return first, second

    @cached_property
    def repeats(self) -> Array:
        """n samples x 5 of 0 and 1."""
        rng = np.random.default_rng(3)
        return (rng.random((self.n, 5)) < self.scores[0][:, None]).astype(float)


Call = Callable[[Data], object]

CLOSED_FORMS: dict[str, Call] = {
    # means
    "paired_t": lambda x: stats.paired_t(*x.scores),
    "welch_t": lambda x: stats.welch_t(*x.scores),
    "student_t": lambda x: stats.student_t(*x.scores),
    "one_sample_t": lambda x: stats.one_sample_t(x.scores[0]),
    "gaffke_bound": lambda x: stats.gaffke_bound(x.scores[0], end=0.0, alpha=0.05, side="lower"),
    "melded_bound": lambda x: melded_bound(*x.scores, bounds=UNIT, alpha=0.05, side="lower"),
    "clustered_arms": lambda x: clustered_arms(*x.scores, x.passages, x.passages + x.n),
    "gaffke_bound, clustered": lambda x: stats.gaffke_bound(
        x.scores[0], end=0.0, alpha=0.05, side="lower", clusters=x.passages
    ),
    "cluster_effect": lambda x: stats.cluster_effect(x.scores[0], x.passages),
    "variance_components": lambda x: stats.variance_components(x.repeats),
    "pass_at_k": lambda x: stats.pass_at_k(np.full(x.n, 5), x.repeats.sum(axis=1), 3),
    # proportions
    "wilson_interval": lambda x: stats.wilson_interval(*x.counts[:2]),
    "clopper_pearson_bound": lambda x: stats.clopper_pearson_bound(*x.counts[:2], alpha=0.05, side="lower"),
    "korn_graubard_bound": lambda x: korn_graubard_bound(x.bits[0], x.passages, alpha=0.05, side="lower"),
    "tango_interval": lambda x: stats.tango_interval(*x.discordant, x.n),
    "tango_p_value": lambda x: stats.tango_p_value(*x.discordant, x.n),
    "mcnemar_exact": lambda x: stats.mcnemar_exact(*x.discordant),
    "chi2_independence": lambda x: stats.chi2_independence(_table(x)),
    # ranks
    "mann_whitney": lambda x: stats.mann_whitney(*x.scores),
    "wilcoxon_signed_rank": lambda x: stats.wilcoxon_signed_rank(*x.scores),
    "cliffs_delta": lambda x: stats.cliffs_delta(*x.scores),
    "kruskal_wallis": lambda x: stats.kruskal_wallis(x.arms),
    "spearman": lambda x: stats.spearman(*x.scores),
    "kendall": lambda x: stats.kendall(*x.scores),
    "quantile_interval": lambda x: stats.quantile_interval(x.scores[0], 0.95),
    # several arms
    "anova_oneway": lambda x: stats.anova_oneway(x.arms),
    "levene": lambda x: stats.levene(x.arms),
    "shapiro_wilk": lambda x: stats.shapiro_wilk(x.scores[0]),
    # sizes of effect, counts
    "cohens_dz": lambda x: stats.cohens_dz(*x.scores),
    "hedges_g": lambda x: stats.hedges_g(*x.scores),
    "pearson": lambda x: stats.pearson(*x.scores),
    "ratio_of_totals": lambda x: stats.ratio_of_totals(*x.scores),
    "geometric_mean_ratio_paired": lambda x: geometric_mean_ratio_paired(*x.scores),
    # planning, families, judges
    "power_t": lambda x: stats.power_t(x.n, 0.1),
    "samples_for_t": lambda x: stats.samples_for_t(0.1),
    "adjust": lambda x: stats.adjust(x.scores[0].tolist()),
    "cohen_kappa": lambda x: stats.cohen_kappa(*x.levels),
    "ppi_mean": lambda x: stats.ppi_mean(x.bits[0][:100], x.scores[0][:100], x.scores[0][100:]),
}
"""Of every closed form one call, by the name of the function."""


COMPARISONS: dict[str, Call] = {
    "compare, yes or no": lambda x: stats.compare(*x.bits),
    "compare, scores": lambda x: stats.compare(*x.scores, bounds=UNIT),
    "compare, scores of passages": lambda x: stats.compare(*x.scores, bounds=UNIT, clusters=x.passages),
    "compare, levels": lambda x: stats.compare(*x.levels, kind="ordinal", bounds=(1, 5)),
    "compare, latency": lambda x: stats.compare(*x.scores, kind="positive", estimand="ratio"),
    "compare, two arms": lambda x: stats.compare(*x.scores, False, bounds=UNIT),
    "compare, two arms in passages": lambda x: stats.compare(*x.scores, False, bounds=UNIT, clusters=x.passages),
    "compare, scores, margin": lambda x: stats.compare(*x.scores, bounds=UNIT, margin=0.05),
    "estimate, scores": lambda x: stats.estimate(x.scores[0], bounds=UNIT),
}
"""Whole records, with sizes of effect and all they have."""


def _table(x: Data) -> list[list[int]]:
    first, n, second, _ = x.counts
    return [[first, n - first], [second, n - second]]
