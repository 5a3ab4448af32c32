"""Two arms: the one front door for "is the treatment better than the control, and by how much?"."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.stats.answers import Bounds, Comparison, Direction, Estimand, Significance, Status
from pytest_crucible.stats.assumptions import MANY_CLUSTERS, of_two_arms
from pytest_crucible.stats.choose import Design, Question, Row, row
from pytest_crucible.stats.declared import OPEN, Arms, Kind, Scale, declared_arms, declared_pairs, mean
from pytest_crucible.stats.estimating import NO_VARIATION, averaged, cut, inside, known_kind, refused, spread
from pytest_crucible.stats.means.point_mass import distance
from pytest_crucible.stats.methods.ratios import check_positive, geometric_mean, logarithms
from pytest_crucible.stats.observations import Alternative, Labels, Range, check_choice, check_share, is_constant
from pytest_crucible.stats.sensitivity import Asked, second_opinions
from pytest_crucible.stats.sizes import effect_sizes
from pytest_crucible.stats.validity import Validity, margin_question

RATIO: Range = (0.0, math.inf)
SMALLEST = math.ulp(0.0)
"""No p-value is 0: what a float cannot hold is shown as the smallest that it can."""


def compare(
    control: npt.ArrayLike,
    treatment: npt.ArrayLike,
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
    sensitivity: bool = False,
    rng: int | np.random.Generator = 0,
) -> Comparison:
    """Treatment minus control with interval, p-value, sizes of effect and one sentence; the method is that of `stats.TABLE`.

    `control` and `treatment` have one entry a sample, or one row a sample and one column a repeat (averaged inside the
    sample first); pairs are matched by position: the index of a pandas Series is not looked at. `kind` is declared, or
    inferred from both arms together; every kind estimates a difference of means (of 0/1 values: of rates), so an
    inferred kind never changes what is asked. `estimand="ratio"` asks for the ratio of geometric means of positive values
    instead, as latencies want it.

    `clusters` has one label a pair; independent arms take (control's labels, treatment's), or one sequence for both,
    and an equal label in both arms is the same cluster. `margin` adds the one-sided bounds that decide `non_inferior`
    and `equivalent`: how much worse is still acceptable. For a ratio it is a share: 0.1 accepts up to 1.1 times the
    control's where `direction` says that lower is better, down to 1 / 1.1 times where higher is.
    `validity="guaranteed"` takes bounds that never err too often, at a cost in power. `sensitivity=True` adds what
    other methods say; they may draw from `rng`.

    Raises ValueError for empty or unequal arms, for NaN (with their count), values out of bounds, values of 0 in a ratio,
    missing labels, a margin that no two values can exceed, and options that do not exist.

    >>> print(compare([0, 1, 1, 0, 0, 1, 0, 0, 1, 0], [1, 1, 1, 0, 1, 1, 1, 0, 1, 1]))
    treatment - control: +0.400 [+0.011, +0.687], 10 pairs, p = 0.046, discordant odds ratio inf [0.660, inf] (tango)
    """
    _check_options(alternative, estimand, direction, validity)
    _check_numbers(alternative, margin, validity, alpha, rng)
    arms, repeats = _arms(control, treatment, paired, kind, bounds, clusters)
    answer = comparison(arms, alternative=alternative, alpha=alpha, estimand=estimand, repeats=repeats)
    answer = replace(answer, direction=direction)
    if margin is not None:
        _check_margin(margin, arms, estimand)
        answer = replace(answer, margin=float(margin), bounds=_bounds(arms, alpha, estimand, validity))
    if sensitivity:
        opinions = second_opinions(Asked(arms, alternative, alpha, rng, estimand))
        answer = replace(answer, sensitivity=opinions, seed=None if isinstance(rng, np.random.Generator) else int(rng))
    return answer


def difference_bounds(
    control: npt.ArrayLike,
    treatment: npt.ArrayLike,
    paired: bool = True,
    *,
    kind: Kind | str = "auto",
    bounds: Range | None = None,
    clusters: Labels | tuple[Labels, Labels] | None = None,
    alpha: float = 0.05,
    validity: Validity = "standard",
) -> Bounds:
    """The two one-sided bounds of treatment - control that a margin is judged by, alone. Arguments as in `compare`.

    >>> result = difference_bounds([1] * 50, [1] * 50)
    >>> round(result.low, 4), round(result.high, 4)
    (-0.0513, 0.0513)
    """
    _check_one_sided(alpha)
    arms, _ = _arms(control, treatment, paired, kind, bounds, clusters)
    return _bounds(arms, alpha, "difference", validity)


def comparison(
    arms: Arms,
    *,
    alternative: Alternative,
    alpha: float,
    estimand: Estimand = "difference",
    repeats: tuple[int, ...] = (1,),
) -> Comparison:
    """The answer without margin and sensitivity, for arms that are already checked."""
    chosen = row_of("ratio" if estimand == "ratio" else "compare", arms, estimand)
    if estimand == "ratio":
        check_positive(arms)
    found, note = ask(chosen, arms, alternative, alpha)
    effect, *effects = effect_sizes(arms, 1 - alpha, estimand)
    if not note and arms.groups is not None and arms.groups < MANY_CLUSTERS:
        note = f"only {arms.groups} clusters: below {MANY_CLUSTERS} the interval leans on its small-sample correction"
    differences = arms.differences
    centre = geometric_mean if estimand == "ratio" else mean
    return Comparison(
        estimand=estimand,
        estimate=_ratio(arms, found) if estimand == "ratio" else _difference(arms),
        interval=inside(found.interval, RATIO if estimand == "ratio" else arms.bounds),
        p_value=_above_0(found.p_value),
        p_exact=_above_0(found.p_exact),
        effect=effect,
        effects=tuple(effects),
        n_treatment=arms.treatment.values.size,
        n_control=arms.control.values.size,
        paired=differences is not None,
        clusters=arms.groups,
        treatment=centre(arms.treatment.values),
        control=centre(arms.control.values),
        deviation=None if differences is None else spread(differences),
        kind=arms.treatment.kind,
        method=chosen.method,
        alternative=alternative,
        alpha=alpha,
        status=_status(arms, found),
        note=note,
        assumptions=of_two_arms(arms, estimand, repeats),
    )


def _arms(
    control: npt.ArrayLike,
    treatment: npt.ArrayLike,
    paired: bool,
    kind: Kind | str,
    bounds: Range | None,
    clusters: Labels | tuple[Labels, Labels] | None,
) -> tuple[Arms, tuple[int, ...]]:
    if not isinstance(paired, bool | np.bool_):
        raise ValueError(f"paired is True or False, not {paired!r}")
    (ours, repeats), (theirs, others) = averaged(treatment), averaged(control)
    if not ours.size or not theirs.size:
        raise ValueError(f"{theirs.size} control and {ours.size} treatment values: a comparison needs both")
    known = known_kind(kind, bounds, np.ravel(treatment), np.ravel(control))
    limits = OPEN if bounds is None else bounds
    if paired:
        of_pairs = cast("Labels | None", clusters)
        return declared_pairs(ours, theirs, kind=known, bounds=limits, clusters=of_pairs), (repeats, others)
    labels = None if clusters is None else _labels_of_both(clusters)
    return declared_arms(ours, theirs, kind=known, bounds=limits, clusters=labels), (repeats, others)


def _labels_of_both(clusters: Labels | tuple[Labels, Labels]) -> tuple[Labels, Labels]:
    """(treatment's, control's); one sequence names those of both arms, label by label."""
    of_each = len(clusters) == 2 and all(hasattr(one, "__len__") and not isinstance(one, str) for one in clusters)
    control, treatment = clusters if of_each else (clusters, clusters)
    return cast("Labels", treatment), cast("Labels", control)


def ask(chosen: Row, arms: Arms, alternative: Alternative, alpha: float) -> tuple[Significance, str]:
    """The method's answer, and a note that says why there is no interval."""
    try:
        found: Significance = chosen.function(arms, 1 - alpha, alternative)
    except NotEnoughData as refusal:
        status = refused(arms.groups)
        return Significance(method=chosen.method, statistic=None, p_value=None, status=status), str(refusal)
    unknown = found.interval is None and (arms.scale == "unbounded" or chosen.question == "ratio")
    return found, NO_VARIATION if unknown else found.note


