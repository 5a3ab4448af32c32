"""The rate that a binary judge would report if it never erred: Rogan & Gladen's correction.

For a judge whose sensitivity and specificity were measured on other samples than those it judges, such as a balanced
set of right and wrong answers. Where the labelled samples were drawn at random from the judged ones, `ppi_mean` needs
fewer assumptions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pytest_crucible.stats.arrays import Array, check_share, finite
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import number, with_interval, with_note
from pytest_crucible.stats.proportions.one import wilson_interval
from pytest_crucible.stats.results import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedRate:
    """A rate corrected for the judge's errors. `value` is None when the judge does not beat chance."""

    value: float | None
    interval: Interval | None
    judged_rate: float
    """The judge's own share of positives, uncorrected."""
    sensitivity: float
    """The share of truly positive samples that the judge calls positive."""
    sensitivity_interval: Interval
    specificity: float
    """The share of truly negative samples that the judge calls negative."""
    specificity_interval: Interval
    labelled: int
    judged: int
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        summary = f"{with_interval(self.value, self.interval)}, by the judge alone {number(self.judged_rate)}"
        return with_note(f"{summary}, labelled={self.labelled:,}, judged={self.judged:,}", self.note)


def rogan_gladen(
    labels: npt.ArrayLike, predictions: npt.ArrayLike, unlabelled_predictions: npt.ArrayLike, *, level: float = 0.95
) -> CorrectedRate:
    """Return the share of positives from 0/1 judgements, corrected by the judge's errors on labelled samples.

    (judged rate + specificity - 1) / (sensitivity + specificity - 1), cut to [0, 1]. Rogan & Gladen 1978; interval of
    Lang & Reiczigel 2014 (Prev Vet Med 113:13, eq. 16), R: asht::prevSeSp. Raises ValueError for values other than 0
    and 1 and for unpaired labels, NotEnoughData without positive, negative or unlabelled samples.

    >>> result = rogan_gladen([1] * 20 + [0] * 20, [1] * 18 + [0] * 2 + [1] * 4 + [0] * 16, [1] * 60 + [0] * 40)
    >>> round(result.value, 4), round(result.interval.low, 4), round(result.interval.high, 4)
    (0.5714, 0.349, 0.807)
    """
    check_share(level, "level")
    truth, judged = _bits(labels, "labels"), _bits(predictions, "predictions")
    rest = _bits(unlabelled_predictions, "unlabelled predictions")
    if truth.size != judged.size:
        raise ValueError(f"{truth.size} labels and {judged.size} predictions: every label needs its prediction")
    positives = int(truth.sum())
    negatives = truth.size - positives
    if not min(positives, negatives, rest.size):
        raise NotEnoughData(
            f"{positives} positive and {negatives} negative labels, {rest.size} other judgements: expected at least 1 of each"
        )
    hits, rejections = int(judged[truth == 1].sum()), int((1 - judged[truth == 0]).sum())
    apparent, youden = float(rest.mean()), hits / positives + rejections / negatives - 1
    interval = _lang_reiczigel(apparent, rest.size, (hits, positives), (rejections, negatives), level)
    chance = youden <= 0 or interval is None
    return CorrectedRate(
        value=None if chance else min(1.0, max(0.0, (apparent + rejections / negatives - 1) / youden)),
        interval=None if chance else interval,
        judged_rate=apparent,
        sensitivity=hits / positives,
        sensitivity_interval=wilson_interval(hits, positives, level=level),
        specificity=rejections / negatives,
        specificity_interval=wilson_interval(rejections, negatives, level=level),
        labelled=truth.size,
        judged=rest.size,
        status="degenerate" if chance else "ok",
        note="the judge does not beat chance: its judgements say nothing about the rate" if chance else "",
    )


def _bits(values: npt.ArrayLike, name: str) -> Array:
    array = finite(values, name=name)
    graded = int(np.sum((array != 0) & (array != 1)))
    if graded:
        raise ValueError(f"{graded} of {array.size} {name} are neither 0 nor 1")
    return array


def _lang_reiczigel(
    apparent: float, n: int, hits: tuple[int, int], rejections: tuple[int, int], level: float
) -> Interval | None:
    """Return Lang & Reiczigel's interval, or None when the judge does not beat chance.

    Each share is drawn towards 1/2 (Agresti-Coull; one more success and failure for the judge's), then the delta
    method.
    """
    z = float(ndtri(0.5 + level / 2))
    size = n + z * z
    positive = (n * apparent + z * z / 2) / size
    sensitivity, specificity = ((count + 1) / (total + 2) for count, total in (hits, rejections))
    youden = sensitivity + specificity - 1
    if youden <= 0:
        return None
    rate = (positive + specificity - 1) / youden
    sensitivity_variance = sensitivity * (1 - sensitivity) / (hits[1] + 2)
    specificity_variance = specificity * (1 - specificity) / (rejections[1] + 2)
    # The bias of the ratio, which moves the centre of the interval (equation 16).
    shift = 2 * z * z * (rate * sensitivity_variance - (1 - rate) * specificity_variance)
    variance = (
        positive * (1 - positive) / size + rate**2 * sensitivity_variance + (1 - rate) ** 2 * specificity_variance
    )
    # The error of the judged rate grows by 1 / Youden's index: a weak judge needs many samples.
    half = z * math.sqrt(variance) / youden
    low, high = (min(1.0, max(0.0, end)) for end in (rate + shift - half, rate + shift + half))
    return Interval(low=low, high=high, level=level, method="lang-reiczigel")
