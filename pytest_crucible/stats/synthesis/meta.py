"""Meta-analysis: the results of several suites, languages or model versions combined, with their heterogeneity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from pytest_crucible.stats.arrays import ROUNDING, Array, check_share, finite
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import p_equals, with_interval, with_note
from pytest_crucible.stats.synthesis.heterogeneity import (
    Estimator,
    between_variance,
    cochran_q,
    q_profile_interval,
    typical_variance,
    weighted_mean,
)
from pytest_crucible.stats.tails import normal_interval, normal_p_value, t_interval, t_p_value

Model = Literal["fixed", "reml", "paule-mandel", "dersimonian-laird"]
"""One true effect for all studies, or effects that differ, with their variance estimated in one of three ways."""
Adjustment = Literal["hartung-knapp", "modified", "none"]
"""The standard error of a random-effects mean: from the observed spread, t; the same but never below the usual one
(Knapp & Hartung's ad hoc correction); the usual one, normal, which errs too often with few studies."""
_ESTIMATORS: dict[Model, Estimator] = {
    "reml": "reml",
    "paule-mandel": "paule-mandel",
    "dersimonian-laird": "dersimonian-laird",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One study of a meta-analysis, which is one line of a forest plot."""

    label: str
    estimate: float
    interval: Interval
    weight: float
    """Its weight in the mean; the weights of all studies sum to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaAnalysis:
    """The mean over studies and the heterogeneity of their true effects."""

    estimate: float
    interval: Interval | None
    """None if all studies agree to the last digit and the adjustment takes its error from their spread."""
    se: float
    statistic: float | None
    p_value: float | None
    """Test of "the mean effect is 0", from the statistic of the interval."""
    tau2: float
    """Variance of the true effects; 0 in the fixed model."""
    tau2_interval: Interval
    i2: float
    """Share of the variance between results that is not sampling error, 0 to 1."""
    i2_interval: Interval
    q: float
    """Cochran's Q against "all studies have one effect"."""
    q_p_value: float
    prediction: Interval | None
    """Interval for the true effect of one more study; None in the fixed model."""
    studies: tuple[Study, ...]
    method: str
    note: str = ""

    def __str__(self) -> str:
        summary = f"{with_interval(self.estimate, self.interval, sign=True)}, {p_equals(self.p_value)}, I2 {100 * self.i2:.0f} %"
        return with_note(f"{summary}, studies={len(self.studies)} ({self.method})", self.note)


def meta_analysis(
    estimates: npt.ArrayLike,
    standard_errors: npt.ArrayLike,
    *,
    model: Model = "reml",
    adjustment: Adjustment = "hartung-knapp",
    labels: Sequence[str] | None = None,
    level: float = 0.95,
) -> MetaAnalysis:
    """Return the mean of the estimates of independent studies, with the heterogeneity between them.

    R: metafor::rma(yi, sei=, method="REML", test="knha"; "adhoc" for the modified one), I^2 and tau^2 intervals by
    confint, prediction interval by predict (its quantile is that of the interval). Hartung & Knapp 2001, Sidik &
    Jonkman 2002; REML after Viechtbauer 2005; I^2 of Higgins & Thompson 2002. The adjustment does not touch the fixed
    model. Raises ValueError for standard errors that are not above 0, NotEnoughData below 2 studies.

    >>> result = meta_analysis([0.10, 0.30, 0.35, 0.65], [0.1, 0.1, 0.1, 0.1])
    >>> round(result.estimate, 4), round(result.tau2, 4), round(result.p_value, 4)
    (0.35, 0.0417, 0.0542)
    """
    effects, errors = _studies(estimates, standard_errors, labels)
    _check_options(model, adjustment, level)
    # Weights are inverse variances.
    variances = errors**2
    tau2 = 0.0 if model == "fixed" else between_variance(effects, variances, _ESTIMATORS[model])
    weights = 1 / (variances + tau2)
    q, spread = cochran_q(effects, variances), q_profile_interval(effects, variances, level=level)
    mean = _mean(effects, weights, model, adjustment, level)
    return MetaAnalysis(
        estimate=mean.estimate,
        interval=mean.interval(mean.se),
        se=mean.se,
        statistic=mean.estimate / mean.se if mean.se else None,
        p_value=mean.p_value(),
        tau2=tau2,
        tau2_interval=spread,
        i2=_i2(tau2, q, variances, model),
        i2_interval=_i2_interval(spread, variances),
        q=q,
        q_p_value=float(chdtrc(effects.size - 1, q)),
        prediction=None if model == "fixed" else mean.interval(math.hypot(mean.se, math.sqrt(tau2))),
        studies=_forest(effects, errors, weights, labels, level),
        method=mean.method,
        note=_note(effects.size, mean.se),
    )


@dataclass(frozen=True, slots=True)
class _Mean:
    estimate: float
    se: float
    dof: int | None
    level: float
    method: str

    def interval(self, se: float) -> Interval | None:
        """Return the interval around the mean for a standard error; the prediction interval has its own."""
        if not se:
            return None
        if self.dof is None:
            return normal_interval(self.estimate, se, level=self.level, method=self.method)
        return t_interval(self.estimate, se, self.dof, level=self.level, method=self.method)

    def p_value(self) -> float | None:
        if not self.se:
            return None
        z = self.estimate / self.se
        return normal_p_value(z) if self.dof is None else t_p_value(z, self.dof)


def _mean(effects: Array, weights: Array, model: Model, adjustment: Adjustment, level: float) -> _Mean:
    estimate, plain_se, dof = weighted_mean(effects, weights), 1 / math.sqrt(float(weights.sum())), effects.size - 1
    if model == "fixed" or adjustment == "none":
        return _Mean(
            estimate, plain_se, None, level, "fixed effect" if model == "fixed" else f"random effects, {model}"
        )
    spread = float(weights @ (effects - estimate) ** 2) / dof
    if adjustment == "modified":
        # Knapp & Hartung's ad hoc correction: few agreeing studies must not shrink the standard error.
        spread = max(1.0, spread)
    # Equal effects differ by rounding only, and would get a tiny standard error.
    elif np.ptp(effects) <= ROUNDING * float(np.abs(effects).max()):
        spread = 0.0
    return _Mean(estimate, math.sqrt(spread) * plain_se, dof, level, f"random effects, {model}, {adjustment}")


def _i2(tau2: float, q: float, variances: Array, model: Model) -> float:
    if model == "fixed":
        return max(0.0, 1 - (variances.size - 1) / q) if q else 0.0
    # Higgins & Thompson 2002, with the estimated tau^2 as metafor does; the fixed model uses Q.
    return tau2 / (tau2 + typical_variance(variances))


def _i2_interval(tau2: Interval, variances: Array) -> Interval:
    typical = typical_variance(variances)
    low, high = tau2.low / (tau2.low + typical), tau2.high / (tau2.high + typical)
    return Interval(low=low, high=high, level=tau2.level, method=tau2.method)


def _forest(
    effects: Array, errors: Array, weights: Array, labels: Sequence[str] | None, level: float
) -> tuple[Study, ...]:
    names = labels if labels is not None else [f"study {number}" for number in range(1, effects.size + 1)]
    shares = weights / weights.sum()
    return tuple(
        Study(
            label=label,
            estimate=float(effect),
            interval=normal_interval(float(effect), float(error), level=level, method="normal"),
            weight=float(share),
        )
        for label, effect, error, share in zip(names, effects, errors, shares, strict=True)
    )


def _note(studies: int, se: float) -> str:
    if not se:
        return "all studies agree exactly: their spread gives no standard error, use adjustment='modified'"
    return f"{studies} studies: heterogeneity is poorly estimated below 5" if studies < 5 else ""


def _studies(
    estimates: npt.ArrayLike, standard_errors: npt.ArrayLike, labels: Sequence[str] | None
) -> tuple[Array, Array]:
    effects, errors = finite(estimates, name="estimates"), finite(standard_errors, name="standard errors")
    lengths = {effects.size, errors.size} | (set() if labels is None else {len(labels)})
    if len(lengths) > 1:
        raise ValueError(
            f"estimates, standard errors and labels differ in length, {sorted(lengths)}: give one of each per study"
        )
    if effects.size < 2:
        raise NotEnoughData(f"{effects.size} study: a meta-analysis needs at least 2")
    not_positive = int((errors <= 0).sum())
    if not_positive:
        raise ValueError(
            f"{not_positive} of {errors.size} standard errors are not above 0: such a study would take all the weight"
        )
    return effects, errors


def _check_options(model: Model, adjustment: Adjustment, level: float) -> None:
    check_share(level, "level")
    if model != "fixed" and model not in _ESTIMATORS:
        raise ValueError(f"model must be one of fixed, {', '.join(_ESTIMATORS)}, not {model!r}")
    if adjustment not in ("hartung-knapp", "modified", "none"):
        raise ValueError(f'adjustment must be "hartung-knapp", "modified" or "none", not {adjustment!r}')
