"""Diversity of the members of an ensemble: disagreement, joint errors, and the accuracy of a perfect choice.

The measures are those of Kuncheva & Whitaker 2003 (Machine Learning 51:181), on right and wrong answers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels, check_share
from pytest_crucible.stats.ensembles.phi import error_correlation
from pytest_crucible.stats.estimating import estimate
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.results import Effect, EstimateResult

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
