"""Comparison of two arms: is the candidate better than the baseline, and by how much?"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import cast, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Alternative, Labels, Range, align_pairs, check_choice, check_share
from pytest_crucible.stats.choose import (
    Design,
    Question,
    Row,
    Validity,
    exact_p_value_of_pairs,
    exact_test_of_pairs,
    find_row,
    t_interval_of_arms,
    t_interval_of_pairs,
    validity_question,
)
from pytest_crucible.stats.estimating import (
    MANY_CLUSTERS,
    NO_END,
    NO_VARIATION,
    average_repeats,
    clip,
    clip_interval,
    comparison_assumptions,
    deviation_for_power,
    refusal_status,
    resolve_kind,
)
from pytest_crucible.stats.inputs import OPEN, Arms, Kind, Scale, declare_arms, declare_pairs, mean
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.moments import distance, tail_share
from pytest_crucible.stats.means.ratios import check_positive, geometric_mean, logarithms
from pytest_crucible.stats.resampling.draws import MonteCarlo
from pytest_crucible.stats.results import Bounds, ComparisonResult, Direction, Estimand, Significance, Status
from pytest_crucible.stats.sizes import effect_sizes

RATIO: Range = (0.0, math.inf)
NO_BOUND = "the interval is approximate: without bounds one rare value could move the mean anywhere"
SMALLEST = math.ulp(0.0)
"""The smallest positive float: a p-value below it is returned as this, never as 0."""


def compare(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    paired: bool = True,
    *,
    kind: Kind | str = "auto",
    bounds: Range | None = None,
    clusters: Labels | tuple[Labels, Labels] | None = None,
    alternative: Alternative = "two-sided",
    margin: float | None = None,
    alpha: float = 0.05,
    estimand: Estimand = "difference",
    direction: Direction = "higher",
    validity: Validity = "standard",
    rng: int | np.random.Generator = 0,
    reach: float | None = None,
) -> ComparisonResult:
    """Return candidate minus baseline with interval, p-value, effect sizes and a sentence.

    The method is the row of `stats.TABLE`. `candidate` and `baseline` have one entry a sample, or one row a sample
    and one column a repeat; repeats are averaged inside the sample first. Pairs are matched by position, two pandas
    Series by their index, whose labels must be the same. `kind` is declared, or inferred from both arms together.
    Every kind estimates a difference of means (of 0/1 values: of rates), so an inferred kind never changes the
    estimand. `estimand="ratio"` estimates the ratio of geometric means of positive values, which suits latencies.

    `clusters` has one label a pair. Independent arms take (candidate's labels, baseline's labels), or one sequence for
    both; an equal label in both arms is the same cluster. `margin` is how much worse is still acceptable; it adds the
    one-sided bounds that decide `non_inferior` and `equivalent`. For a ratio it is a share: with `direction="lower"`,
    0.1 accepts up to 1.1 times the baseline; with `direction="higher"`, down to 1 / 1.1 times. `validity="guaranteed"`
    uses bounds that never err too often, at a cost in power. `reach` is the largest change of one pair that is possible,
    declared before the data were seen: it makes bounds narrower, and gives scores without bounds some.

    `p_value` is of a permutation test that the arms are alike, with `rng` as its seed above 13 pairs or clusters; interval and
    `proof_p` are of the bounds of the mean (see `ComparisonResult`).

    Raises ValueError for empty or unequal arms, for Series with different labels, for NaN (with their count),
    values out of bounds, values of 0 in a ratio, missing labels, a margin that no two values can exceed, and
    unknown options.

    >>> print(compare([1, 1, 1, 0, 1, 1, 1, 0, 1, 1], [0, 1, 1, 0, 0, 1, 0, 0, 1, 0]))
    candidate - baseline: +0.400 [-0.006, +0.749], 10 pairs, p = 0.053, discordant odds ratio inf [0.660, inf] (exact unconditional)
    """
    check_choice(alternative, get_args(Alternative), "alternative")
    check_choice(estimand, get_args(Estimand), "estimand")
    check_choice(direction, get_args(Direction), "direction")
    check_choice(validity, get_args(Validity), "validity")
    _check_numbers(alternative, margin, validity, alpha, rng)
    arms, repeats = _arms(candidate, baseline, paired, kind, bounds, clusters, reach)
    # A generator that the caller owns gives the seed.
    seed = int(rng.integers(2**31)) if isinstance(rng, np.random.Generator) else int(rng)
    arms = replace(arms, monte_carlo=MonteCarlo(seed=seed))
    answer = compare_declared_arms(arms, alternative=alternative, alpha=alpha, estimand=estimand, repeats=repeats)
    answer = replace(answer, direction=direction)
    if margin is not None:
        if estimand == "difference" and margin >= arms.bounds[1]:  # every candidate would meet it
            raise ValueError(
                f"margin={margin:g} can never be exceeded: two values differ by at most {arms.bounds[1]:g}"
            )
        answer = replace(answer, margin=float(margin), bounds=_bounds(arms, alpha, estimand, validity))
    return answer


def difference_bounds(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    paired: bool = True,
    *,
    kind: Kind | str = "auto",
    bounds: Range | None = None,
    clusters: Labels | tuple[Labels, Labels] | None = None,
    alpha: float = 0.05,
    validity: Validity = "standard",
    reach: float | None = None,
) -> Bounds:
    """Return the two one-sided bounds of candidate - baseline that decide a margin. Arguments as in `compare`.

    >>> result = difference_bounds([1] * 50, [1] * 50)
    >>> round(result.low, 4), round(result.high, 4)
    (-0.0582, 0.0582)
    """
    _check_one_sided(alpha)
    arms, _ = _arms(candidate, baseline, paired, kind, bounds, clusters, reach)
    return _bounds(arms, alpha, "difference", validity)


def compare_declared_arms(
    arms: Arms,
    *,
    alternative: Alternative,
    alpha: float,
    estimand: Estimand = "difference",
    repeats: tuple[int, ...] = (1,),
) -> ComparisonResult:
    """Compare arms that are already checked, without a margin."""
    row = choose_row("ratio" if estimand == "ratio" else "compare", arms, estimand)
    if estimand == "ratio":
        check_positive(arms)
    answer, note = apply_method(row, arms, alternative, alpha)
    if estimand == "difference" and answer.interval is None:
        answer, reason = _with_interval(answer, arms, alternative, alpha)
        note = note or reason
    # Values that were added up batch by batch have no effect sizes.
    effects = effect_sizes(arms, 1 - alpha, estimand) if arms.candidate.values.size else []
    # The note about few clusters is the least urgent one: it never replaces another.
    has_cr2 = answer.interval is not None and answer.interval.method.startswith("cr2")
    if not note and has_cr2 and arms.groups is not None and arms.groups < MANY_CLUSTERS:
        note = f"only {arms.groups} clusters: below {MANY_CLUSTERS} the interval depends on its small-sample correction"
    differences = arms.differences
    centre = geometric_mean if estimand == "ratio" else mean
    return ComparisonResult(
        estimand=estimand,
        estimate=_ratio(arms, answer) if estimand == "ratio" else _difference(arms),
        interval=clip_interval(answer.interval, RATIO if estimand == "ratio" else arms.bounds),
        p_value=_above_0(answer.p_value),
        p_exact=_above_0(answer.p_exact),
        proof_p=_above_0(answer.proof_p),
        alikeness=answer.alikeness,
        effect=effects[0] if effects else None,
        effects=tuple(effects[1:]),
        n_candidate=arms.candidate.size,
        n_baseline=arms.baseline.size,
        paired=differences is not None,
        clusters=arms.groups,
        candidate=centre(arms.candidate.values) if arms.candidate.values.size else None,
        baseline=centre(arms.baseline.values) if arms.baseline.values.size else None,
        deviation=None if differences is None else deviation_for_power(differences),
        kind=arms.candidate.kind,
        method=row.method,
        alternative=alternative,
        alpha=alpha,
        dof=_degrees_of_freedom(answer, arms),
        status=_status(arms, answer),
        note=note,
        assumptions=comparison_assumptions(arms, estimand, repeats),
    )


def significance_of_arms(arms: Arms, alpha: float) -> Significance:
    """Return the two-sided test of `compare_declared_arms` and the p-value of its bounds, without anything beside them."""
    row = choose_row("compare", arms, "difference")
    if row.function is exact_test_of_pairs:
        # Its interval takes most of the time. Of too few pairs the answer below is without a p-value.
        with contextlib.suppress(NotEnoughData):
            answer = exact_p_value_of_pairs(arms, 1 - alpha)
            return replace(answer, p_value=_above_0(answer.p_value), proof_p=_above_0(answer.proof_p))
    answer, _ = apply_method(row, arms, "two-sided", alpha)
    p_of_side = choose_row("margin", arms, "difference").p_value
    proof_p = answer.proof_p
    if answer.interval is None and p_of_side is not None:
        # Too few values for a bound.
        with contextlib.suppress(NotEnoughData):
            proof_p = _proof_p_value(p_of_side, arms, "two-sided")
    return replace(answer, p_value=_above_0(answer.p_value), proof_p=_above_0(proof_p))


def _arms(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    paired: bool,
    kind: Kind | str,
    bounds: Range | None,
    clusters: Labels | tuple[Labels, Labels] | None,
    reach: float | None = None,
) -> tuple[Arms, tuple[int, ...]]:
    # A third positional argument that is meant as `kind` would otherwise count as True.
    if not isinstance(paired, bool | np.bool_):
        raise ValueError(f"paired must be True or False, not {paired!r}")
    if paired:
        candidate, baseline, clusters = align_pairs(candidate, baseline, cast("Labels | None", clusters))
    (candidate_means, repeats), (baseline_means, baseline_repeats) = (
        average_repeats(candidate),
        average_repeats(baseline),
    )
    if not candidate_means.size or not baseline_means.size:
        raise ValueError(
            f"{candidate_means.size} candidate and {baseline_means.size} baseline values: a comparison needs both"
        )
    resolved_kind = resolve_kind(kind, bounds, np.ravel(candidate), np.ravel(baseline))
    limits = OPEN if bounds is None else bounds
    if paired:
        of_pairs = cast("Labels | None", clusters)
        pairs = declare_pairs(
            candidate_means, baseline_means, kind=resolved_kind, bounds=limits, clusters=of_pairs, reach=reach
        )
        return pairs, (repeats, baseline_repeats)
    if reach is not None:
        raise ValueError(f"reach={reach!r} is the largest difference of a pair, and independent arms have no pairs")
    labels = None if clusters is None else _labels_of_both(clusters)
    return declare_arms(candidate_means, baseline_means, kind=resolved_kind, bounds=limits, clusters=labels), (
        repeats,
        baseline_repeats,
    )


def _labels_of_both(clusters: Labels | tuple[Labels, Labels]) -> tuple[Labels, Labels]:
    """Return the labels of each arm; one sequence serves both, label by label."""
    # A pair of sequences has labels for each arm; two plain labels are one sequence for two samples.
    of_each = len(clusters) == 2 and all(
        hasattr(labels, "__len__") and not isinstance(labels, str) for labels in clusters
    )
    candidate, baseline = clusters if of_each else (clusters, clusters)
    return cast("Labels", candidate), cast("Labels", baseline)


def apply_method(row: Row, arms: Arms, alternative: Alternative, alpha: float) -> tuple[Significance, str]:
    """Return the method's result, and a note that explains a missing interval."""
    try:
        answer: Significance = row.function(arms, 1 - alpha, alternative)
    except NotEnoughData as refusal:
        status = refusal_status(arms.groups)
        return Significance(method=row.method, statistic=None, p_value=None, status=status), str(refusal)
    return answer, NO_VARIATION if answer.interval is None and row.question == "ratio" else answer.note


