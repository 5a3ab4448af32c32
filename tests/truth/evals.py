"""Evaluations whose truth is known: what two models answer to the same samples, drawn again and again.

Behind every answer is a latent normal number: what the samples about one passage share, what makes a passage suit one arm,
how hard the sample is, how well it suits the arm, and chance. A law turns it into a score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
Truth = Literal["exchangeable arms", "equal arms of other shape", "an effect"]
Scale = Literal["binary", "bounded", "unbounded"]
TRUTHS: tuple[Truth, ...] = get_args(Truth)
PASSAGE = 5
"""Samples about one passage."""
REPEATS = 4

# -- laws: from chances between 0 and 1 to scores ------------------------------------------------------------------


class Law(NamedTuple):
    """The distribution of an arm's scores over all samples, and the means that the statistics estimate."""

    scores: Callable[[Array], Array]
    """The quantile function."""
    mean: float
    geometric_mean: float = math.nan


def right(rate: float) -> Law:
    """1 at this rate, otherwise 0."""
    return Law(lambda chances: (chances > 1 - rate).astype(np.float64), rate)


def zeros_and_scores(zeros: float, power: float) -> Law:
    """0 in a share of the answers; in the others u^(1/power), whose mean is power / (power + 1)."""
    return Law(
        lambda chances: (np.maximum(chances - zeros, 0.0) / (1 - zeros)) ** (1 / power),
        (1 - zeros) * power / (power + 1),
    )


def disasters(rate: float, smallest: float) -> Law:
    """1, but at this rate something between 0 and 1 - smallest."""
    return Law(
        lambda chances: np.where(chances < rate, (1 - smallest) * chances / rate, 1.0),
        1 - rate * (1 + smallest) / 2,
    )


def levels(*shares: float) -> Law:
    """The levels 1, 2, ... with these shares."""
    ends = np.cumsum(shares)[:-1]
    mean = sum(level * share for level, share in enumerate(shares, 1))
    return Law(lambda chances: 1.0 + np.searchsorted(ends, chances), mean)


def seconds(median: float, tail: float) -> Law:
    """Log-logistic: the share of longer ones falls like seconds^-tail, so that moments from `tail` on are infinite."""
    mean = median * (math.pi / tail) / math.sin(math.pi / tail)
    return Law(lambda chances: median * (chances / (1 - chances)) ** (1 / tail), mean, median)


def rewards(mean: float, scale: float) -> Law:
    """Logistic: symmetric, with tails somewhat heavier than normal ones."""
    return Law(lambda chances: mean + scale * np.log(chances / (1 - chances)), mean)


# -- evaluations ---------------------------------------------------------------------------------------------------


class Shares(NamedTuple):
    """The shares of the latent number's variance; the rest is chance."""

    passage: float = 0.0
    passage_and_arm: float = 0.0
    sample: float = 0.0
    sample_and_arm: float = 0.0

    @property
    def chance(self) -> float:
        return max(1 - sum(self), 0.0)


class Arm(NamedTuple):
    law: Law
    shares: Shares


class Drawn(NamedTuple):
    """Scores of both arms, runs x samples (x repeats), and the candidate's true difference or ratio."""

    baseline: Array
    candidate: Array
    truth: float
    clusters: Codes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Eval:
    """A kind of evaluation: a baseline, and what the other arm is like under each truth."""

    kind: str
    bounds: tuple[float, float] | None
    baseline: Arm
    candidates: Mapping[Truth, Arm]
    repeats: int = 1
    estimand: Literal["difference", "ratio"] = "difference"

    @property
    def clustered(self) -> bool:
        return self.baseline.shares.passage + self.baseline.shares.passage_and_arm > 0

    @property
    def scale(self) -> Scale:
        """The kind that decides the method: the mean of several 0s and 1s is a score."""
        if self.kind == "binary":
            return "binary" if self.repeats == 1 else "bounded"
        return "unbounded" if self.bounds is None else "bounded"

    @property
    def declared(self) -> dict[str, Any]:
        """The declared facts of the statistics."""
        return {"kind": self.kind, "bounds": self.bounds}

    def draw(
        self,
        rng: np.random.Generator,
        runs: int,
        n: int,
        truth: Truth,
        *,
        paired: bool = True,
        passages: Codes | None = None,
    ) -> Drawn:
        """Both arms of `runs` experiments. Arms that are not paired answer other samples, about other passages."""
        candidate, passages = self.candidates[truth], np.arange(n) // PASSAGE if passages is None else passages
        common = _common(rng, runs, passages)
        baseline = self._answers(rng, self.baseline, common, passages)
        common = common if paired else _common(rng, runs, passages)
        ours, theirs = candidate.law, self.baseline.law
        ratio = ours.geometric_mean / theirs.geometric_mean
        return Drawn(
            baseline=baseline,
            candidate=self._answers(rng, candidate, common, passages),
            truth=ratio if self.estimand == "ratio" else ours.mean - theirs.mean,
            clusters=passages if self.clustered else None,
        )

    def _answers(self, rng: np.random.Generator, arm: Arm, common: tuple[Array, Array], passages: Codes) -> Array:
        (passage, sample), shares = common, arm.shares
        latent = math.sqrt(shares.sample) * sample
        if self.clustered:
            own = math.sqrt(shares.passage_and_arm) * rng.standard_normal(passage.shape)
            latent += (math.sqrt(shares.passage) * passage + own)[:, passages]
        if shares.sample_and_arm:
            latent += math.sqrt(shares.sample_and_arm) * rng.standard_normal(sample.shape)
        if self.repeats > 1:
            latent = np.repeat(latent[..., None], self.repeats, axis=2)
        if shares.chance:
            latent = latent + math.sqrt(shares.chance) * rng.standard_normal(latent.shape)
        return arm.law.scores(ndtr(latent))


