"""Input checks: finite float64 arrays, complete cluster labels, and shares between 0 and 1.

Every public function checks its input here, once. The private functions that it calls only compute.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.exact_sums import group_totals

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
Range = tuple[float, float]
Side = Literal["lower", "upper"]
Alternative = Literal["two-sided", "greater", "less"]
"""The alternative hypothesis: the first arm differs, is larger, or is smaller."""
Labels = Sequence[Hashable] | npt.NDArray[Any]

ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""Relative size of a rounding error: 0.3 - 0.2 and 0.2 - 0.1 differ by less than this."""


def finite(values: npt.ArrayLike, *, name: str = "values") -> Array:
    """Return `values` as a one-dimensional float64 array. Raises ValueError, with the count, for NaN and infinities."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    # A NaN would pass silently through every comparison below and come out as a plausible number.
    strange = array.size - int(np.isfinite(array).sum())
    if strange:
        raise ValueError(
            f"{strange} of {array.size} {name} are NaN or infinite; drop them, or replace them by the worst value, first"
        )
    return array


def paired_arrays(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, names: tuple[str, str] = ("candidate", "baseline")
) -> tuple[Array, Array]:
    """Return both arms as finite arrays. Raises ValueError, with `names`, when they differ in length."""
    first, second = finite(candidate, name=f"{names[0]} values"), finite(baseline, name=f"{names[1]} values")
    if first.size != second.size:
        raise ValueError(f"pairs need equal lengths: {first.size} {names[0]} values, {second.size} {names[1]} values")
    return first, second


def finite_matrix(matrix: npt.ArrayLike, *, rows: str = "subjects", columns: str = "conditions") -> Array:
    """Return a finite float64 matrix, rows x columns. Raises ValueError for NaN and for fewer than two columns."""
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(f"expected a matrix of {rows} x at least 2 {columns}, not the shape {array.shape}")
    finite(array.ravel(), name="matrix entries")
    return array


def difference(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> Array:
    """Return candidate minus baseline, with rounding errors set to 0.

    Otherwise two arms with equal scores but different arithmetic would differ "significantly" by 1e-17.
    """
    differences, noise = round_difference(*paired_arrays(candidate, baseline))
    # Equal differences must be recognised as equal: otherwise their tiny deviation gives a huge t.
    if differences.size and np.ptp(differences) <= noise:
        # The smallest, which no order of the pairs changes.
        differences[:] = differences.min()
    return differences


def round_difference(first: Array, second: Array) -> tuple[Array, float]:
    """Return first minus second without the rounding errors of single pairs, and the largest of these."""
    differences = first - second
    # The rounding error of a difference is proportional to the larger operand, not to the difference.
    noise = np.maximum(np.abs(first), np.abs(second))
    noise *= ROUNDING
    tiny = np.abs(differences) <= noise
    if tiny.any():
        differences[tiny] = 0.0
    return differences, float(noise.max(initial=0.0))


def is_constant(values: Array) -> bool:
    """Return True when the values vary by no more than rounding."""
    return bool(np.ptp(values) <= ROUNDING * np.abs(values).max())


def cluster_codes(clusters: Labels, n: int) -> tuple[Codes, int]:
    """Return cluster numbers 0, 1, ... in order of appearance, and the number of clusters.

    Raises ValueError when there is not one label for each of the n values, or a label is missing (None or NaN).
    """
    # A text is a sequence of labels too: clusters="passage" would become seven letters.
    if isinstance(clusters, str):
        raise ValueError(f"clusters needs one label for each of the {n} values, not the single text {clusters!r}")
    if isinstance(clusters, np.ndarray) and clusters.dtype.kind == "i" and clusters.ndim == 1 and clusters.size == n:
        renumbered = _renumber(clusters)
        if renumbered is not None:
            return renumbered
    # tolist() gives Python objects, which hash alike whatever the array's dtype.
    labels: Iterable[Hashable] = clusters.tolist() if isinstance(clusters, np.ndarray) else clusters
    numbers: dict[Hashable, int] = {}
    try:
        codes = np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.intp)
    except TypeError as error:
        raise ValueError(
            f"clusters needs one label for each of the {n} values, each a text or a number: {error}"
        ) from error
    if codes.size != n:
        raise ValueError(f"every value needs a cluster: {n} values, {codes.size} cluster labels")
    # NaN is the one label that does not equal itself, so looking at the distinct labels is enough.
    if any(map(_is_missing, numbers)):
        raise ValueError(f"a cluster label is missing (None or NaN) among the labels of {n} values")
    return codes, len(numbers)


def _renumber(numbers: npt.NDArray[np.signedinteger]) -> tuple[Codes, int] | None:
    """Return `cluster_codes` of numbers that are codes already, or nearly; None of others.

    A bound asks dozens of times, and a dictionary of 100,000 labels takes 10 ms.
    """
    size = numbers.size
    if not size or numbers.min() < 0 or numbers.max() >= 4 * size:
        return None
    first = np.full(int(numbers.max()) + 1, size)
    # Of several writes to one place the last one stays: that of the first appearance.
    first[numbers[::-1]] = np.arange(size - 1, -1, -1)
    (present,) = np.nonzero(first < size)
    ranks = np.empty(first.size, dtype=np.intp)
    ranks[present[np.argsort(first[present])]] = np.arange(present.size)
    return ranks[numbers], int(present.size)


def _is_missing(label: Hashable) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:
        # pandas.NA: comparing it with itself gives NA, which has no truth value.
        return True


def cluster_totals(codes: Codes, values: Array) -> Array:
    """Return the sum of the values in each cluster."""
    return group_totals(codes, values)[0]


def check_choice(choice: object, choices: Sequence[str], name: str) -> None:
    """Raise ValueError, with the list of choices, unless `choice` is one of them.

    >>> check_choice("grater", ("greater", "less"), "alternative")
    Traceback (most recent call last):
    ValueError: alternative must be one of 'greater', 'less', not 'grater'
    """
    if not isinstance(choice, str) or choice not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {choice!r}")


def check_alternative(alternative: str) -> None:
    """Raise ValueError unless the alternative is one of the three."""
    check_choice(alternative, get_args(Alternative), "alternative")


def check_side(side: str) -> None:
    """Raise ValueError unless the side is "lower" or "upper"."""
    check_choice(side, get_args(Side), "side")


def check_share(value: float, name: str) -> None:
    """Raise ValueError unless 0 < value < 1: an alpha, a level, a power or a quantile."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, not {value!r}")