def _with_interval(
    answer: Significance, arms: Arms, alternative: Alternative, alpha: float
) -> tuple[Significance, str]:
    """Return the test of alikeness with the interval of the mean's bounds, and a note that explains a missing one."""
    row = choose_row("margin", arms, "difference")
    try:
        if row.p_value is None:
            interval_of = t_interval_of_arms if arms.differences is None else t_interval_of_pairs
            interval = interval_of(arms, 1 - alpha, alternative)
            return replace(answer, interval=interval), NO_BOUND if interval else NO_VARIATION
        tail, estimate = tail_share(alpha, alternative), _difference(arms)
        low = -math.inf if alternative == "less" else min(row.function(arms, tail, "lower"), estimate)
        high = math.inf if alternative == "greater" else max(row.function(arms, tail, "upper"), estimate)
        return replace(
            answer,
            interval=Interval(low=low, high=high, level=1 - alpha, method=row.method),
            proof_p=_proof_p_value(row.p_value, arms, alternative),
        ), answer.note
    except NotEnoughData as refusal:
        return answer, str(refusal)


def _proof_p_value(p_of_side: Callable[..., float], arms: Arms, alternative: Alternative) -> float:
    """Return the smallest alpha at which the interval of the bounds excludes 0."""
    if alternative != "two-sided":
        return p_of_side(arms, 0.0, "lower" if alternative == "greater" else "upper")
    return min(1.0, 2 * p_of_side(arms, 0.0, "lower"), 2 * p_of_side(arms, 0.0, "upper"))