def _above_0(p_value: float | None) -> float | None:
    return None if p_value is None else max(p_value, SMALLEST)


def _bounds(arms: Arms, alpha: float, estimand: Estimand, validity: Validity) -> Bounds:
    if estimand == "ratio":
        if validity != "standard":
            raise ValueError(f"there is no {validity} margin for a ratio: see the table in stats.TABLE")
        return _bounds_of_ratio(arms, alpha)
    chosen = row_of(margin_question("margin", validity), arms, estimand)
    try:
        low, high = (chosen.function(arms, alpha, side) for side in ("lower", "upper"))
    except NotEnoughData as refusal:
        return Bounds(low=None, high=None, method=chosen.method, note=str(refusal))
    if low is None or high is None:
        return Bounds(low=None, high=None, method=chosen.method, note=NO_VARIATION)
    seen = _difference(arms)  # at a large alpha pseudo-observations may draw a bound past it
    low, high = cut(min(low, seen), arms.bounds), cut(max(high, seen), arms.bounds)
    return Bounds(low=low, high=high, method=chosen.method)


def _bounds_of_ratio(arms: Arms, alpha: float) -> Bounds:
    """The interval at 1 - 2 alpha has the two one-sided bounds as its ends."""
    chosen = row_of("ratio", arms, "ratio")
    try:
        interval = chosen.function(arms, 1 - 2 * alpha).interval
    except NotEnoughData as refusal:
        return Bounds(low=None, high=None, method=chosen.method, note=str(refusal))
    if interval is None:
        return Bounds(low=None, high=None, method=chosen.method, note=NO_VARIATION)
    return Bounds(low=interval.low, high=interval.high, method=chosen.method)


