"""The comparison of a candidate with a baseline: its numbers, verdict properties and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_crucible.stats.arrays import Alternative
from pytest_crucible.stats.inputs import Kind
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import number, p_equals, p_value, ratio, ratio_with_interval, with_interval
from pytest_crucible.stats.results import (
    Alikeness,
    Bounds,
    Effect,
    Rows,
    Status,
    in_clusters,
    interval_ends,
    log_ratio,
    note_rows,
    table,
)

Estimand = Literal["difference", "ratio"]
"""Difference of means (of 0/1 values: of rates), or ratio of geometric means."""
Direction = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """The candidate compared with the baseline, from `stats.compare`.

    Two questions have two tests. `p_value` asks whether the arms are alike: could the two replies to a sample be exchanged?
    `interval` and `proof_p` are about the mean difference, by bounds that are valid for every distribution within the range of
    the scores: proof_p is below alpha exactly when the interval excludes "no difference" (0; for a ratio 1). For pairs of yes
    and no both are one procedure. Scores without bounds have no valid bound of their mean: their interval is approximate.
    """

    estimand: Estimand
    estimate: float | None
    """Candidate minus baseline, or candidate over baseline."""
    interval: Interval | None
    p_value: float | None
    p_exact: float | None
    """McNemar's exact p for 0/1 pairs, the sign-flip p when all differences are equal; otherwise None."""
    effect: Effect | None
    """The effect size that is customary for the kind."""
    effects: tuple[Effect, ...]
    """Further effect sizes."""
    n_candidate: int
    n_baseline: int
    paired: bool
    clusters: int | None
    candidate: float | None
    """Mean (of a ratio: geometric mean) of the candidate."""
    baseline: float | None
    deviation: float | None
    """Standard deviation of paired differences; of clustered ones sqrt(n) * se, so that power sees the design effect."""
    kind: Kind
    method: str
    alternative: Alternative
    alpha: float
    direction: Direction = "higher"
    dof: float | None = None
    """Degrees of freedom of the standard error; None if the method has none."""
    proof_p: float | None = None
    """The two-sided p-value of the bounds in `interval`; None if they are approximate."""
    alikeness: Alikeness | None = None
    """The permutation test of `p_value`, with its arrangements and seed; None if it is of another test."""
    margin: float | None = None
    bounds: Bounds | None = None
    """The one-sided bounds that decide the margin; None without a margin."""
    status: Status = "ok"
    note: str = ""
    assumptions: tuple[str, ...] = ()
    """Assumptions of the method, with what these data show about them. They choose nothing."""

    @property
    def n(self) -> int:
        """Number of pairs, or of observations in both arms."""
        return self.n_candidate if self.paired else self.n_candidate + self.n_baseline

    @property
    def ci_low(self) -> float | None:
        return None if self.interval is None else self.interval.low

    @property
    def ci_high(self) -> float | None:
        return None if self.interval is None else self.interval.high

    @property
    def no_difference(self) -> float:
        """The value of the estimand when the arms do not differ."""
        return 1.0 if self.estimand == "ratio" else 0.0

    @property
    def significant(self) -> bool:
        return self.p_value is not None and self.p_value <= self.alpha

    @property
    def proven(self) -> bool:
        """Return whether the bounds show that the difference has its sign; `significant` says that the arms are not alike."""
        return self.proof_p is not None and self.proof_p <= self.alpha

    @property
    def non_inferior(self) -> bool | None:
        """Not worse by the margin: True, False, or None if the bounds do not decide or without a margin."""
        better, worse = self._bounds_towards_better()
        limit = self._limits()[0]
        if limit is None:
            return None
        # One bound is enough to decide; the other may be unknown.
        if worse is not None and worse > limit:
            return True
        return False if better is not None and better < limit else None

    @property
    def equivalent(self) -> bool | None:
        """Within the margin on both sides: True, False, or None if the bounds do not decide or without a margin."""
        better, worse = self._bounds_towards_better()
        low, high = self._limits()
        if low is None or high is None or better is None or worse is None:
            return None
        if worse > low and better < high:
            return True
        return False if better < low or worse > high else None

    def _bounds_towards_better(self) -> tuple[float | None, float | None]:
        """Return (upper, lower) bound of the candidate's improvement; ratios on the log scale, where 0 means equal."""
        if self.bounds is None:
            return None, None
        # On the log scale a ratio of 1.1 and its inverse are equally far from no difference.
        ends = [log_ratio(end) if self.estimand == "ratio" else end for end in (self.bounds.high, self.bounds.low)]
        if self.direction == "lower":
            # When lower is better, the improvement is the negative difference, and its bounds change places.
            ends = [None if end is None else -end for end in reversed(ends)]
        return ends[0], ends[1]

    def _limits(self) -> tuple[float | None, float | None]:
        if self.margin is None:
            return None, None
        # A margin of 0.1 allows a ratio of 1.1, and its inverse on the other side.
        margin = log_ratio(1 + self.margin) if self.estimand == "ratio" else self.margin
        return (None, None) if margin is None else (-margin, margin)

    @property
    def sentence(self) -> str:
        """The result in plain English, with conclusion and margin."""
        return _sentence(self)

    def __str__(self) -> str:
        return _line(self)

    def _repr_html_(self) -> str:
        return table(str(self), _rows(self), self.sentence)


