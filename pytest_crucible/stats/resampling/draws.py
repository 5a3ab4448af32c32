"""Random draws of permutation tests: seeds, the units that move as a whole, sums under sign patterns, and p-values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.exact_sums import group_totals

# As a text: numpy imports its generators, in 15 ms and 7 MB, for the first session that draws.
Seed: TypeAlias = "int | np.random.Generator"
"""A number that is recorded with the result, or a generator that the caller owns."""

# Indices drawn at once: they and the values they pick stay in the processor's cache, which is four times faster.
CELLS = 20_000


def generator(rng: Seed) -> tuple[np.random.Generator, int | None]:
    """Return the generator of a seed, and the seed itself when it can be recorded.

    Raises ValueError for a negative seed.

    >>> generator(7)[1]
    7
    """
    if isinstance(rng, np.random.Generator):
        return rng, None
    if rng < 0:
        raise ValueError(f"a seed must be at least 0, not {rng!r}")
    return np.random.default_rng(rng), int(rng)


def check_draws(draws: int, name: str) -> None:
    """Raise ValueError unless there are at least 100 draws.

    Fewer have no tail from which a 95 % interval could be read.

    >>> check_draws(10_000, "resamples")
    """
    if draws < 100:
        raise ValueError(f"{name} must be at least 100, not {draws!r}")


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
    if clusters is not None or values.size <= MOST_UNITS:
        return join_units(list_units(values, clusters, keys))
    keys = hash_positions(values.size) if keys is None else keys
    codes = np.searchsorted(first_keys(np.sort(keys), first_ranks(keys.size)), keys, side="right")
    return Units(*group_totals(codes, values))


def join_units(units: Units) -> Units:
    """Return units that are in the order of their keys, joined into blocks of equal number above 2,000 units."""
    if units.totals.size <= MOST_UNITS:
        return units
    starts = first_ranks(units.totals.size)
    return Units(np.add.reduceat(units.totals, starts), np.add.reduceat(units.sizes, starts))


def first_ranks(count: int) -> npt.NDArray[np.intp]:
    """Return the rank of the first unit of each block, of more than 2,000 units in the order of their keys."""
    return np.arange(MOST_UNITS) * count // MOST_UNITS


def first_keys(ordered: Keys, ranks: npt.NDArray[np.intp]) -> Keys:
    """Return the first key of each block after the first: equal keys are in one block."""
    return ordered[ranks[1:]]


def list_units(values: Array, clusters: Codes | None = None, keys: Keys | None = None) -> Units:
    """Return samples or groups as units, in the order of their keys; a group has the smallest key of its samples."""
    keys = hash_positions(values.size) if keys is None else keys
    if clusters is None:
        totals, sizes, firsts = values, np.ones(values.size), keys
    else:
        _, codes = np.unique(clusters, return_inverse=True)
        totals, sizes = group_totals(codes, values)
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
    # The zeros behind shorter ids add nothing, so that a key does not depend on the longest id.
    characters = _equal_characters(ids)
    if characters is None:
        names = np.array(ids, dtype=np.str_)
        characters = names.view(np.uint32).reshape(names.size, -1).astype(np.uint64)
    with np.errstate(over="ignore"):
        return _scramble(characters @ hash_positions(characters.shape[1]))


def _equal_characters(ids: Sequence[str]) -> Keys | None:
    """Return the characters of ids of one length, without an array of texts, which takes half of the time; None of others."""
    size = len(ids[0])
    if not size or set(map(len, ids)) != {size} or not (joined := "".join(ids)).isascii():
        return None
    return np.frombuffer(joined.encode(), dtype=np.uint8).reshape(-1, size).astype(np.uint64)


def hash_positions(n: int) -> Keys:
    """Return keys for values without ids: a fixed scrambling of their positions (Steele et al. 2014, SplitMix64)."""
    with np.errstate(over="ignore"):
        return _scramble(np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _scramble(numbers: Keys) -> Keys:
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


# With the observed one, 10,000 arrangements: a p-value near 0.05 is then known to about 0.002.
DRAWS = 9_999
# Memory and seconds are bounded however many comparisons a session has: 10^-6 is Holm's first level of 50,000 of them.
MOST_DRAWS = 1_000_000
# Statistics, on the scale of t, that differ by less are ties. Ties count as extreme, so that the p-value stays valid, and noise
# far below the digits of a score cannot break them: it would change a verdict.
TIE = 1e-3

Draw: TypeAlias = "Callable[[int, np.random.Generator], Array]"
"""Returns the statistic of so many random arrangements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonteCarlo:
    """The seed of random arrangements, and the smallest p-value that they have to resolve."""

    seed: int = 0
    finest: float = 1e-4
    draws: int = DRAWS
    """The first draws; only a statistic that none of them reaches gets more."""

    @property
    def most_draws(self) -> int:
        # The observed arrangement is one of them.
        return min(MOST_DRAWS, max(self.draws, round(1 / self.finest) - 1))


