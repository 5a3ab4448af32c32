"""Predict the interval with more samples, prompts, trainings or rounds, to spend money where it narrows most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible.stats.factors.sources import Source, half_width

MOST_TIMES = 64
"""Designs with more than this many times the levels are not suggested."""


def expected_half_width(sources: Sequence[Source], alpha: float, name: str = "", levels: int = 0) -> float:
    """Return the expected half-width if the source with this name has this number of levels.

    >>> samples = Source(name="samples", levels=1000, dof=999, variance=0.0002)
    >>> prompts = Source(name="prompts", levels=5, dof=4, variance=0.0008, floor=0.0001)
    >>> [round(expected_half_width([samples, prompts], 0.05, *more), 3) for more in ((), ("prompts", 25), ("samples", 2000))]
    [0.081, 0.033, 0.077]
    """
    return half_width(with_levels([_raise_to_floor(source) for source in sources], name, levels), alpha)


def levels_to_halve(sources: Sequence[Source], alpha: float, name: str) -> int | None:
    """Return the levels of one source at which the interval is half as wide; None beyond MOST_TIMES the present ones."""
    levels = next(source.levels for source in sources if source.name == name)
    goal = expected_half_width(sources, alpha) / 2
    low, high = levels, levels * MOST_TIMES
    if expected_half_width(sources, alpha, name, high) > goal:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if expected_half_width(sources, alpha, name, middle) > goal else (low, middle)
    return high


def with_levels(sources: Sequence[Source], name: str, levels: int) -> list[Source]:
    """Return the sources with a new number of levels for the named one; unchanged if no source has that name."""
    samples, *factors = sources
    if name == samples.name:
        share = samples.levels / levels
        # The floors come from the samples and shrink with them; the factors' own part stays.
        smaller = [
            replace(one, variance=one.variance - one.floor * (1 - share), floor=one.floor * share) for one in factors
        ]
        return [replace(samples, levels=levels, dof=samples.dof / share, variance=samples.variance * share), *smaller]
    changed = []
    for factor in factors:
        if factor.name == name:
            share = factor.levels / levels
            samples = replace(samples, variance=samples.variance - factor.floor * (1 - share))
            factor = replace(
                factor, levels=levels, dof=levels - 1.0, variance=factor.variance * share, floor=factor.floor * share
            )
        changed.append(factor)
    return [samples, *changed]


def _raise_to_floor(source: Source) -> Source:
    """Return the source with a variance of at least its floor: levels may be alike by chance."""
    return replace(source, variance=max(source.variance, source.floor))
