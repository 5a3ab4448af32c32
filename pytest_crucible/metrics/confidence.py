"""Calibration of confidences: ECE, Brier score, AUROC and reliability table.

Guo et al. (2017, ICML) for the expected calibration error; Brier (1950); AUROC is the probability that a right answer has more
confidence than a wrong one (Mann-Whitney, ties count half).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.outcomes import confidence_of as confidence_of
from pytest_crucible.stats.interval import Interval, NotEnoughData

Floats = npt.NDArray[np.float64]
# The 2.5 % tails of 2,000 resamples hold 50 values each, enough for two digits.
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Replies whose confidence is in (low, high]; the first bin includes its lower end."""

    low: float
    high: float
    n: int
    confidence: float | None
    """Mean confidence of its replies; None in an empty bin."""
    accuracy: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Agreement of confidence and correctness."""

    ece: float
    """Sum over bins of n_bin / n * |accuracy - confidence|. Biased upwards in small samples: read it with its interval."""
    ece_interval: Interval | None
    """None, as for the others, if all resamples agree: then these replies do not show how uncertain the value is."""
    brier: float
    """Mean of (confidence - correct)^2: 0 is perfect, 0.25 is a constant confidence of one half."""
    brier_interval: Interval | None
    auroc: float | None
    """None if all replies are right, or all wrong."""
    auroc_interval: Interval | None
    accuracy: float
    confidence: float
    table: tuple[ReliabilityBin, ...]
    n: int


def calibration(
    confidences: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    bins: int = 10,
    level: float = 0.95,
    groups: Sequence[Hashable] | None = None,
    seed: int = 0,
) -> Calibration:
    """Compare confidences (0 to 1) with correctness (0 or 1), in bins of equal width.

    Intervals are basic bootstrap intervals over replies, or over `groups` of them, clipped to the possible range. Resampling
    adds to ECE's upward bias, which percentile intervals would count twice and basic ones correct. Raises ValueError for
    numbers outside [0, 1] and unequal lengths, NotEnoughData below two replies (or groups).

    >>> calibrated = calibration([0.9, 0.9, 0.6, 0.6], [1, 1, 1, 0])
    >>> round(calibrated.ece, 3), round(calibrated.brier, 3), calibrated.auroc
    (0.1, 0.135, 0.8333333333333334)
    """
    values, right = _check_inputs(confidences, correct, bins, level)
    codes = _codes(groups, values.size)
    draws = _resample(codes, seed)
    ece, squared, auroc = _ece(values, right, bins), _brier(values, right), _auroc(values, right)
    return Calibration(
        ece=ece,
        ece_interval=_interval(lambda draw: _ece(values[draw], right[draw], bins), draws, ece, level),
        brier=squared,
        brier_interval=_interval(lambda draw: _brier(values[draw], right[draw]), draws, squared, level),
        auroc=auroc,
        auroc_interval=_interval(lambda draw: _auroc(values[draw], right[draw]), draws, auroc, level),
        accuracy=float(right.mean()),
        confidence=float(values.mean()),
        table=_table(values, right, bins),
        n=values.size,
    )


def _check_inputs(confidences: npt.ArrayLike, correct: npt.ArrayLike, bins: int, level: float) -> tuple[Floats, Floats]:
    values, right = np.asarray(confidences, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if values.ndim != 1 or values.shape != right.shape:
        raise ValueError(
            f"expected one confidence and one outcome per reply, not shapes {values.shape} and {right.shape}"
        )
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("confidences must be numbers from 0 to 1")
    if not np.isin(right, (0, 1)).all():
        raise ValueError("outcomes must be 0 (wrong) or 1 (right)")
    if bins < 1 or not 0 < level < 1:
        raise ValueError(f"bins={bins} and level={level}: at least one bin, and a level between 0 and 1")
    if values.size < 2:
        raise NotEnoughData(f"{values.size} replies: calibration needs at least 2")
    return values, right


def _codes(groups: Sequence[Hashable] | None, n: int) -> npt.NDArray[np.intp]:
    if groups is None:
        return np.arange(n)
    if len(groups) != n:
        raise ValueError(f"{len(groups)} groups for {n} replies: give one group for each reply")
    numbers: dict[Hashable, int] = {}
    codes = np.array([numbers.setdefault(group, len(numbers)) for group in groups])
    if len(numbers) < 2:
        raise NotEnoughData("1 group: intervals need at least 2")
    return codes


def _resample(codes: npt.NDArray[np.intp], seed: int) -> list[npt.NDArray[np.intp]]:
    """Return the positions of the replies in each resample of groups."""
    generator, count = np.random.default_rng(seed), int(codes.max()) + 1
    if count == codes.size:
        return [generator.integers(count, size=count) for _ in range(RESAMPLES)]
    members = [np.flatnonzero(codes == code) for code in range(count)]
    return [
        np.concatenate([members[group] for group in generator.integers(count, size=count)]) for _ in range(RESAMPLES)
    ]


def _interval(
    statistic: Callable[[npt.NDArray[np.intp]], float | None],
    draws: list[npt.NDArray[np.intp]],
    observed: float | None,
    level: float,
) -> Interval | None:
    # Undefined if all replies are right or all are wrong.
    if observed is None:
        return None
    values = np.array([value for draw in draws if (value := statistic(draw)) is not None])
    # Resamples that agree up to rounding have no spread to build an interval from.
    if np.ptp(values) <= 1e-12:
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    ends = (max(0.0, 2 * observed - float(high)), min(1.0, 2 * observed - float(low)))
    return Interval(low=ends[0], high=ends[1], level=level, method="bootstrap-basic")


def _bins(values: Floats, bins: int) -> npt.NDArray[np.intp]:
    """Return each reply's bin: (0, 0.1], (0.1, 0.2], ...; 0 belongs to the first."""
    # The tolerance keeps 0.1 * k in bin k although the product is not exact.
    return np.clip(np.ceil(values * bins - 1e-12).astype(np.intp) - 1, 0, bins - 1)