def _common(rng: np.random.Generator, runs: int, passages: Codes) -> tuple[Array, Array]:
    return rng.standard_normal((runs, int(passages[-1]) + 1)), rng.standard_normal((runs, passages.size))


def _eval(kind: str, bounds: tuple[float, float] | None, laws: tuple[Law, Law, Law], *shares: Shares) -> Eval:
    """`laws` are the baseline's, an equal one of other shape, and one with an effect; `shares` those of all and of the second."""
    same, shaped, better = laws
    arms = Arm(same, shares[0]), Arm(shaped, shares[-1]), Arm(better, shares[0])
    return Eval(kind=kind, bounds=bounds, baseline=arms[0], candidates=dict(zip(TRUTHS, arms, strict=True)))


def _gate(kind: str, baseline: Law, candidate: Law, shares: Shares) -> Eval:
    """A candidate that is worse by its truth, or only that."""
    return Eval(
        kind=kind, bounds=UNIT, baseline=Arm(baseline, shares), candidates={"an effect": Arm(candidate, shares)}
    )


UNIT = (0.0, 1.0)
PAIRED = Shares(sample=0.6)
LOOSE = Shares(sample=0.2)
"""Shares of an arm that finds other samples hard."""
PASSAGES = Shares(passage=0.3, passage_and_arm=0.25, sample=0.1)
UNEVEN = Shares(passage=0.3, passage_and_arm=0.45, sample=0.1)
"""Shares of an arm that some passages suit very well and others very badly."""
WHOLE = Shares(passage_and_arm=1.0)
"""Shares of an arm to which a passage is lost as a whole."""

_ZEROS = zeros_and_scores(0.25, 4), zeros_and_scores(0.35, 12), zeros_and_scores(0.15, 4)
_LIKERT = levels(0.1, 0.15, 0.25, 0.3, 0.2), levels(0.2, 0.1, 0.12, 0.31, 0.27), levels(0.06, 0.11, 0.22, 0.34, 0.27)
_USUAL, _FASTER = seconds(2.0, 4.0), seconds(1.6, 4.0)
_STALLING = seconds(_USUAL.mean / seconds(1.0, 3.0).mean, 3.0)
"""Usually faster, at times much slower: the same mean."""
_LATENCY, _RATIO = (_USUAL, _STALLING, _FASTER), (_USUAL, seconds(2.0, 3.0), _FASTER)

EVALS: dict[str, Eval] = {
    "right or wrong, 70 %": _eval("binary", UNIT, (right(0.7), right(0.7), right(0.8)), PAIRED, LOOSE),
    "right or wrong, 95 %": _eval("binary", UNIT, (right(0.95), right(0.95), right(0.98)), PAIRED, LOOSE),
    "scores, a quarter 0": _eval("bounded", UNIT, _ZEROS, PAIRED),
    "levels 1 to 5": _eval("ordinal", (1.0, 5.0), _LIKERT, PAIRED),
    "latency": _eval("positive", None, _LATENCY, PAIRED),
    "latency, ratio": replace(_eval("positive", None, _RATIO, PAIRED), estimand="ratio"),
    "right or wrong, mean of 4 repeats": replace(
        _eval("binary", UNIT, (right(0.7), right(0.7), right(0.78)), Shares(0, 0, 0.5, 0.1), Shares(0, 0, 0.5, 0.4)),
        repeats=REPEATS,
    ),
    "right or wrong, passages of 5": _eval("binary", UNIT, (right(0.65), right(0.65), right(0.8)), PASSAGES, UNEVEN),
    "scores, passages of 5": _eval("bounded", UNIT, _ZEROS, PASSAGES, UNEVEN),
    "latency, passages of 5": _eval("positive", None, _LATENCY, PASSAGES, UNEVEN),
    "latency, passages of 5, ratio": replace(_eval("positive", None, _RATIO, PASSAGES, UNEVEN), estimand="ratio"),
}
"""What intervals and p-values are judged on."""

_REWARDS = rewards(0.0, 1.0), rewards(0.0, 2.0), rewards(0.5, 1.0)
REWARDS: dict[str, Eval] = {
    "rewards": _eval("unbounded", None, _REWARDS, PAIRED),
    "rewards, passages of 5": _eval("unbounded", None, _REWARDS, PASSAGES, UNEVEN),
}
"""Numbers of any size, for the methods of metrics without bounds."""

GATES: dict[str, Eval] = {
    "1 in 20 becomes wrong": _gate("binary", right(1.0), right(0.95), Shares()),
    "85 % right, then 80 %": _gate("binary", right(0.85), right(0.80), PAIRED),
    "1 in 20 loses .6 to 1": _gate("bounded", right(1.0), disasters(0.05, 0.6), Shares()),
    "8 % fall to 0": _gate("bounded", zeros_and_scores(0.0, 9), zeros_and_scores(0.08, 9), PAIRED),
    "passages of 5, 1 in 20 lost": _gate("binary", right(1.0), right(0.95), WHOLE),
    "passages of 5, 85 % right, then 80 %": _gate("binary", right(0.85), right(0.80), PASSAGES),
    "passages of 5, 1 in 20 loses .6 to 1": _gate("bounded", right(1.0), disasters(0.05, 0.6), WHOLE),
    "passages of 5, 8 % fall to 0": _gate("bounded", zeros_and_scores(0.0, 9), zeros_and_scores(0.08, 9), PASSAGES),
}
"""What one-sided bounds are judged on: at the margin, with losses that are rare and large."""