def _degrees_of_freedom(answer: Significance, arms: Arms) -> float | None:
    """Return the degrees of freedom by which samples are planned: of a permutation test those of its clusters."""
    if answer.alikeness is not None:
        return None if arms.groups is None else float(arms.groups - 1)
    return answer.dof[0] if answer.dof else None


def _above_0(p_value: float | None) -> float | None:
    return None if p_value is None else max(p_value, SMALLEST)


def bound_declared_arms(arms: Arms, alpha: float) -> Bounds:
    """Return the two one-sided bounds of the difference of means of arms that are already checked."""
    return _bounds(arms, alpha, "difference", "standard")


def _bounds(arms: Arms, alpha: float, estimand: Estimand, validity: Validity) -> Bounds:
    is_ratio = estimand == "ratio"
    if is_ratio and validity != "standard":
        raise ValueError(f"there is no {validity} margin for a ratio: see the table in stats.TABLE")
    row = choose_row("ratio margin" if is_ratio else validity_question("margin", validity), arms, estimand)
    try:
        low, high = (row.function(arms, alpha, side) for side in ("lower", "upper"))
    except NotEnoughData as refusal:
        return Bounds(low=None, high=None, method=row.method, note=str(refusal))
    if low is None or high is None:
        return Bounds(low=None, high=None, method=row.method, note=NO_VARIATION if is_ratio else NO_END)
    if is_ratio:
        return Bounds(low=low, high=high, method=row.method)
    # At a large alpha the pseudo-observations can move a bound beyond the estimate.
    estimate = _difference(arms)
    low, high = clip(min(low, estimate), arms.bounds), clip(max(high, estimate), arms.bounds)
    return Bounds(low=low, high=high, method=row.method)