def check_shares(**shares: float) -> None:
    """Raise ValueError unless each of the named shares lies between 0 and 1."""
    for name, share in shares.items():
        check_share(share, name)


def check_tail(alpha: float, side: str) -> None:
    """Raise ValueError unless alpha lies between 0 and 1 and the side is "lower" or "upper"."""
    check_share(alpha, "alpha")
    check_side(side)


def check_counts(n: int, **counts: int) -> None:
    """Raise ValueError unless the counts are non-negative and together at most n."""
    if min(n, *counts.values()) < 0 or sum(counts.values()) > n:
        listed = ", ".join(f"{name}={count}" for name, count in counts.items())
        raise ValueError(f"counts must be non-negative and add up to at most n={n}, not {listed}")


def check_arms(x1: int, n1: int, x2: int, n2: int) -> None:
    """Raise ValueError unless both counts of successes are possible ones."""
    check_counts(n1, x1=x1)
    check_counts(n2, x2=x2)


def is_finite_range(bounds: Range | None) -> bool:
    """Return True when both ends are finite. Raises ValueError when the low end is not below the high end."""
    if bounds is None:
        return False
    if not bounds[0] < bounds[1]:
        raise ValueError(f"the low bound must be below the high bound, not {bounds!r}")
    return math.isfinite(bounds[0]) and math.isfinite(bounds[1])


def align_pairs(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike, clusters: Labels | None
) -> tuple[npt.ArrayLike, npt.ArrayLike, Labels | None]:
    """Return the baseline, and the clusters, in the order of the candidate's index; values other than Series unchanged.

    Raises ValueError if two Series have different labels, or labels that occur twice in another order.
    """
    if not _has_index(candidate):
        return candidate, baseline, clusters
    return candidate, _align(candidate, baseline, "baseline"), _align(candidate, clusters, "clusters")


def _has_index(values: Any) -> bool:
    return hasattr(values, "reindex") and hasattr(values, "index")


def _align(candidate: Any, other: Any, name: str) -> Any:
    if not _has_index(other) or candidate.index.equals(other.index):
        return other
    candidate_only, other_only = candidate.index.difference(other.index), other.index.difference(candidate.index)
    for labels, where, absent in ((candidate_only, "candidate", name), (other_only, name, "candidate")):
        if len(labels):
            raise ValueError(
                f"the indexes of candidate and {name} differ: "
                f"{labels[0]!r} is in that of the {where} and not in that of the {absent} "
                f"({len(candidate_only)} labels in the candidate's only, {len(other_only)} in the other only); "
                "give both the samples' ids as index, or pass .to_numpy() to pair by position"
            )
    if not (candidate.index.is_unique and other.index.is_unique):
        raise ValueError(
            f"candidate and {name} cannot be aligned: labels of the index occur more than once; average repeats first"
        )
    return other.reindex(candidate.index)
