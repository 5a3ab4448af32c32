"""Diversity of the members of an ensemble: correlation of errors, disagreement, and the accuracy of a perfect choice.

Diversity of the members of an ensemble: disagreement, joint errors, and the accuracy of a perfect choice.
The measures are those of Kuncheva & Whitaker 2003 (Machine Learning 51:181), on right and wrong answers.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes, Labels, check_share, cluster_totals, paired_arrays
from pytest_crucible.stats.estimating import estimate
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import check_clustered
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.results import Effect, EstimateResult

# Observations added to each cell of the 2 x 2 table before its interval is computed, as Haldane (1956) did for odds
# ratios.
HALF = 0.5
# The four cells of the table, as right (1) and wrong (0) of both models.
CELLS = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])


def error_correlation(
    first: npt.ArrayLike, second: npt.ArrayLike, *, clusters: Labels | None = None, level: float = 0.95
) -> Effect:
    """Return phi, Pearson's correlation of two models' right (1) and wrong (0) answers to the same samples.

    At 0 they err independently, and a vote gains a lot; at 1 they err on the same samples, and it gains nothing. None
    when one of them is always right, or always wrong. The interval is Fisher's, with t and the standard error of the
    delta method (Bishop, Fienberg & Holland 1975, chapter 11; influences are summed in clusters, which may be samples
    with repeats), after half an observation was added to each cell of the 2 x 2 table. Where both err on 5 of 100
    samples, independently, it covers 29 % without that and more than 95 % with it; elsewhere 92 % or more, and 89 % for
    20 clusters of 20. Raises NotEnoughData below three pairs and below five clusters, ValueError for anything but 0 and
    1.

    >>> print(error_correlation([1, 1, 1, 1, 0, 0, 1, 1, 0, 1], [1, 1, 1, 0, 0, 0, 1, 1, 1, 1]))
    phi 0.524 [-0.328, 0.856]
    """
    check_share(level, "level")
    first_right, second_right = paired_arrays(first, second, names=("first", "second"))
    graded = int(np.sum((first_right != 0) & (first_right != 1)) + np.sum((second_right != 0) & (second_right != 1)))
    if graded:
        raise ValueError(
            f"{graded} of {2 * first_right.size} values are neither 0 (wrong) nor 1 (right): grade each as either"
        )
    if first_right.size < 3:
        raise NotEnoughData(f"{quantity(first_right.size, 'pair')}: a correlation needs at least 3")
    codes, count = _units(first_right, clusters)
    value = _phi(first_right, second_right)
    if value is None:
        note = "a model that is always right, or always wrong, has no error correlation"
        return Effect(name="phi", value=None, note=note)
    interval = _interval(first_right, second_right, codes, count, level)
    # The interval comes from the enlarged table, the value does not: extend it to contain the value.
    low, high = min(interval.low, value), max(interval.high, value)
    return Effect(name="phi", value=value, interval=Interval(low=low, high=high, level=level, method=interval.method))


def _units(values: Array, clusters: Labels | None) -> tuple[Codes, int]:
    """Return the codes and the number of independent units: samples, or their clusters."""
    if clusters is None:
        return np.arange(values.size, dtype=np.intp), values.size
    _, codes, count = check_clustered(values, clusters)
    return codes, count


def _phi(first_right: Array, second_right: Array) -> float | None:
    """Return phi, exact up to the last division: sums of 0 and 1 are whole numbers."""
    n, both = first_right.size, int(first_right @ second_right)
    first_count, second_count = int(first_right.sum()), int(second_right.sum())
    spread = first_count * (n - first_count) * second_count * (n - second_count)
    return (n * both - first_count * second_count) / math.sqrt(spread) if spread else None


def _interval(first_right: Array, second_right: Array, codes: Codes, count: int, level: float) -> Interval:
    """Return Fisher's interval from the table with half an observation more in each cell."""
    n = first_right.size + 4 * HALF
    scores, cells = (
        _scores(column, first_right, second_right) for column in (np.column_stack((first_right, second_right)), CELLS)
    )
    phi = float(scores.prod(axis=1).sum() + HALF * cells.prod(axis=1).sum()) / n
    totals = cluster_totals(codes, _influence(scores, phi))
    added = _influence(cells, phi)
    variance = count / (count - 1) * (float(totals @ totals) + HALF * float(added @ added)) / (n * n)
    half = -float(stdtrit(count - 1, (1 - level) / 2)) * math.sqrt(variance) / (1 - phi * phi)
    centre, method = math.atanh(phi), "fisher, half an observation added to each cell"
    return Interval(low=math.tanh(centre - half), high=math.tanh(centre + half), level=level, method=method)


def _scores(columns: Array, first_right: Array, second_right: Array) -> Array:
    """Return answers standardised by the rates of the enlarged table."""
    rates = np.array([(column.sum() + 2 * HALF) / (column.size + 4 * HALF) for column in (first_right, second_right)])
    return np.asarray((columns - rates) / np.sqrt(rates * (1 - rates)), dtype=np.float64)


def _influence(scores: Array, phi: float) -> Array:
    """Return each observation's contribution to the error of the correlation."""
    return np.asarray(scores.prod(axis=1) - phi / 2 * (scores**2).sum(axis=1), dtype=np.float64)


