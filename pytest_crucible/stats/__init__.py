"""Statistics: functions from numbers to numbers. They read no files and print nothing.

Start with `compare` and `estimate`, which choose the method from the table in `choose`. Every method can also be called
by its own name; the folders are means, factors, proportions, ranks, groups, counts, effects, resampling, planning,
multiplicity, sequential, agreement, bayes, synthesis, ensembles and data_drift. A name is imported on first use, so importing this
package imports neither numpy nor scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_crucible.stats.aa_calibration import FalseAlarms as FalseAlarms
    from pytest_crucible.stats.aa_calibration import false_alarm_rate as false_alarm_rate
    from pytest_crucible.stats.agreement.corrected import CorrectedMean as CorrectedMean
    from pytest_crucible.stats.agreement.corrected import ppi_difference as ppi_difference
    from pytest_crucible.stats.agreement.corrected import ppi_mean as ppi_mean
    from pytest_crucible.stats.agreement.kappa import Agreement as Agreement
    from pytest_crucible.stats.agreement.kappa import PositionBias as PositionBias
    from pytest_crucible.stats.agreement.kappa import cohen_kappa as cohen_kappa
    from pytest_crucible.stats.agreement.kappa import position_bias as position_bias
    from pytest_crucible.stats.choose import TABLE as TABLE
    from pytest_crucible.stats.comparing import compare as compare
    from pytest_crucible.stats.comparing import difference_bounds as difference_bounds
    from pytest_crucible.stats.counts.correlations import cohens_q as cohens_q
    from pytest_crucible.stats.counts.correlations import partial_correlation as partial_correlation
    from pytest_crucible.stats.counts.correlations import pearson as pearson
    from pytest_crucible.stats.counts.poisson import poisson_rate_bound as poisson_rate_bound
    from pytest_crucible.stats.counts.poisson import poisson_rate_interval as poisson_rate_interval
    from pytest_crucible.stats.counts.poisson import poisson_rate_ratio as poisson_rate_ratio
    from pytest_crucible.stats.counts.poisson import poisson_ratio_interval as poisson_ratio_interval
    from pytest_crucible.stats.counts.ratios import geometric_mean_ratio_paired as geometric_mean_ratio_paired
    from pytest_crucible.stats.counts.ratios import geometric_mean_ratio_welch as geometric_mean_ratio_welch
    from pytest_crucible.stats.counts.ratios import ratio_of_totals as ratio_of_totals
    from pytest_crucible.stats.data_drift import FieldDrift as FieldDrift
    from pytest_crucible.stats.data_drift import compare_categories as compare_categories
    from pytest_crucible.stats.data_drift import compare_numbers as compare_numbers
    from pytest_crucible.stats.data_drift import compare_vectors as compare_vectors
    from pytest_crucible.stats.data_drift import decide_margin as decide_margin
    from pytest_crucible.stats.data_drift import stability_of_categories as stability_of_categories
    from pytest_crucible.stats.data_drift import stability_of_numbers as stability_of_numbers
    from pytest_crucible.stats.effects.noncentral import noncentral_t_cdf as noncentral_t_cdf
    from pytest_crucible.stats.effects.noncentral import noncentral_t_limits as noncentral_t_limits
    from pytest_crucible.stats.effects.proportions import cohens_h as cohens_h
    from pytest_crucible.stats.effects.proportions import cohens_h_effect as cohens_h_effect
    from pytest_crucible.stats.effects.proportions import proportion_effects as proportion_effects
    from pytest_crucible.stats.effects.standardized import cohens_d as cohens_d
    from pytest_crucible.stats.effects.standardized import cohens_dav as cohens_dav
    from pytest_crucible.stats.effects.standardized import cohens_dz as cohens_dz
    from pytest_crucible.stats.effects.standardized import glass_delta as glass_delta
    from pytest_crucible.stats.effects.standardized import hedges_correction as hedges_correction
    from pytest_crucible.stats.effects.standardized import hedges_g as hedges_g
    from pytest_crucible.stats.effects.standardized import hedges_gz as hedges_gz
    from pytest_crucible.stats.effects.standardized import pooled_deviation as pooled_deviation
    from pytest_crucible.stats.ensembles import DiversityResult as DiversityResult
    from pytest_crucible.stats.ensembles import MemberPairResult as MemberPairResult
    from pytest_crucible.stats.ensembles import error_correlation as error_correlation
    from pytest_crucible.stats.ensembles import member_diversity as member_diversity
    from pytest_crucible.stats.estimating import estimate as estimate
    from pytest_crucible.stats.estimating import mean_bound as mean_bound
    from pytest_crucible.stats.factors.crossed import Component as Component
    from pytest_crucible.stats.factors.crossed import CrossedMean as CrossedMean
    from pytest_crucible.stats.factors.crossed import crossed_bounds as crossed_bounds
    from pytest_crucible.stats.factors.crossed import crossed_difference as crossed_difference
    from pytest_crucible.stats.factors.crossed import crossed_interval as crossed_interval
    from pytest_crucible.stats.factors.crossed import crossed_mean as crossed_mean
    from pytest_crucible.stats.factors.crossed import crossed_p_value as crossed_p_value
    from pytest_crucible.stats.factors.crossed import crossed_proof_p as crossed_proof_p
    from pytest_crucible.stats.factors.crossed import variance_table as variance_table
    from pytest_crucible.stats.factors.crossed import variances_of_mean as variances_of_mean
    from pytest_crucible.stats.factors.marginal_means import Grid as Grid
    from pytest_crucible.stats.factors.marginal_means import LevelDifference as LevelDifference
    from pytest_crucible.stats.factors.marginal_means import LevelMean as LevelMean
    from pytest_crucible.stats.factors.marginal_means import MarginalMeans as MarginalMeans
    from pytest_crucible.stats.factors.marginal_means import arrange_grid as arrange_grid
    from pytest_crucible.stats.factors.marginal_means import marginal_means as marginal_means
    from pytest_crucible.stats.factors.power import detectable_over_sources as detectable_over_sources
    from pytest_crucible.stats.factors.power import expected_half_width as expected_half_width
    from pytest_crucible.stats.factors.power import levels_to_halve as levels_to_halve
    from pytest_crucible.stats.factors.power import samples_over_sources as samples_over_sources
    from pytest_crucible.stats.factors.sources import Source as Source
    from pytest_crucible.stats.groups.anova import SumsOfSquares as SumsOfSquares
    from pytest_crucible.stats.groups.anova import anova_oneway as anova_oneway
    from pytest_crucible.stats.groups.anova import sums_of_squares as sums_of_squares
    from pytest_crucible.stats.groups.contrasts import ManyArmsResult as ManyArmsResult
    from pytest_crucible.stats.groups.contrasts import compare_arms as compare_arms
    from pytest_crucible.stats.groups.many_to_one import dunnett as dunnett
    from pytest_crucible.stats.groups.noncentral_f import cohens_f_interval as cohens_f_interval
    from pytest_crucible.stats.groups.noncentral_f import eta_squared_interval as eta_squared_interval
    from pytest_crucible.stats.groups.pairwise import ContrastResult as ContrastResult
    from pytest_crucible.stats.groups.posthoc import games_howell as games_howell
    from pytest_crucible.stats.groups.posthoc import tukey_hsd as tukey_hsd
    from pytest_crucible.stats.groups.repeated import RepeatedAnova as RepeatedAnova
    from pytest_crucible.stats.groups.repeated import rm_anova as rm_anova
    from pytest_crucible.stats.groups.same_samples import friedman as friedman
    from pytest_crucible.stats.groups.same_samples import iman_davenport as iman_davenport
    from pytest_crucible.stats.groups.same_samples import mean_ranks as mean_ranks
    from pytest_crucible.stats.groups.same_samples import nemenyi as nemenyi
    from pytest_crucible.stats.groups.shapes import ks_normal as ks_normal
    from pytest_crucible.stats.groups.shapes import ks_two_sample as ks_two_sample
    from pytest_crucible.stats.groups.shapes import shapiro_wilk as shapiro_wilk
    from pytest_crucible.stats.groups.studentized import studentized_range_critical as studentized_range_critical
    from pytest_crucible.stats.groups.studentized import studentized_range_tail as studentized_range_tail
    from pytest_crucible.stats.groups.variances import bartlett as bartlett
    from pytest_crucible.stats.groups.variances import levene as levene
    from pytest_crucible.stats.groups.variances import variance_ratio as variance_ratio
    from pytest_crucible.stats.groups.welch import welch_anova as welch_anova
    from pytest_crucible.stats.means.augmented import augmented_t_bound as augmented_t_bound
    from pytest_crucible.stats.means.augmented import augmented_t_interval as augmented_t_interval
    from pytest_crucible.stats.means.cluster_design import ClusterDesign as ClusterDesign
    from pytest_crucible.stats.means.cluster_design import cluster_effect as cluster_effect
    from pytest_crucible.stats.means.cluster_design import kish_design_effect as kish_design_effect
    from pytest_crucible.stats.means.clustered import ClusteredMean as ClusteredMean
    from pytest_crucible.stats.means.clustered import clustered_bound as clustered_bound
    from pytest_crucible.stats.means.clustered import clustered_interval as clustered_interval
    from pytest_crucible.stats.means.clustered import clustered_mean as clustered_mean
    from pytest_crucible.stats.means.clustered import clustered_p_value as clustered_p_value
    from pytest_crucible.stats.means.clustered_arms import clustered_arms as clustered_arms
    from pytest_crucible.stats.means.clustered_tests import clustered_paired_t as clustered_paired_t
    from pytest_crucible.stats.means.clustered_tests import clustered_t as clustered_t
    from pytest_crucible.stats.means.gaffke import gaffke_bound as gaffke_bound
    from pytest_crucible.stats.means.gaffke import gaffke_p_value as gaffke_p_value
    from pytest_crucible.stats.means.melded import melded_bound as melded_bound
    from pytest_crucible.stats.means.melded import melded_p_value as melded_p_value
    from pytest_crucible.stats.means.pairing import PairingGain as PairingGain
    from pytest_crucible.stats.means.pairing import pairing_gain as pairing_gain
    from pytest_crucible.stats.means.point_mass import point_mass_interval as point_mass_interval
    from pytest_crucible.stats.means.point_mass import point_mass_p_value as point_mass_p_value
    from pytest_crucible.stats.means.ratio_bounds import mean_ratio_bound as mean_ratio_bound
    from pytest_crucible.stats.means.ratio_bounds import mean_ratio_p_value as mean_ratio_p_value
    from pytest_crucible.stats.means.repeated_success import RepeatedSuccess as RepeatedSuccess
    from pytest_crucible.stats.means.repeated_success import pass_at_k as pass_at_k
    from pytest_crucible.stats.means.repeated_success import pass_hat_k as pass_hat_k
    from pytest_crucible.stats.means.repeats import VarianceComponents as VarianceComponents
    from pytest_crucible.stats.means.repeats import variance_components as variance_components
    from pytest_crucible.stats.means.serial import SerialCorrelation as SerialCorrelation
    from pytest_crucible.stats.means.serial import serial_correlation as serial_correlation
    from pytest_crucible.stats.means.student import mean_interval as mean_interval
    from pytest_crucible.stats.means.student import one_sample_t as one_sample_t
    from pytest_crucible.stats.means.student import paired_t as paired_t
    from pytest_crucible.stats.means.student import t_bound as t_bound
    from pytest_crucible.stats.means.trimmed import one_sample_trimmed_t as one_sample_trimmed_t
    from pytest_crucible.stats.means.trimmed import paired_trimmed_t as paired_trimmed_t
    from pytest_crucible.stats.means.trimmed import trimmed_mean as trimmed_mean
    from pytest_crucible.stats.means.trimmed import yuen_welch as yuen_welch
    from pytest_crucible.stats.means.two_samples import student_t as student_t
    from pytest_crucible.stats.means.two_samples import welch_t as welch_t
    from pytest_crucible.stats.memorisation import MinKTest as MinKTest
    from pytest_crucible.stats.memorisation import OrderTest as OrderTest
    from pytest_crucible.stats.memorisation import compare_min_k as compare_min_k
    from pytest_crucible.stats.memorisation import lowest_mean as lowest_mean
    from pytest_crucible.stats.memorisation import order_test as order_test
    from pytest_crucible.stats.missing import CompletePairs as CompletePairs
    from pytest_crucible.stats.missing import FilledValues as FilledValues
    from pytest_crucible.stats.missing import drop_incomplete as drop_incomplete
    from pytest_crucible.stats.missing import fill_worst as fill_worst
    from pytest_crucible.stats.multiplicity.adjust import adjust as adjust
    from pytest_crucible.stats.multiplicity.adjust import holm as holm
    from pytest_crucible.stats.multiplicity.gatekeeping import fixed_sequence as fixed_sequence
    from pytest_crucible.stats.multiplicity.gatekeeping import intersection_union as intersection_union
    from pytest_crucible.stats.multiplicity.gatekeeping import serial_gatekeeping as serial_gatekeeping
    from pytest_crucible.stats.multiplicity.graphical import adjust_by_graph as adjust_by_graph
    from pytest_crucible.stats.multiplicity.graphical import parallel_gatekeeping as parallel_gatekeeping
    from pytest_crucible.stats.planning.designs import BudgetSplit as BudgetSplit
    from pytest_crucible.stats.planning.designs import clusters_for_mean as clusters_for_mean
    from pytest_crucible.stats.planning.designs import design_effect as design_effect
    from pytest_crucible.stats.planning.designs import power_anova as power_anova
    from pytest_crucible.stats.planning.designs import samples_for_anova as samples_for_anova
    from pytest_crucible.stats.planning.designs import samples_for_margin as samples_for_margin
    from pytest_crucible.stats.planning.designs import samples_for_proportions as samples_for_proportions
    from pytest_crucible.stats.planning.designs import split_budget as split_budget
    from pytest_crucible.stats.planning.designs import variance_per_sample as variance_per_sample
    from pytest_crucible.stats.planning.paired_proportions import (
        detectable_paired_proportions as detectable_paired_proportions,
    )
    from pytest_crucible.stats.planning.paired_proportions import power_mcnemar as power_mcnemar
    from pytest_crucible.stats.planning.paired_proportions import power_paired_proportions as power_paired_proportions
    from pytest_crucible.stats.planning.paired_proportions import samples_for_mcnemar as samples_for_mcnemar
    from pytest_crucible.stats.planning.paired_proportions import (
        samples_for_paired_proportions as samples_for_paired_proportions,
    )
    from pytest_crucible.stats.planning.proof import detectable_by_gaffke as detectable_by_gaffke
    from pytest_crucible.stats.planning.proof import samples_by_gaffke as samples_by_gaffke
    from pytest_crucible.stats.planning.proof import samples_for_zero as samples_for_zero
    from pytest_crucible.stats.planning.proof import samples_to_prove_proportion as samples_to_prove_proportion
    from pytest_crucible.stats.planning.roots import SampleSize as SampleSize
    from pytest_crucible.stats.planning.t_tests import detectable_mean as detectable_mean
    from pytest_crucible.stats.planning.t_tests import detectable_t as detectable_t
    from pytest_crucible.stats.planning.t_tests import power_t as power_t
    from pytest_crucible.stats.planning.t_tests import samples_for_t as samples_for_t
    from pytest_crucible.stats.proportions.binomial import binomial_test as binomial_test
    from pytest_crucible.stats.proportions.clustered import clustered_logit_interval as clustered_logit_interval
    from pytest_crucible.stats.proportions.clustered import clustered_proportion_se as clustered_proportion_se
    from pytest_crucible.stats.proportions.clustered import korn_graubard_bound as korn_graubard_bound
    from pytest_crucible.stats.proportions.clustered import korn_graubard_interval as korn_graubard_interval
    from pytest_crucible.stats.proportions.cochran import cochran_q as cochran_q
    from pytest_crucible.stats.proportions.contingency import chi2_goodness_of_fit as chi2_goodness_of_fit
    from pytest_crucible.stats.proportions.contingency import chi2_independence as chi2_independence
    from pytest_crucible.stats.proportions.fisher import conditional_odds_ratio as conditional_odds_ratio
    from pytest_crucible.stats.proportions.fisher import fisher_exact as fisher_exact
    from pytest_crucible.stats.proportions.one import agresti_coull_interval as agresti_coull_interval
    from pytest_crucible.stats.proportions.one import clopper_pearson_bound as clopper_pearson_bound
    from pytest_crucible.stats.proportions.one import clopper_pearson_interval as clopper_pearson_interval
    from pytest_crucible.stats.proportions.one import jeffreys_interval as jeffreys_interval
    from pytest_crucible.stats.proportions.one import wald_interval as wald_interval
    from pytest_crucible.stats.proportions.one import wilson_interval as wilson_interval
    from pytest_crucible.stats.proportions.paired import count_discordant as count_discordant
    from pytest_crucible.stats.proportions.paired import discordant_odds as discordant_odds
    from pytest_crucible.stats.proportions.paired import mcnemar_asymptotic as mcnemar_asymptotic
    from pytest_crucible.stats.proportions.paired import mcnemar_exact as mcnemar_exact
    from pytest_crucible.stats.proportions.paired import mcnemar_mid_p as mcnemar_mid_p
    from pytest_crucible.stats.proportions.paired import tango_interval as tango_interval
    from pytest_crucible.stats.proportions.paired import tango_p_value as tango_p_value
    from pytest_crucible.stats.proportions.paired import tango_statistic as tango_statistic
    from pytest_crucible.stats.proportions.paired_exact import paired_exact_bound as paired_exact_bound
    from pytest_crucible.stats.proportions.paired_exact import paired_exact_p_value as paired_exact_p_value
    from pytest_crucible.stats.proportions.paired_exact import paired_exact_test as paired_exact_test
    from pytest_crucible.stats.proportions.paired_intervals import agresti_min_interval as agresti_min_interval
    from pytest_crucible.stats.proportions.paired_intervals import bonett_price_interval as bonett_price_interval
    from pytest_crucible.stats.proportions.paired_intervals import paired_newcombe_interval as paired_newcombe_interval
    from pytest_crucible.stats.proportions.paired_intervals import paired_wald_interval as paired_wald_interval
    from pytest_crucible.stats.proportions.ratios import odds_ratio as odds_ratio
    from pytest_crucible.stats.proportions.ratios import risk_ratio as risk_ratio
    from pytest_crucible.stats.proportions.score import score_interval as score_interval
    from pytest_crucible.stats.proportions.score import score_p_value as score_p_value
    from pytest_crucible.stats.proportions.score import score_statistic as score_statistic
    from pytest_crucible.stats.proportions.score_ratios import odds_ratio_score as odds_ratio_score
    from pytest_crucible.stats.proportions.score_ratios import risk_ratio_score as risk_ratio_score
    from pytest_crucible.stats.proportions.two import agresti_caffo_interval as agresti_caffo_interval
    from pytest_crucible.stats.proportions.two import compare_proportions as compare_proportions
    from pytest_crucible.stats.proportions.two import newcombe_interval as newcombe_interval
    from pytest_crucible.stats.proportions.two import pooled_z_p_value as pooled_z_p_value
    from pytest_crucible.stats.proportions.two import wald_difference_interval as wald_difference_interval
    from pytest_crucible.stats.proportions.two_exact import two_exact_bound as two_exact_bound
    from pytest_crucible.stats.proportions.two_exact import two_exact_p_value as two_exact_p_value
    from pytest_crucible.stats.proportions.two_exact import two_exact_test as two_exact_test
    from pytest_crucible.stats.ranks.association import kendall as kendall
    from pytest_crucible.stats.ranks.association import spearman as spearman
    from pytest_crucible.stats.ranks.brunner import brunner_munzel as brunner_munzel
    from pytest_crucible.stats.ranks.many_arms import dunn as dunn
    from pytest_crucible.stats.ranks.many_arms import kruskal_wallis as kruskal_wallis
    from pytest_crucible.stats.ranks.quantiles import quantile_bound as quantile_bound
    from pytest_crucible.stats.ranks.quantiles import quantile_coverage as quantile_coverage
    from pytest_crucible.stats.ranks.quantiles import quantile_estimate as quantile_estimate
    from pytest_crucible.stats.ranks.quantiles import quantile_interval as quantile_interval
    from pytest_crucible.stats.ranks.quantiles import quantile_ranks as quantile_ranks
    from pytest_crucible.stats.ranks.shifts import hodges_lehmann as hodges_lehmann
    from pytest_crucible.stats.ranks.shifts import pseudo_median as pseudo_median
    from pytest_crucible.stats.ranks.signed import SignedRank as SignedRank
    from pytest_crucible.stats.ranks.signed import SignTest as SignTest
    from pytest_crucible.stats.ranks.signed import rank_biserial_paired as rank_biserial_paired
    from pytest_crucible.stats.ranks.signed import sign_test as sign_test
    from pytest_crucible.stats.ranks.signed import wilcoxon_signed_rank as wilcoxon_signed_rank
    from pytest_crucible.stats.ranks.superiority import CliffsDelta as CliffsDelta
    from pytest_crucible.stats.ranks.superiority import Dominance as Dominance
    from pytest_crucible.stats.ranks.superiority import cles as cles
    from pytest_crucible.stats.ranks.superiority import cles_interval as cles_interval
    from pytest_crucible.stats.ranks.superiority import cliffs_delta as cliffs_delta
    from pytest_crucible.stats.ranks.superiority import dominance as dominance
    from pytest_crucible.stats.ranks.superiority import paired_superiority as paired_superiority
    from pytest_crucible.stats.ranks.two_samples import RankSum as RankSum
    from pytest_crucible.stats.ranks.two_samples import mann_whitney as mann_whitney
    from pytest_crucible.stats.resampling.bootstrap import BootstrapResult as BootstrapResult
    from pytest_crucible.stats.resampling.bootstrap import bootstrap as bootstrap
    from pytest_crucible.stats.resampling.permutation import PermutationTest as PermutationTest
    from pytest_crucible.stats.resampling.permutation import permute_two_samples as permute_two_samples
    from pytest_crucible.stats.resampling.permutation import sign_flip as sign_flip
    from pytest_crucible.stats.resampling.sign_flips import Distribution as Distribution
    from pytest_crucible.stats.resampling.sign_flips import (
        compute_sign_flip_distribution as compute_sign_flip_distribution,
    )
    from pytest_crucible.stats.results import Bound as Bound
    from pytest_crucible.stats.results import Bounds as Bounds
    from pytest_crucible.stats.results import ComparisonResult as ComparisonResult
    from pytest_crucible.stats.results import Effect as Effect
    from pytest_crucible.stats.results import EstimateResult as EstimateResult
    from pytest_crucible.stats.results import Significance as Significance
    from pytest_crucible.stats.selection.chosen_arm import bound_chosen_arm as bound_chosen_arm
    from pytest_crucible.stats.selection.chosen_arm import compare_chosen_arm as compare_chosen_arm
    from pytest_crucible.stats.selection.chosen_arm import p_below_best as p_below_best
    from pytest_crucible.stats.selection.max_t import JointMeans as JointMeans
    from pytest_crucible.stats.selection.max_t import PairwiseMaxT as PairwiseMaxT
    from pytest_crucible.stats.selection.max_t import compare_all_arms as compare_all_arms
    from pytest_crucible.stats.selection.max_t import joint_means as joint_means
    from pytest_crucible.stats.selection.ranks import ArmRanks as ArmRanks
    from pytest_crucible.stats.selection.ranks import LostValues as LostValues
    from pytest_crucible.stats.selection.ranks import PairwiseIntervals as PairwiseIntervals
    from pytest_crucible.stats.selection.ranks import RankInterval as RankInterval
    from pytest_crucible.stats.selection.ranks import compare_with_lost as compare_with_lost
    from pytest_crucible.stats.selection.ranks import pairwise_intervals as pairwise_intervals
    from pytest_crucible.stats.selection.ranks import rank_arms as rank_arms
    from pytest_crucible.stats.selection.winner import WinnerResult as WinnerResult
    from pytest_crucible.stats.selection.winner import winner_from_estimates as winner_from_estimates
    from pytest_crucible.stats.selection.winner import winner_from_values as winner_from_values
    from pytest_crucible.stats.sequential.betting import betting_sequence as betting_sequence
    from pytest_crucible.stats.sequential.betting import evidence_against as evidence_against
    from pytest_crucible.stats.sequential.betting import paired_sequence as paired_sequence
    from pytest_crucible.stats.sequential.paced_bets import betting_bound as betting_bound
    from pytest_crucible.stats.sequential.paced_bets import betting_p_value as betting_p_value
    from pytest_crucible.stats.sequential.sequences import ConfidenceSequence as ConfidenceSequence

_NAMES = {
    "aa_calibration": "false_alarm_rate FalseAlarms",
    "agreement.corrected": "CorrectedMean ppi_difference ppi_mean",
    "agreement.kappa": "Agreement cohen_kappa position_bias PositionBias",
    "choose": "TABLE",
    "comparing": "compare difference_bounds",
    "counts.correlations": "cohens_q partial_correlation pearson",
    "counts.poisson": "poisson_rate_bound poisson_rate_interval poisson_rate_ratio poisson_ratio_interval",
    "counts.ratios": "geometric_mean_ratio_paired geometric_mean_ratio_welch ratio_of_totals",
    "data_drift": "compare_categories compare_numbers compare_vectors decide_margin FieldDrift "
    "stability_of_categories stability_of_numbers",
    "effects.noncentral": "noncentral_t_cdf noncentral_t_limits",
    "effects.proportions": "cohens_h cohens_h_effect proportion_effects",
    "effects.standardized": "cohens_d cohens_dav cohens_dz glass_delta hedges_correction hedges_g hedges_gz "
    "pooled_deviation",
    "ensembles": "DiversityResult error_correlation member_diversity MemberPairResult",
    "estimating": "estimate mean_bound",
    "factors.crossed": "Component crossed_bounds crossed_difference crossed_interval crossed_mean crossed_p_value "
    "crossed_proof_p CrossedMean variance_table variances_of_mean",
    "factors.marginal_means": "arrange_grid Grid LevelDifference LevelMean marginal_means MarginalMeans",
    "factors.power": "detectable_over_sources expected_half_width levels_to_halve samples_over_sources",
    "factors.sources": "Source",
    "groups.anova": "anova_oneway sums_of_squares SumsOfSquares",
    "groups.contrasts": "compare_arms ManyArmsResult",
    "groups.many_to_one": "dunnett",
    "groups.noncentral_f": "cohens_f_interval eta_squared_interval",
    "groups.pairwise": "ContrastResult",
    "groups.posthoc": "games_howell tukey_hsd",
    "groups.repeated": "RepeatedAnova rm_anova",
    "groups.same_samples": "friedman iman_davenport mean_ranks nemenyi",
    "groups.shapes": "ks_normal ks_two_sample shapiro_wilk",
    "groups.studentized": "studentized_range_critical studentized_range_tail",
    "groups.variances": "bartlett levene variance_ratio",
    "groups.welch": "welch_anova",
    "means.augmented": "augmented_t_bound augmented_t_interval",
    "means.cluster_design": "cluster_effect ClusterDesign kish_design_effect",
    "means.clustered": "clustered_bound clustered_interval clustered_mean clustered_p_value ClusteredMean",
    "means.clustered_arms": "clustered_arms",
    "means.clustered_tests": "clustered_paired_t clustered_t",
    "means.gaffke": "gaffke_bound gaffke_p_value",
    "means.melded": "melded_bound melded_p_value",
    "means.pairing": "pairing_gain PairingGain",
    "means.point_mass": "point_mass_interval point_mass_p_value",
    "means.ratio_bounds": "mean_ratio_bound mean_ratio_p_value",
    "means.repeated_success": "pass_at_k pass_hat_k RepeatedSuccess",
    "means.repeats": "variance_components VarianceComponents",
    "means.serial": "serial_correlation SerialCorrelation",
    "means.student": "mean_interval one_sample_t paired_t t_bound",
    "means.trimmed": "one_sample_trimmed_t paired_trimmed_t trimmed_mean yuen_welch",
    "means.two_samples": "student_t welch_t",
    "memorisation": "compare_min_k lowest_mean MinKTest order_test OrderTest",
    "missing": "CompletePairs drop_incomplete fill_worst FilledValues",
    "multiplicity.adjust": "adjust holm",
    "multiplicity.gatekeeping": "fixed_sequence intersection_union serial_gatekeeping",
    "multiplicity.graphical": "adjust_by_graph parallel_gatekeeping",
    "planning.designs": "BudgetSplit clusters_for_mean design_effect power_anova samples_for_anova "
    "samples_for_margin samples_for_proportions split_budget variance_per_sample",
    "planning.paired_proportions": "detectable_paired_proportions power_mcnemar power_paired_proportions samples_for_mcnemar "
    "samples_for_paired_proportions",
    "planning.proof": "detectable_by_gaffke samples_by_gaffke samples_for_zero samples_to_prove_proportion",
    "planning.roots": "SampleSize",
    "planning.t_tests": "detectable_mean detectable_t power_t samples_for_t",
    "proportions.binomial": "binomial_test",
    "proportions.clustered": "clustered_logit_interval clustered_proportion_se korn_graubard_bound "
    "korn_graubard_interval",
    "proportions.cochran": "cochran_q",
    "proportions.contingency": "chi2_goodness_of_fit chi2_independence",
    "proportions.fisher": "conditional_odds_ratio fisher_exact",
    "proportions.one": "agresti_coull_interval clopper_pearson_bound clopper_pearson_interval jeffreys_interval "
    "wald_interval wilson_interval",
    "proportions.paired": "count_discordant discordant_odds mcnemar_asymptotic mcnemar_exact mcnemar_mid_p "
    "tango_interval tango_p_value tango_statistic",
    "proportions.paired_exact": "paired_exact_bound paired_exact_p_value paired_exact_test",
    "proportions.paired_intervals": "agresti_min_interval bonett_price_interval paired_newcombe_interval paired_wald_interval",
    "proportions.ratios": "odds_ratio risk_ratio",
    "proportions.score": "score_interval score_p_value score_statistic",
    "proportions.score_ratios": "odds_ratio_score risk_ratio_score",
    "proportions.two": "agresti_caffo_interval compare_proportions newcombe_interval pooled_z_p_value "
    "wald_difference_interval",
    "proportions.two_exact": "two_exact_bound two_exact_p_value two_exact_test",
    "ranks.association": "kendall spearman",
    "ranks.brunner": "brunner_munzel",
    "ranks.many_arms": "dunn kruskal_wallis",
    "ranks.quantiles": "quantile_bound quantile_coverage quantile_estimate quantile_interval quantile_ranks",
    "ranks.shifts": "hodges_lehmann pseudo_median",
    "ranks.signed": "rank_biserial_paired sign_test SignedRank SignTest wilcoxon_signed_rank",
    "ranks.superiority": "cles cles_interval cliffs_delta CliffsDelta Dominance dominance paired_superiority",
    "ranks.two_samples": "mann_whitney RankSum",
    "resampling.bootstrap": "bootstrap BootstrapResult",
    "resampling.permutation": "PermutationTest permute_two_samples sign_flip",
    "resampling.sign_flips": "compute_sign_flip_distribution Distribution",
    "results": "Bound Bounds ComparisonResult Effect EstimateResult Significance",
    "selection.chosen_arm": "bound_chosen_arm compare_chosen_arm p_below_best",
    "selection.max_t": "compare_all_arms joint_means JointMeans PairwiseMaxT",
    "selection.ranks": "ArmRanks compare_with_lost LostValues pairwise_intervals PairwiseIntervals rank_arms "
    "RankInterval",
    "selection.winner": "winner_from_estimates winner_from_values WinnerResult",
    "sequential.betting": "betting_sequence evidence_against paired_sequence",
    "sequential.paced_bets": "betting_bound betting_p_value",
    "sequential.sequences": "ConfidenceSequence",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
