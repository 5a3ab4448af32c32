"""Two arms: the one front door for "is the treatment better than the control, and by how much?"."""

from __future__ import annotations

from dataclasses import replace
from typing import cast, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Bounds, Comparison, Direction, Estimand, Significance, Status
from pytest_crucible.stats.assumptions import MANY_CLUSTERS, of_two_arms
from pytest_crucible.stats.choose import Design, Row, row
from pytest_crucible.stats.declared import OPEN, Arms, Kind, declared_arms, declared_pairs
from pytest_crucible.stats.estimating import NO_VARIATION, averaged, cut, inside, known_kind, spread, status_of
from pytest_crucible.stats.means.clustered import FEWEST_CLUSTERS
from pytest_crucible.stats.methods.ratios import geometric_mean
from pytest_crucible.stats.observations import Alternative, Labels, Range, check_share
from pytest_crucible.stats.sensitivity import Asked, second_opinions
from pytest_crucible.stats.sizes import effect_sizes
from pytest_crucible.stats.validity import Validity, margin_question

RATIO: Range = (0.0, float("inf"))


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
    sample first); pairs are matched by index. `kind` is declared, or inferred from both arms together; every kind
    estimates a difference of means (of 0/1 values: of rates), so an inferred kind never changes what is asked.
    `estimand="ratio"` asks for the ratio of geometric means of positive values instead, as latencies want it.

    `clusters` has one label a pair; independent arms take (control's labels, treatment's), or one sequence for both,
    and an equal label in both arms is the same cluster. `margin` adds the one-sided bounds that decide `non_inferior`
    and `equivalent`: how much worse is acceptable, for a ratio as a share; `direction` says which way is better.
    `validity="guaranteed"` takes bounds that never err too often, at a cost in power. `sensitivity=True` adds what
    other methods say; they may draw from `rng`.

    Raises ValueError for empty or unequal arms, for NaN (with their count), values out of bounds and missing labels.

    >>> print(compare([0, 1, 1, 0, 0, 1, 0, 0, 1, 0], [1, 1, 1, 0, 1, 1, 1, 0, 1, 1]))
    treatment - control: +0.400 [+0.011, +0.687], 10 pairs, p = 0.046, discordant odds ratio inf [0.660, inf] (tango)
    """
    _check(alternative, estimand, direction, margin, alpha)
    arms, repeats = _arms(control, treatment, paired, kind, bounds, clusters)
    answer = comparison(arms, alternative=alternative, alpha=alpha, estimand=estimand, repeats=repeats)
    if margin is not None:
        limits = _bounds(arms, alpha, estimand, validity)
        answer = replace(answer, margin=margin, bounds=limits, direction=direction)
    if sensitivity:
        opinions = second_opinions(Asked(arms, alternative, alpha, rng))
        answer = replace(answer, sensitivity=opinions, seed=rng if isinstance(rng, int) else None)
    return replace(answer, direction=direction)


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
    check_share(alpha, "alpha")
    arms, _ = _arms(control, treatment, paired, kind, bounds, clusters)
    return _bounds(arms, alpha, "difference", validity)


def comparison(
    arms: Arms, *, alternative: Alternative, alpha: float, estimand: Estimand = "difference", repeats: int = 1
) -> Comparison:
    """The answer without margin and sensitivity, for arms that are already checked."""
    chosen = row_of("ratio" if estimand == "ratio" else "compare", arms, estimand)
    found, note = ask(chosen, arms, alternative, alpha)
    effect, *effects = effect_sizes(arms, 1 - alpha)
    if estimand == "ratio":  # it heads the sizes of effect of positive values, and is the answer here
        effect, *effects = effects
    if not note and arms.groups is not None and arms.groups < MANY_CLUSTERS:
        note = f"only {arms.groups} clusters: below {MANY_CLUSTERS} the interval leans on its small-sample correction"
    differences = arms.differences
    centre = geometric_mean if estimand == "ratio" else _mean
    return Comparison(
        estimand=estimand,
        estimate=found.estimate if estimand == "ratio" else _difference(arms),
        interval=inside(found.interval, RATIO if estimand == "ratio" else arms.bounds),
        p_value=found.p_value,
        p_exact=found.p_exact,
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
) -> tuple[Arms, int]:
    (ours, repeats), (theirs, others) = averaged(treatment), averaged(control)
    if not ours.size or not theirs.size:
        raise ValueError(f"{theirs.size} control and {ours.size} treatment values: a comparison needs both")
    known = known_kind(kind, bounds, ours, theirs)
    limits = OPEN if bounds is None else bounds
    if paired:
        of_pairs = cast("Labels | None", clusters)
        return declared_pairs(ours, theirs, kind=known, bounds=limits, clusters=of_pairs), max(repeats, others)
    labels = None if clusters is None else _labels_of_both(clusters)
    return declared_arms(ours, theirs, kind=known, bounds=limits, clusters=labels), max(repeats, others)


def _labels_of_both(clusters: Labels | tuple[Labels, Labels]) -> tuple[Labels, Labels]:
    """(treatment's, control's); one sequence names those of both arms, label by label."""
    if isinstance(clusters, tuple) and len(clusters) == 2 and not isinstance(clusters[0], str | int | float):
        return cast("Labels", clusters[1]), cast("Labels", clusters[0])
    return cast("Labels", clusters), cast("Labels", clusters)


def ask(chosen: Row, arms: Arms, alternative: Alternative, alpha: float) -> tuple[Significance, str]:
    """The method's answer, turned to one side if that was asked, and a note that says why there is no interval."""
    level = 1 - alpha if alternative == "two-sided" else 1 - 2 * alpha
    try:
        found: Significance = chosen.function(arms, level)
    except NotEnoughData as refusal:
        return Significance(method=chosen.method, statistic=None, p_value=None), str(refusal)
    if alternative != "two-sided":
        found = _one_sided(found, alternative, alpha, null=1.0 if chosen.question == "ratio" else 0.0)
    return found, found.note or ("" if found.interval is not None else NO_VARIATION)