PARTIAL = "only samples that every member answered, which may differ from the others"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPairResult:
    """Two members, by their positions, on the samples that both answered."""

    first: int
    second: int
    n: int
    disagreement: EstimateResult | None
    """The share of samples on which one is right and the other wrong. None when no sample was answered by both."""
    double_fault: EstimateResult | None
    """The share on which both are wrong."""
    correlation: Effect
    """Phi of their errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityResult:
    """An ensemble and its members on the samples that all of them answered, and each pair of members."""

    n: int
    members: tuple[EstimateResult, ...]
    """The accuracy of each member; empty when no sample was answered by all."""
    best: int | None
    """The position of the most accurate member, the first of equals. Chosen on these samples, it looks better than it is."""
    oracle: EstimateResult | None
    """The share of samples that at least one member has right: the accuracy of a perfect choice between them."""
    combined: EstimateResult | None
    """The accuracy of the ensemble."""
    pairs: tuple[MemberPairResult, ...]
    note: str = ""


def member_diversity(
    members: npt.ArrayLike, combined: npt.ArrayLike, *, clusters: Labels | None = None, alpha: float = 0.05
) -> DiversityResult:
    """Return the diversity of an ensemble's members, from right (1) and wrong (0) answers.

    `members` is members x samples, or members x samples x repeats, NaN if a member gave no answer; `combined` are
    the ensemble's own answers, without the first axis. Repeats are averaged inside the sample. `clusters` has one label
    a sample. Raises ValueError for other values, other shapes, and fewer than two members.

    >>> found = member_diversity([[1, 1, 1, 0, 0, 1], [1, 1, 0, 1, 0, 1], [1, 0, 1, 1, 0, 1]], [1, 1, 1, 1, 0, 1])
    >>> print(found.oracle), print(found.members[found.best]), print(found.pairs[0].disagreement)
    0.833 [0.436, 0.970] n=6 (wilson)
    0.667 [0.300, 0.903] n=6 (wilson)
    0.333 [0.097, 0.700] n=6 (wilson)
    (None, None, None)
    """
    check_share(alpha, "alpha")
    right, ensemble = _check_answers(members, combined)
    labels = None if clusters is None else np.asarray(clusters, dtype=object)
    if labels is not None and labels.shape != (right.shape[1],):
        raise ValueError(f"every sample needs a cluster: {right.shape[1]} samples, {labels.size} cluster labels")
    # Members are compared on the same samples: one that failed on hard samples would look better.
    complete = ~np.isnan(np.concatenate((right, ensemble[None]))).any(axis=(0, 2))
    n = int(complete.sum())
    answered = ~np.isnan(ensemble).any(axis=1)
    pairs = tuple(
        _pair(first, second, right, labels, alpha) for first, second in itertools.combinations(range(len(right)), 2)
    )
    if not n:
        return DiversityResult(n=0, members=(), best=None, oracle=None, combined=None, pairs=pairs, note=PARTIAL)
    complete_answers, labels_here = right[:, complete], None if labels is None else labels[complete]
    accuracies = tuple(_estimate_share(member, labels_here, alpha) for member in complete_answers)
    return DiversityResult(
        n=n,
        members=accuracies,
        best=int(np.argmax(complete_answers.mean(axis=(1, 2)))),
        oracle=_estimate_share(complete_answers.max(axis=0), labels_here, alpha),
        combined=_estimate_share(ensemble[complete], labels_here, alpha),
        pairs=pairs,
        note="" if n == int(answered.sum()) else PARTIAL,
    )


def _check_answers(members: npt.ArrayLike, combined: npt.ArrayLike) -> tuple[Array, Array]:
    """Return members x samples x repeats, and samples x repeats."""
    right, ensemble = np.asarray(members, dtype=np.float64), np.asarray(combined, dtype=np.float64)
    if right.ndim not in (2, 3) or len(right) < 2:
        raise ValueError(f"expected at least 2 members x samples (x repeats), not the shape {right.shape}")
    if ensemble.shape != right.shape[1:]:
        raise ValueError(
            f"the ensemble's values have the shape {ensemble.shape}, not that of its members, {right.shape[1:]}"
        )
    graded = sum(int(np.sum((array != 0) & (array != 1) & ~np.isnan(array))) for array in (right, ensemble))
    if graded:
        raise ValueError(f"{graded} of {right.size + ensemble.size} values are neither 0 (wrong) nor 1 (right)")
    return (right[..., None], ensemble[..., None]) if right.ndim == 2 else (right, ensemble)


def _pair(
    first: int, second: int, right: Array, labels: npt.NDArray[np.object_] | None, alpha: float
) -> MemberPairResult:
    both = ~np.isnan(right[[first, second]]).any(axis=(0, 2))
    first_right, second_right = right[first, both], right[second, both]
    labels_here = None if labels is None else labels[both]
    n = len(first_right)
    return MemberPairResult(
        first=first,
        second=second,
        n=n,
        disagreement=_estimate_share(np.abs(first_right - second_right), labels_here, alpha) if n else None,
        double_fault=_estimate_share((1 - first_right) * (1 - second_right), labels_here, alpha) if n else None,
        correlation=_correlation(first_right, second_right, labels_here, alpha),
    )


def _estimate_share(values: Array, clusters: npt.NDArray[np.object_] | None, alpha: float) -> EstimateResult:
    """Return the mean over samples of 0/1 values, with its interval."""
    kind = "binary" if values.shape[1] == 1 else "bounded"
    return estimate(values.mean(axis=1), kind=kind, bounds=(0, 1), clusters=clusters, alpha=alpha)


def _correlation(
    first_right: Array, second_right: Array, clusters: npt.NDArray[np.object_] | None, alpha: float
) -> Effect:
    """Return the error correlation over all repeats; those of one sample are a cluster."""
    repeats = first_right.shape[1]
    # Repeats of one sample are not independent, so without clusters each sample is one.
    labels = np.arange(len(first_right)) if clusters is None and repeats > 1 else clusters
    spread = None if labels is None else np.repeat(labels, repeats)
    try:
        return error_correlation(first_right.ravel(), second_right.ravel(), clusters=spread, level=1 - alpha)
    except NotEnoughData as refusal:
        return Effect(name="phi", value=None, note=str(refusal))