def _line(result: ComparisonResult) -> str:
    what = "candidate - baseline" if result.estimand == "difference" else "candidate / baseline"
    p = "" if result.p_value is None else f", {p_equals(result.p_value)}"
    size = f", {result.effect}" if result.effect is not None and result.effect.value is not None else ""
    return f"{what}: {_answer(result)}, {_count(result)}{p}{size} ({result.method})"


def _sentence(result: ComparisonResult) -> str:
    """Return estimate, interval and n, then the conclusion about difference and margin."""
    if result.estimate is None:
        return f"The arms cannot be compared: {result.note or 'there are no values'}."
    sentence = f"On {_count(result)} the candidate's {_mean(result)} is {_by_how_much(result)}"
    if result.interval is None:
        sentence += f"; no interval can be given ({result.note}){_p_in_words(result)}"
    else:
        ends = interval_ends(result.interval, ratio if result.estimand == "ratio" else number)
        sentence += f" ({result.interval.level * 100:g} % interval {ends}{_p_in_words(result)})"
    conclusion = "" if result.p_value is None else f": {_conclusion(result)}"
    return f"{sentence}{conclusion}.{_margin(result)}"


def _rows(result: ComparisonResult) -> Rows:
    yield result.estimand, _answer(result)
    yield (
        "candidate, baseline",
        f"{number(result.candidate, result.interval)}, {number(result.baseline, result.interval)}",
    )
    yield "p", f"{p_value(result.p_value)} ({result.alternative})"
    yield from (("effect", str(effect)) for effect in (result.effect, *result.effects) if effect is not None)
    yield "n", _count(result)
    yield "method", result.method
    yield from _margin_rows(result)
    yield from (("assumes", text) for text in result.assumptions)
    yield from note_rows(result.note)


def _margin_rows(result: ComparisonResult) -> Rows:
    if result.bounds is None or result.margin is None:
        return
    sign = result.estimand == "difference"
    ends = ", ".join(
        number(end, result.interval, sign=True) if sign else ratio(end, result.interval)
        for end in (result.bounds.low, result.bounds.high)
    )
    interval = f"[{ends}]" if result.bounds.low is not None else f"none: {result.bounds.note}"
    yield f"one-sided bounds, margin {result.margin:g}", f"{interval} ({result.bounds.method})"
    states = {True: "yes", False: "no", None: "undecided"}
    yield (
        "not worse, equivalent",
        f"{states[result.non_inferior]}, {states[result.equivalent]} ({result.direction} is better)",
    )


def _answer(result: ComparisonResult) -> str:
    if result.estimand == "ratio":
        return ratio_with_interval(result.estimate, result.interval)
    return with_interval(result.estimate, result.interval, sign=True)


def _mean(result: ComparisonResult) -> str:
    if result.estimand == "ratio":
        return "geometric mean"
    return "rate" if result.kind == "binary" else "mean"


def _by_how_much(result: ComparisonResult) -> str:
    assert result.estimate is not None
    if result.estimand == "ratio":
        return f"{ratio(result.estimate, result.interval)} times the baseline's"
    if not result.estimate:
        return "the same as the baseline's"
    order = "higher" if result.estimate > 0 else "lower"
    return f"{number(abs(result.estimate), result.interval)} {order} than the baseline's"


def _conclusion(result: ComparisonResult) -> str:
    """Return the conclusion at alpha. It is never "no difference", only that none was shown."""
    assert result.estimate is not None
    # The absence of significance is never worded as equality.
    if not result.significant:
        return "which of the two is higher is not shown" if result.alternative == "two-sided" else _not_shown(result)
    order = "higher" if result.estimate > result.no_difference else "lower"
    level = f"at an error rate of {result.alpha * 100:g} %"
    if result.alikeness is not None and not result.proven:
        return f"the arms differ, {level}; that the candidate's mean is {order} is not shown"
    return f"the candidate is {order}, {level}"


def _not_shown(result: ComparisonResult) -> str:
    return f"that the candidate is {'higher' if result.alternative == 'greater' else 'lower'} is not shown"


def _margin(result: ComparisonResult) -> str:
    if result.margin is None:
        return ""
    claim = (
        _claim_of_ratio(result, result.margin)
        if result.estimand == "ratio"
        else _claim_of_difference(result, result.margin)
    )
    return f" {claim} ({result.direction} is better)."


def _claim_of_difference(result: ComparisonResult, margin: float) -> str:
    return {
        True: f"It is not worse by {margin:g} or more",
        False: f"It is worse by more than {margin:g}",
        None: f"Whether it is worse by {margin:g} is undecided",
    }[result.non_inferior]


def _claim_of_ratio(result: ComparisonResult, margin: float) -> str:
    """Return the claim with the limit as a multiple of the baseline: 10 % more is not the inverse of 10 % less."""
    limit = 1 + margin if result.direction == "lower" else 1 / (1 + margin)
    better, worse = ("below", "above") if result.direction == "lower" else ("above", "below")
    return {
        True: f"It is {better} {limit:.4g} times the baseline's",
        False: f"It is {worse} {limit:.4g} times the baseline's",
        None: f"Whether it is {worse} {limit:.4g} times the baseline's is undecided",
    }[result.non_inferior]


def _p_in_words(result: ComparisonResult) -> str:
    return "" if result.p_value is None else f", {p_equals(result.p_value)}"


def _count(result: ComparisonResult) -> str:
    if result.paired:
        return f"{result.n_candidate:,} pair{'s' * (result.n_candidate != 1)}{in_clusters(result.clusters)}"
    return f"{result.n_candidate:,} + {result.n_baseline:,} samples{in_clusters(result.clusters)}"
