"""What the members of an ensemble have in common: how often they differ, err together, and what the best choice were worth.

The measures are those of Kuncheva & Whitaker 2003 (Machine Learning 51:181), on right and wrong answers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.stats.answers import Effect, Estimate
from pytest_crucible.stats.ensembles.faults import error_correlation
from pytest_crucible.stats.estimating import estimate
from pytest_crucible.stats.observations import Array, Labels, check_share

SOME = "only samples that every member answered: those that were asked to all are not like the others"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPair:
    """Two members, by their positions, on the samples that both answered."""

    first: int
    second: int
    n: int
    disagreement: Estimate | None
    """The share of samples on which one is right and the other wrong. None when no sample was answered by both."""
    double_fault: Estimate | None
    """The share on which both are wrong."""
    correlation: Effect
    """Phi of their errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """An ensemble and its members on the samples that all of them answered; each pair on its own."""

    n: int
    members: tuple[Estimate, ...]
    """The accuracy of each member; empty when no sample was answered by all."""
    best: int | None
    """The position of the most accurate one, the first of equals. It was chosen by these samples, which flatters it."""
    oracle: Estimate | None
    """The share of samples that at least one member has right: what a perfect choice between them would reach."""
    combined: Estimate | None
    """The accuracy of the ensemble."""
    pairs: tuple[MemberPair, ...]
    note: str = ""


def member_diversity(
    members: npt.ArrayLike, combined: npt.ArrayLike, *, clusters: Labels | None = None, alpha: float = 0.05
) -> Diversity:
    """How diverse the members of an ensemble are, from who was right (1) and wrong (0).

    `members` is members x samples, or members x samples x repeats, NaN where a member gave no answer; `combined` are the
    ensemble's own, without the first axis. Repeats are averaged inside the sample. `clusters` has one label a sample.
    Raises ValueError for other values, other shapes, and fewer than two members.

    >>> found = member_diversity([[1, 1, 1, 0, 0, 1], [1, 1, 0, 1, 0, 1], [1, 0, 1, 1, 0, 1]], [1, 1, 1, 1, 0, 1])
    >>> print(found.oracle), print(found.members[found.best]), print(found.pairs[0].disagreement)
    0.833 [0.436, 0.970] n=6 (wilson)
    0.667 [0.300, 0.903] n=6 (wilson)
    0.333 [0.097, 0.700] n=6 (wilson)
    (None, None, None)
    """
    check_share(alpha, "alpha")
    right, whole = _checked(members, combined)
    labels = None if clusters is None else np.asarray(clusters, dtype=object)
    if labels is not None and labels.shape != (right.shape[1],):
        raise ValueError(f"every sample needs a cluster: {right.shape[1]} samples, {labels.size} cluster labels")
    complete = ~np.isnan(np.concatenate((right, whole[None]))).any(axis=(0, 2))
    n = int(complete.sum())
    answered = ~np.isnan(whole).any(axis=1)
    pairs = tuple(
        _pair(first, second, right, labels, alpha) for first, second in itertools.combinations(range(len(right)), 2)
    )
    if not n:
        return Diversity(n=0, members=(), best=None, oracle=None, combined=None, pairs=pairs, note=SOME)
    rights, where = right[:, complete], None if labels is None else labels[complete]
    accuracies = tuple(_share(one, where, alpha) for one in rights)
    return Diversity(
        n=n,
        members=accuracies,
        best=int(np.argmax(rights.mean(axis=(1, 2)))),
        oracle=_share(rights.max(axis=0), where, alpha),
        combined=_share(whole[complete], where, alpha),
        pairs=pairs,
        note="" if n == int(answered.sum()) else SOME,
    )


def _checked(members: npt.ArrayLike, combined: npt.ArrayLike) -> tuple[Array, Array]:
    """Members x samples x repeats, and samples x repeats."""
    right, whole = np.asarray(members, dtype=np.float64), np.asarray(combined, dtype=np.float64)
    if right.ndim not in (2, 3) or len(right) < 2:
        raise ValueError(f"wanted at least 2 members x samples (x repeats), not the shape {right.shape}")
    if whole.shape != right.shape[1:]:
        raise ValueError(f"the ensemble's answers have the shape {whole.shape}, its members' {right.shape[1:]}")
    graded = sum(int(np.sum((one != 0) & (one != 1) & ~np.isnan(one))) for one in (right, whole))
    if graded:
        raise ValueError(f"{graded} of {right.size + whole.size} values are neither 0 (wrong) nor 1 (right)")
    return (right[..., None], whole[..., None]) if right.ndim == 2 else (right, whole)


def _pair(first: int, second: int, right: Array, labels: npt.NDArray[np.object_] | None, alpha: float) -> MemberPair:
    both = ~np.isnan(right[[first, second]]).any(axis=(0, 2))
    one, other = right[first, both], right[second, both]
    where = None if labels is None else labels[both]
    n = len(one)
    return MemberPair(
        first=first,
        second=second,
        n=n,
        disagreement=_share(np.abs(one - other), where, alpha) if n else None,
        double_fault=_share((1 - one) * (1 - other), where, alpha) if n else None,
        correlation=_correlation(one, other, where, alpha),
    )


def _share(values: Array, clusters: npt.NDArray[np.object_] | None, alpha: float) -> Estimate:
    """The mean over samples of 0/1 values, with the interval to show."""
    kind = "binary" if values.shape[1] == 1 else "bounded"
    return estimate(values.mean(axis=1), kind=kind, bounds=(0, 1), clusters=clusters, alpha=alpha)


def _correlation(one: Array, other: Array, clusters: npt.NDArray[np.object_] | None, alpha: float) -> Effect:
    """Over all repeats; those of one sample are a cluster."""
    repeats = one.shape[1]
    labels = np.arange(len(one)) if clusters is None and repeats > 1 else clusters
    spread = None if labels is None else np.repeat(labels, repeats)
    try:
        return error_correlation(one.ravel(), other.ravel(), clusters=spread, level=1 - alpha)
    except NotEnoughData as refusal:
        return Effect(name="phi", value=None, note=str(refusal))
