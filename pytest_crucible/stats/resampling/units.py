"""The units that a permutation test moves as a whole: samples or groups, and above 2,000 of these blocks of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Codes, cluster_totals

# Flips of blocks are a subgroup of all flips, so the test stays exact; with 2,000 it has the power of one of all samples.
MOST_UNITS = 2_000
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
    """Return a key for each id: the beginning of its SHA-256, the same in every run and on every machine.

    >>> hash_ids(["q1"]).tolist()
    [14365894305091137106]
    """
    digests = b"".join(hashlib.sha256(name.encode()).digest()[:8] for name in ids)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def hash_positions(n: int) -> Keys:
    """Return keys for values without ids: a fixed scrambling of their positions (Steele et al. 2014, SplitMix64).

    >>> hash_positions(3).tolist() == hash_positions(4).tolist()[:3]
    True
    """
    with np.errstate(over="ignore"):
        mixed = (np.arange(1, n + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))