def row_of(question: Question, arms: Arms, estimand: Estimand) -> Row:
    design: Design = "two arms" if arms.differences is None else "pairs"
    scale: Scale = "unbounded" if estimand == "ratio" else arms.scale  # logarithms have no bounds
    return row(question, design, scale, clustered=arms.clustered)


def _status(arms: Arms, found: Significance) -> Status:
    if found.status != "ok":
        return found.status
    varying = (arms.treatment, arms.control) if arms.differences is None else (arms.differences,)
    return "degenerate" if all(is_constant(one.values) for one in varying) else "ok"


def _difference(arms: Arms) -> float:
    if arms.differences is not None:
        return mean(arms.differences.values)
    return distance(mean(arms.treatment.values), mean(arms.control.values))


def _ratio(arms: Arms, found: Significance) -> float:
    if found.estimate is not None:
        return found.estimate
    logs = logarithms(arms)  # too few to compare, but not to look at
    return math.exp(mean(logs.treatment.values) - mean(logs.control.values))


def _check_options(alternative: Alternative, estimand: Estimand, direction: Direction, validity: Validity) -> None:
    check_choice(alternative, get_args(Alternative), "alternative")
    check_choice(estimand, get_args(Estimand), "estimand")
    check_choice(direction, get_args(Direction), "direction")
    check_choice(validity, get_args(Validity), "validity")


def _check_numbers(
    alternative: Alternative, margin: float | None, validity: Validity, alpha: float, rng: int | np.random.Generator
) -> None:
    check_share(alpha, "alpha")
    if margin is not None and not 0 < margin < math.inf:
        raise ValueError(f"a margin is how much worse is still acceptable, a number above 0, not {margin!r}")
    if alternative != "two-sided" or margin is not None:
        _check_one_sided(alpha)
    if margin is None and validity == "guaranteed":
        raise ValueError("only bounds are guaranteed, not interval and p-value: add the margin that they are to decide")
    if not isinstance(rng, int | np.integer | np.random.Generator):
        raise ValueError(f"rng is a seed, so that the answer can be had again, or a numpy Generator, not {rng!r}")


def _check_one_sided(alpha: float) -> None:
    check_share(alpha, "alpha")
    if not alpha < 0.5:
        raise ValueError(f"a one-sided question needs an alpha below 0.5, not {alpha!r}")


def _check_margin(margin: float, arms: Arms, estimand: Estimand) -> None:
    if estimand == "difference" and margin >= arms.bounds[1]:
        raise ValueError(f"the margin is {margin:g}, and no two values are further apart than {arms.bounds[1]:g}")