def _one_sided(found: Significance, alternative: Alternative, alpha: float, null: float) -> Significance:
    """All statistics of the table are symmetric: half the two-sided p on the side where the estimate lies."""
    if found.p_value is None or found.estimate is None:
        return found
    towards = found.estimate >= null if alternative == "greater" else found.estimate <= null
    half = found.p_value / 2
    interval = found.interval
    if interval is not None:
        low, high = (interval.low, np.inf) if alternative == "greater" else (-np.inf, interval.high)
        interval = Interval(low=float(low), high=float(high), level=1 - alpha, method=interval.method)
    return replace(found, p_value=half if towards else 1 - half, p_exact=None, interval=interval)


def _bounds(arms: Arms, alpha: float, estimand: Estimand, validity: Validity) -> Bounds:
    if estimand == "ratio":
        return _bounds_of_ratio(arms, alpha)
    chosen = row_of(margin_question("margin", validity), arms, estimand)
    try:
        low, high = (chosen.function(arms, alpha, side) for side in ("lower", "upper"))
    except NotEnoughData as refusal:
        return Bounds(low=None, high=None, method=chosen.method, note=str(refusal))
    if low is None or high is None:
        return Bounds(low=None, high=None, method=chosen.method, note=NO_VARIATION)
    return Bounds(low=cut(low, arms.bounds), high=cut(high, arms.bounds), method=chosen.method)


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


def row_of(question: str, arms: Arms, estimand: Estimand) -> Row:
    design: Design = "two arms" if arms.differences is None else "pairs"
    scale = "unbounded" if estimand == "ratio" else arms.scale  # logarithms have no bounds
    return row(question, design, scale, clustered=arms.clustered)  # type: ignore[arg-type]


def _status(arms: Arms, found: Significance) -> Status:
    if arms.differences is not None:
        status = status_of(arms.differences)
        if arms.differences.values.size < 2:
            return "insufficient_data"
        return found.status if status == "ok" else status
    both = {status_of(arms.treatment), status_of(arms.control)}
    if "insufficient_clusters" in both and (arms.groups or 0) < FEWEST_CLUSTERS:
        return "insufficient_clusters"
    return "insufficient_data" if "insufficient_data" in both else found.status


def _difference(arms: Arms) -> float:
    seen = arms.differences
    return _mean(seen.values) if seen is not None else _mean(arms.treatment.values) - _mean(arms.control.values)


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(values.mean())


def _check(
    alternative: Alternative, estimand: Estimand, direction: Direction, margin: float | None, alpha: float
) -> None:
    check_share(alpha, "alpha")
    for name, given, known in (
        ("alternative", alternative, get_args(Alternative)),
        ("estimand", estimand, get_args(Estimand)),
        ("direction", direction, get_args(Direction)),
    ):
        if given not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {given!r}")
    if margin is not None and not margin > 0:
        raise ValueError(f"a margin is how much worse is still acceptable, above 0, not {margin!r}")
    if alternative != "two-sided" and not alpha < 0.5:
        raise ValueError(f"a one-sided question needs an alpha below 0.5, not {alpha!r}")