def choose_row(question: Question, arms: Arms, estimand: Estimand) -> Row:
    design: Design = "two arms" if arms.differences is None else "pairs"
    # Logarithms of bounded values have no bounds.
    scale: Scale = "unbounded" if estimand == "ratio" else arms.scale
    return find_row(question, design, scale, clustered=arms.clustered)


def _status(arms: Arms, answer: Significance) -> Status:
    if answer.status != "ok":
        return answer.status
    # Pairs are degenerate when the differences do not vary, even if both arms do.
    varying = (arms.candidate, arms.baseline) if arms.differences is None else (arms.differences,)
    return "degenerate" if all(arm.is_constant for arm in varying) else "ok"


def _difference(arms: Arms) -> float:
    if arms.differences is not None:
        return arms.differences.mean or 0.0
    return distance(arms.candidate.mean or 0.0, arms.baseline.mean or 0.0)


def _ratio(arms: Arms, answer: Significance) -> float:
    if answer.estimate is not None:
        return answer.estimate
    # Too few values for a test, but the ratio itself can be shown.
    logs = logarithms(arms)
    return math.exp(mean(logs.candidate.values) - mean(logs.baseline.values))


def _check_numbers(
    alternative: Alternative, margin: float | None, validity: Validity, alpha: float, rng: int | np.random.Generator
) -> None:
    check_share(alpha, "alpha")
    if margin is not None and not 0 < margin < math.inf:
        raise ValueError(f"margin={margin!r} must be a number above 0: how much worse is still acceptable")
    if alternative != "two-sided" or margin is not None:
        _check_one_sided(alpha)
    if margin is None and validity == "guaranteed":
        raise ValueError(
            "validity='guaranteed' applies to the bounds of a margin: add margin=, for example margin=0.05"
        )
    if not isinstance(rng, int | np.integer | np.random.Generator):
        raise ValueError(f"rng must be a seed (a whole number) or a numpy Generator, not {rng!r}")


def _check_one_sided(alpha: float) -> None:
    check_share(alpha, "alpha")
    # From 0.5 on the lower bound would be above the upper one.
    if not alpha < 0.5:
        raise ValueError(f"a one-sided test or bound needs an alpha below 0.5, not {alpha!r}")