def _ece(values: Floats, right: Floats, bins: int) -> float:
    gaps = np.bincount(_bins(values, bins), weights=right - values, minlength=bins)
    return float(np.abs(gaps).sum() / values.size)


def _brier(values: Floats, right: Floats) -> float:
    return float(((values - right) ** 2).mean())


def _auroc(values: Floats, right: Floats) -> float | None:
    positive = right == 1
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        return None
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2
    return float((middle[inverse][positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def _table(values: Floats, right: Floats, bins: int) -> tuple[ReliabilityBin, ...]:
    where = _bins(values, bins)
    rows = []
    for number in range(bins):
        inside = where == number
        n = int(inside.sum())
        means = (float(values[inside].mean()), float(right[inside].mean())) if n else (None, None)
        rows.append(ReliabilityBin(number / bins, (number + 1) / bins, n, *means))
    return tuple(rows)


NO_CONFIDENCE = NotApplicable("the backend gives no logprobs: ask for them in the adapter's parameters")


def brier(right: Metric, *, name: str = "brier") -> Metric:
    """Return a metric of (confidence - right)^2.

    0 is sure and right, 1 is sure and wrong, 0.25 is a confidence of one half.

    `right` decides what is right; the confidence is `confidence_of` the reply. The mean over samples is the Brier score (1950).
    Raises SpecError unless `right` is declared as binary.

    >>> from pytest_crucible.metrics import exact_match
    >>> reply = Reply(text="4", logprobs=(-0.6931471805599453,))
    >>> brier(exact_match)(reply, Sample(id="1", input="2 + 2", expected="4"))
    0.25
    """
    if right.facts.kind != "binary":
        raise SpecError(
            f"brier({right.name}) needs a binary metric: declare it with kind='binary', or give another one"
        )

    @metric(
        name=name,
        bounds=(0, 1),
        direction="lower",
        version=f"1:{right.name}:{right.facts.version}",
        applies=right.facts.applies,
    )
    def score(reply: Reply, sample: Sample) -> float | NotApplicable:
        """The squared distance of the reply's confidence from being right."""
        confidence, outcome = confidence_of(reply), right(reply, sample)
        if outcome is None or isinstance(outcome, NotApplicable):
            return NotApplicable(f"{right.name} does not apply") if outcome is None else outcome
        return NO_CONFIDENCE if confidence is None else (confidence - float(outcome)) ** 2

    return score
