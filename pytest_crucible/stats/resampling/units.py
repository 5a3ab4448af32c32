"""The units that a permutation test moves as a whole: samples or groups, and above 2,000 of these blocks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Codes, cluster_totals

# Flips of blocks are a subgroup of all flips, so the test stays exact; with 2,000 it has the power of one of all samples.
MOST_UNITS = 2_000
# Ids are hashed in parts, because each has the width of the longest.
_PART = 4_096
Keys = npt.NDArray[np.uint64]
"""One number a value, a hash of the sample's id: units are joined in an order that depends on no score."""


class Units(NamedTuple):
    """Sums of the units' values, and the units' numbers of values."""

    totals: Array
    sizes: Array


def group_units(values: Array, clusters: Codes | None = None, keys: Keys | None = None) -> Units:
    """Return the units of values in the order of their keys, joined into blocks of equal number above 2,000 units.

    >>> group_units(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), np.array([3, 9, 5], dtype=np.uint64)).totals.tolist()
    [3.0, 4.0]
    """
    totals, sizes = list_units(values, clusters, keys)
    if totals.size <= MOST_UNITS:
        return Units(totals, sizes)
    starts = np.arange(MOST_UNITS) * totals.size // MOST_UNITS
    return Units(np.add.reduceat(totals, starts), np.add.reduceat(sizes, starts))


def list_units(values: Array, clusters: Codes | None = None, keys: Keys | None = None) -> Units:
    """Return samples or groups as units, in the order of their keys; a group has the smallest key of its samples."""
    keys = hash_positions(values.size) if keys is None else keys
    if clusters is None:
        totals, sizes, firsts = values, np.ones(values.size), keys
    else:
        _, codes = np.unique(clusters, return_inverse=True)
        totals, sizes = cluster_totals(codes, values), np.bincount(codes).astype(np.float64)
        firsts = np.full(totals.size, np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(firsts, codes, keys)
    order = np.argsort(firsts, kind="stable")
    return Units(totals[order], sizes[order])


def hash_ids(ids: Sequence[str]) -> Keys:
    """Return a key for each id: a multilinear hash of its characters, the same in every run and on every machine.

    Carter & Wegman 1979, J. Comput. Syst. Sci. 18:143. In arrays, because SHA-256 of 100,000 ids takes as long as their comparison.

    >>> hash_ids(["q1", "q10"]).tolist() == [hash_ids([name])[0] for name in ("q1", "q10")]
    True
    """
    parts = [_hash_part(ids[start : start + _PART]) for start in range(0, len(ids), _PART)]
    return np.concatenate(parts) if parts else np.array([], dtype=np.uint64)


def _hash_part(ids: Sequence[str]) -> Keys:
    names = np.array(ids, dtype=np.str_)
    # The zeros behind shorter ids add nothing, so that a key does not depend on the longest id.
    characters = names.view(np.uint32).reshape(names.size, -1).astype(np.uint64)
    with np.errstate(over="ignore"):
        return _scramble(characters @ hash_positions(characters.shape[1]))


def hash_positions(n: int) -> Keys:
    """Return keys for values without ids: a fixed scrambling of their positions (Steele et al. 2014, SplitMix64).

    >>> hash_positions(3).tolist() == hash_positions(4).tolist()[:3]
    True
    """
    with np.errstate(over="ignore"):
        return _scramble(np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _scramble(numbers: Keys) -> Keys:
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
