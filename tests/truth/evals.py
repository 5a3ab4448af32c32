"""Evaluations whose truth is known: what two models answer to the same samples, drawn again and again.

Behind every answer is a latent normal number: what is shared with the other samples about the same passage, what makes the
passage suit one arm, how hard the sample is, how well it suits the arm, and chance. A law turns it into a score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

Array = npt.NDArray[np.float64]
Truth = Literal["exchangeable arms", "equal means, other shape", "an effect"]
TRUTHS: tuple[Truth, ...] = get_args(Truth)
PASSAGE = 5
"""Samples of one passage."""
REPEATS = 4


class Law(NamedTuple):
    """How scores are distributed over all samples, with the means that the statistics are to find."""

    scores: Callable[[Array], Array]
    """Scores at probabilities: the quantile function."""
    mean: float
    geometric_mean: float = math.nan


def right(rate: float) -> Law:
    return Law(lambda chances: (chances > 1 - rate).astype(np.float64), rate)


def zeros_and_scores(zeros: float, power: float) -> Law:
    """0 in a share of the answers, and u^(1/power), whose mean is power / (power + 1), in the others."""
    answered = 1 - zeros
    return Law(
        lambda chances: np.maximum(chances - zeros, 0.0) ** (1 / power) / answered ** (1 / power),
        answered * power / (power + 1),
    )


def levels(*shares: float) -> Law:
    """The levels 1, 2, ... with these shares."""
    ends = np.cumsum(shares)[:-1]
    mean = sum(level * share for level, share in enumerate(shares, 1))
    return Law(lambda chances: 1.0 + np.searchsorted(ends, chances), mean)


def seconds(median: float, tail: float) -> Law:
    """Log-logistic: beyond the median a share of answers that falls like seconds^-tail. No moment from `tail` on."""
    mean = median * (math.pi / tail) / math.sin(math.pi / tail)
    return Law(lambda chances: median * (chances / (1 - chances)) ** (1 / tail), mean, median)


def seconds_of_mean(mean: float, tail: float) -> Law:
    return seconds(mean / seconds(1.0, tail).mean, tail)


class Shares(NamedTuple):
    """What the variance of the latent number is made of; the rest is chance."""

    passage: float = 0.0
    passage_and_arm: float = 0.0
    sample: float = 0.0
    sample_and_arm: float = 0.0

    @property
    def chance(self) -> float:
        return 1 - sum(self)


@dataclass(frozen=True, slots=True)
class Arm:
    law: Law
    shares: Shares


class Drawn(NamedTuple):
    """Scores of both arms, runs x samples (x repeats), and what is true of them."""

    control: Array
    treatment: Array
    difference: float
    ratio: float
    clusters: npt.NDArray[np.intp] | None


@dataclass(frozen=True, slots=True)
class Eval:
    """A kind of evaluation: `treatments` is the other arm under each truth."""

    kind: str
    bounds: tuple[float, float] | None
    control: Arm
    treatments: Mapping[Truth, Arm]
    repeats: int = 1

    @property
    def clustered(self) -> bool:
        return self.control.shares.passage > 0

    def draw(self, rng: np.random.Generator, runs: int, n: int, truth: Truth, *, paired: bool = True) -> Drawn:
        """Both arms of `runs` experiments. Arms that are not paired answer other samples, about other passages."""
        treatment = self.treatments[truth]
        passages = np.arange(n) // PASSAGE
        common = _common(rng, runs, n, passages)
        first = self._answers(rng, self.control, common, passages)
        second = self._answers(rng, treatment, common if paired else _common(rng, runs, n, passages), passages)
        laws = treatment.law, self.control.law
        return Drawn(
            control=first,
            treatment=second,
            difference=laws[0].mean - laws[1].mean,
            ratio=laws[0].geometric_mean / laws[1].geometric_mean,
            clusters=passages if self.clustered else None,
        )

    def _answers(
        self, rng: np.random.Generator, arm: Arm, common: tuple[Array, Array], passages: npt.NDArray[np.intp]
    ) -> Array:
        (passage, sample), shares = common, arm.shares
        latent = math.sqrt(shares.sample) * sample
        if shares.passage or shares.passage_and_arm:
            own = math.sqrt(shares.passage_and_arm) * rng.standard_normal(passage.shape)
            latent = latent + (math.sqrt(shares.passage) * passage + own)[:, passages]
        if shares.sample_and_arm:
            latent = latent + math.sqrt(shares.sample_and_arm) * rng.standard_normal(sample.shape)
        if self.repeats > 1:
            latent = np.repeat(latent[..., None], self.repeats, axis=2)
        return arm.law.scores(ndtr(latent + math.sqrt(shares.chance) * rng.standard_normal(latent.shape)))


def _common(rng: np.random.Generator, runs: int, n: int, passages: npt.NDArray[np.intp]) -> tuple[Array, Array]:
    return rng.standard_normal((runs, int(passages[-1]) + 1)), rng.standard_normal((runs, n))


def _eval(
    kind: str, bounds: tuple[float, float] | None, shares: Shares, laws: tuple[Law, Law, Law], other: Shares | None = None
) -> Eval:
    """`laws` are the control's, another one of equal mean, and one with an effect; `other` are that other's shares."""
    same, shaped, better = laws
    return Eval(
        kind=kind,
        bounds=bounds,
        control=Arm(same, shares),
        treatments=dict(zip(TRUTHS, (Arm(same, shares), Arm(shaped, other or shares), Arm(better, shares)), strict=True)),
    )


UNIT = (0.0, 1.0)
PAIRED = Shares(sample=0.6)
PASSAGES = Shares(passage=0.3, passage_and_arm=0.25, sample=0.1)
UNEVEN = Shares(passage=0.3, passage_and_arm=0.45, sample=0.1)
"""Shares of an arm that some passages suit very well and some very badly."""
LIKERT = (levels(0.10, 0.15, 0.25, 0.30, 0.20), levels(0.20, 0.10, 0.12, 0.31, 0.27), levels(0.06, 0.11, 0.22, 0.34, 0.27))
ZEROS = (zeros_and_scores(0.25, 4), zeros_and_scores(0.35, 12), zeros_and_scores(0.15, 4))
LATENCY = (seconds(2.0, 4.0), seconds_of_mean(seconds(2.0, 4.0).mean, 3.0), seconds(1.6, 4.0))

EVALS: dict[str, Eval] = {
    "right in 70 %": _eval("binary", UNIT, PAIRED, (right(0.70), right(0.70), right(0.80)), Shares(sample=0.2)),
    "right in 95 %": _eval("binary", UNIT, PAIRED, (right(0.95), right(0.95), right(0.98)), Shares(sample=0.2)),
    "scores, a quarter 0": _eval("bounded", UNIT, PAIRED, ZEROS),
    "levels 1 to 5": _eval("ordinal", (1.0, 5.0), PAIRED, LIKERT),
    "latency": _eval("positive", None, PAIRED, LATENCY),
    "right or wrong, passages of 5": _eval("binary", UNIT, PASSAGES, (right(0.65), right(0.65), right(0.80)), UNEVEN),
    "scores, passages of 5": _eval("bounded", UNIT, PASSAGES, ZEROS, UNEVEN),
    "latency, passages of 5": _eval("positive", None, PASSAGES, LATENCY, UNEVEN),
    "right or wrong, mean of 4 repeats": replace(
        _eval(
            "binary",
            UNIT,
            Shares(sample=0.5, sample_and_arm=0.1),
            (right(0.70), right(0.70), right(0.78)),
            Shares(sample=0.5, sample_and_arm=0.4),
        ),
        repeats=REPEATS,
    ),
}