UNSEEDED = MonteCarlo()
"""What a caller without a seed of its own gets: seed 0, so that a result is the same each time."""


def resolve_for(alpha: float, family_size: int, seed: int) -> MonteCarlo:
    """Return the setting that resolves a hundredth of the first level of a Holm family.

    >>> resolve_for(0.05, 10, seed=7).most_draws
    19999
    """
    return MonteCarlo(seed=seed, finest=alpha / (100 * max(family_size, 1)))


def p_value_of_draws(draw: Draw, observed: float, setting: MonteCarlo) -> tuple[float, int]:
    """Return the p-value of a large statistic, and the number of draws behind it.

    p = (hits + 1) / (draws + 1) is valid for any number of draws (Phipson & Smyth 2010, Stat. Appl. Genet. Mol. Biol. 9:39). A
    statistic that none of the first draws reaches gets more of them. That keeps p valid: it is small only if the first draws and
    all of them together, each a test of its own, are (Besag & Clifford 1991, Biometrika 78:301).
    """
    rng = np.random.default_rng(setting.seed)
    hits, draws = _count_hits(draw(setting.draws, rng), observed), setting.draws
    if hits:
        return (hits + 1) / (draws + 1), draws
    while draws < setting.most_draws:
        following = min(DRAWS, setting.most_draws - draws)
        hits += _count_hits(draw(following, rng), observed)
        draws += following
    return min((hits + 1) / (draws + 1), 1 / (setting.draws + 1)), draws


def _count_hits(statistics: Array, observed: float) -> int:
    return int(np.count_nonzero(statistics >= observed - TIE))


def list_sums(differences: Array) -> Array:
    """Return the sums of all 2^n sign patterns, in no particular order.

    The shape is (2^n, k) for differences of k columns.

    >>> list_sums(np.array([1.0, 3.0])).tolist()
    [-4.0, -2.0, 2.0, 4.0]
    """
    sums = np.zeros((1, *differences.shape[1:]))
    for row in differences:
        sums = np.concatenate((sums - row, sums + row))
    return sums


def draw_sums(differences: Array, flips: int, rng: np.random.Generator) -> Array:
    """Return sums under `flips` random sign patterns: (flips,), or (flips, k) for k columns.

    One random byte decides the signs of eight differences; their 256 possible sums are looked up.
    """
    bytes_needed = -(-len(differences) // 8)
    padded = np.zeros((bytes_needed * 8, *differences.shape[1:]))
    padded[: len(differences)] = differences
    sums = np.zeros((flips, *differences.shape[1:]))
    for eight in range(bytes_needed):
        patterns = np.frombuffer(rng.bytes(flips), dtype=np.uint8)
        sums += list_sums(padded[8 * eight : 8 * eight + 8]).take(patterns, axis=0)
    return sums
