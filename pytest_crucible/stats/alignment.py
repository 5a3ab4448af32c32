"""Pairs of pandas Series, matched by their index. pandas itself is not imported: a Series is recognised by its methods."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from pytest_crucible.stats.arrays import Labels


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
