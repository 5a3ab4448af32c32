"""The settings of a search, proposed by Optuna from the trials before. Pure functions.

The proposal of a trial depends on the seed, its number and the trials before it alone, so that a resumed run makes the same.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_crucible.records.errors import SpecError
from pytest_crucible.sweeps.grid import Family, member_name
from pytest_crucible.sweeps.ranges import Range

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Point = Mapping[str, Any]

DRAWS = 100
"""Proposals in which nothing is new, after which all settings count as tried."""
MOST_RANDOM = 10
"""Optuna's own number of random trials before its model of the scores begins."""


def first_points(family: Family, seed: int) -> list[dict[str, Any]]:
    """Return the settings of the trials that are drawn at random: half of them, and at most 10."""
    points: list[dict[str, Any]] = []
    for number in range(max(2, min(MOST_RANDOM, family.trials // 2))):
        point = propose(family, [], seed=seed, number=number, tried=points)
        if point is not None:
            points.append(point)
    return points


def most_trials(family: Family) -> int:
    """Return the number of trials that a search can have: no settings are tried twice."""
    return int(min(family.trials, math.prod(map(_count_values, family.settings.values()))))


def _count_values(values: Sequence[Any]) -> float:
    if not isinstance(values[0], Range):
        return len(values)
    return values[0].high - values[0].low + 1 if values[0].is_whole else math.inf


def propose(
    family: Family, scored: Sequence[tuple[Point, float]], *, seed: int, number: int, tried: Sequence[Point]
) -> dict[str, Any] | None:
    """Return the settings of a trial by Optuna's TPE (Bergstra et al. 2011); None if all have been tried.

    `scored` has the settings and the mean score of the trials before; a higher score is better. Raises SpecError without Optuna.
    """
    optuna = _import_optuna(family.name)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spaces = {key: _distribution(values) for key, values in family.settings.items()}
    sampler = optuna.samplers.TPESampler(seed=_trial_seed(seed, number), n_startup_trials=len(scored) and 1)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for point, score in scored:
        params = {key: _to_optuna(family.settings[key], value) for key, value in point.items()}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=spaces, value=score))
    names = {member_name(family, point) for point in tried}
    for _ in range(DRAWS):
        params = study.ask(fixed_distributions=spaces).params
        point = {key: _from_optuna(values, params[key]) for key, values in family.settings.items()}
        if member_name(family, point) not in names:
            return point
    return None


def _import_optuna(name: str) -> Any:
    try:
        import optuna
    except ImportError as error:
        raise SpecError(
            f'the sweep of {name!r} has search, which needs Optuna: pip install "pytest-crucible[optuna]"'
        ) from error
    return optuna


def _trial_seed(seed: int, number: int) -> int:
    # Trials of neighbouring seeds share nothing.
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:4], "big")


def _distribution(values: Sequence[Any]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(values[0], Range):
        # By position: Optuna takes no lists as values.
        return CategoricalDistribution(tuple(range(len(values))))
    limits = values[0]
    if limits.is_whole:
        return IntDistribution(int(limits.low), int(limits.high), log=limits.log)
    return FloatDistribution(limits.low, limits.high, log=limits.log)


def _from_optuna(values: Sequence[Any], number: Any) -> Any:
    return values[0].round_inside(number) if isinstance(values[0], Range) else values[number]


def _to_optuna(values: Sequence[Any], value: Any) -> Any:
    return value if isinstance(values[0], Range) else list(values).index(value)
