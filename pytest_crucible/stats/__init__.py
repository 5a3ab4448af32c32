"""The statistics: plain functions from numbers to numbers, which read no files and print nothing.

`choose` holds the table that says which method answers which question, and the four functions that the rest of the
program calls; the other modules are one method or family each. Names are looked up on first use, so that opening this
package opens neither numpy nor scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_crucible.stats.answers import Bound as Bound
    from pytest_crucible.stats.answers import Bounds as Bounds
    from pytest_crucible.stats.answers import Compared as Compared
    from pytest_crucible.stats.answers import Estimated as Estimated
    from pytest_crucible.stats.choose import TABLE as TABLE
    from pytest_crucible.stats.choose import compare_paired as compare_paired
    from pytest_crucible.stats.choose import difference_bounds as difference_bounds
    from pytest_crucible.stats.choose import estimate_mean as estimate_mean
    from pytest_crucible.stats.choose import mean_bound as mean_bound
    from pytest_crucible.stats.families.adjust import holm as holm
    from pytest_crucible.stats.means.clustered import ClusteredMean as ClusteredMean
    from pytest_crucible.stats.means.clustered import augmented_clustered_bound as augmented_clustered_bound
    from pytest_crucible.stats.means.clustered import clustered_bound as clustered_bound
    from pytest_crucible.stats.means.clustered import clustered_interval as clustered_interval
    from pytest_crucible.stats.means.clustered import clustered_mean as clustered_mean
    from pytest_crucible.stats.means.clustered import clustered_p_value as clustered_p_value
    from pytest_crucible.stats.means.point_mass import point_mass_interval as point_mass_interval
    from pytest_crucible.stats.means.point_mass import point_mass_p_value as point_mass_p_value
    from pytest_crucible.stats.means.student import PairedMean as PairedMean
    from pytest_crucible.stats.means.student import augmented_t_bound as augmented_t_bound
    from pytest_crucible.stats.means.student import augmented_t_interval as augmented_t_interval
    from pytest_crucible.stats.means.student import mean_interval as mean_interval
    from pytest_crucible.stats.means.student import paired_t as paired_t
    from pytest_crucible.stats.means.student import t_bound as t_bound
    from pytest_crucible.stats.planning.power import detectable_mean as detectable_mean
    from pytest_crucible.stats.planning.power import detectable_paired_proportions as detectable_paired_proportions
    from pytest_crucible.stats.planning.power import power_paired_proportions as power_paired_proportions
    from pytest_crucible.stats.planning.power import samples_for_margin as samples_for_margin
    from pytest_crucible.stats.planning.power import samples_for_paired_proportions as samples_for_paired_proportions
    from pytest_crucible.stats.planning.proof import samples_for_zero as samples_for_zero
    from pytest_crucible.stats.planning.proof import samples_to_prove_mean as samples_to_prove_mean
    from pytest_crucible.stats.planning.proof import samples_to_prove_proportion as samples_to_prove_proportion
    from pytest_crucible.stats.proportions.clustered import korn_graubard_bound as korn_graubard_bound
    from pytest_crucible.stats.proportions.clustered import korn_graubard_interval as korn_graubard_interval
    from pytest_crucible.stats.proportions.one import clopper_pearson_bound as clopper_pearson_bound
    from pytest_crucible.stats.proportions.one import clopper_pearson_interval as clopper_pearson_interval
    from pytest_crucible.stats.proportions.one import wilson_interval as wilson_interval
    from pytest_crucible.stats.proportions.paired import count_discordant as count_discordant
    from pytest_crucible.stats.proportions.paired import mcnemar_exact as mcnemar_exact
    from pytest_crucible.stats.proportions.paired import mcnemar_mid_p as mcnemar_mid_p
    from pytest_crucible.stats.proportions.paired import tango_interval as tango_interval
    from pytest_crucible.stats.proportions.paired import tango_p_value as tango_p_value
    from pytest_crucible.stats.proportions.paired import tango_statistic as tango_statistic
    from pytest_crucible.stats.ranks.quantiles import quantile_bound as quantile_bound
    from pytest_crucible.stats.ranks.quantiles import quantile_interval as quantile_interval

_NAMES = {
    "answers": "Bound Bounds Compared Estimated",
    "choose": "TABLE compare_paired difference_bounds estimate_mean mean_bound",
    "proportions.clustered": "korn_graubard_bound korn_graubard_interval",
    "means.clustered": "ClusteredMean augmented_clustered_bound clustered_bound clustered_interval clustered_mean "
    "clustered_p_value",
    "means.student": "PairedMean augmented_t_bound augmented_t_interval mean_interval paired_t t_bound",
    "families.adjust": "holm",
    "proportions.paired": "count_discordant mcnemar_exact mcnemar_mid_p tango_interval tango_p_value tango_statistic",
    "means.point_mass": "point_mass_interval point_mass_p_value",
    "planning.power": "detectable_mean detectable_paired_proportions power_paired_proportions samples_for_margin "
    "samples_for_paired_proportions",
    "planning.proof": "samples_for_zero samples_to_prove_mean samples_to_prove_proportion",
    "proportions.one": "clopper_pearson_bound clopper_pearson_interval wilson_interval",
    "ranks.quantiles": "quantile_bound quantile_interval",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
