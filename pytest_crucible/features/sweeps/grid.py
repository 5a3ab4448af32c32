"""The table `sweep` of an adapter: its settings, and the members of its family, of a grid or proposed by Optuna.

[adapters.tuned.sweep]
"lora.rank" = [8, 32]
seed = [1, 2]
by = "citation"

makes the members `tuned[rank=8,seed=1]`, `tuned[rank=8,seed=2]`, `tuned[rank=32,seed=1]` and `tuned[rank=32,seed=2]`. The proposal
of a trial depends on the seed, its number and the trials before it alone, so that a resumed run makes the same.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pytest_crucible.features.sweeps.records import SWEEP_OF, Sweep
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.runs.reproduction import PlanComparison

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

EXAMPLE = "{ low = 1e-4, high = 1e-2, log = true }"


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `low` to `high`, both included; whole numbers where both ends are."""

    low: float
    high: float
    log: bool = False
    """Whether the range is logarithmic: equal factors, not equal differences, are equally likely."""

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def round_inside(self, number: float) -> float:
        """Return the number with four digits, so that a trial's name shows its exact setting.

        >>> Range(0.0001, 0.01).round_inside(0.00126355981)
        0.001264
        """
        return number if self.is_whole else min(max(float(f"{number:.4g}"), self.low), self.high)

    def as_table(self) -> dict[str, Any]:
        """Return the range as written in the configuration."""
        return asdict(self)


def is_range(value: Any) -> bool:
    """Return whether a table is a range, and not the prefix of other keys."""
    return isinstance(value, Mapping) and {"low", "high"} <= value.keys()


def read_range(name: str, key: str, table: Mapping[str, Any]) -> Range:
    """Return the range of a key. Raises SpecError."""
    low, high, log = table["low"], table["high"], table.get("log", False)
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    valid = numbers and math.isfinite(low) and math.isfinite(high) and low < high and isinstance(log, bool)
    if not valid or table.keys() - {"low", "high", "log"} or (log and low <= 0):
        raise SpecError(
            f"the sweep of {name!r} has {key} = {dict(table)!r}: write low below high, and above 0 with log, such as {EXAMPLE}"
        )
    return Range(low, high, log)


SWEEP = "sweep"
DROPS = ("proven", "half", "none")
OPTIONS = ("by", "confirm", "drop", "search")
"""Keys of the table that are no setting of the adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The settings that an adapter sweeps, and how its members compete."""

    name: str
    settings: Mapping[str, tuple[Any, ...]]
    """Dotted key of the adapter -> its values; in a search also one range."""
    by: str
    """The metric that chooses, or `test_name::metric`; empty if the only metric does."""
    confirm: float
    """The share of samples that is kept for the verdicts."""
    drop: str
    trials: int = 0
    """The number of settings that a search proposes; 0 for a grid."""

    @property
    def grid(self) -> dict[str, tuple[Any, ...]]:
        """The settings as written in the configuration."""
        return {
            key: tuple(value.as_table() if isinstance(value, Range) else value for value in values)
            for key, values in self.settings.items()
        }

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield the settings of each member; the last key varies fastest."""
        for values in itertools.product(*self.settings.values()):
            yield dict(zip(self.settings, values, strict=True))

    def members(self) -> dict[str, dict[str, Any]]:
        """Return the settings of each member by its name. Raises SpecError for two members of one name."""
        named = {member_name(self, point): point for point in self.points()}
        size = len(list(self.points()))
        if len(named) < size:
            raise SpecError(f"the sweep of {self.name!r} names a value twice: write each value once")
        if size < 2:
            raise SpecError(
                f"the sweep of {self.name!r} has one member: give a key several values, or remove the sweep"
            )
        return named


def read_family(name: str, table: Any) -> Family:
    """Return the family of an adapter from its table `sweep`. Raises SpecError."""
    if not isinstance(table, Mapping):
        raise SpecError(f"adapter {name!r} has sweep = {table!r}: write a table, as in [adapters.{name}.sweep]")
    options = {key: table[key] for key in OPTIONS if key in table}
    trials = _read_trials(name, options["search"]) if "search" in options else 0
    if trials:
        _check_search(name, options)
    swept = {key: value for key, value in table.items() if key not in OPTIONS}
    settings = _read_settings(name, swept, is_search=trials > 0)
    _check_options(name, options)
    return Family(
        name=name,
        settings=settings,
        by=options.get("by", ""),
        confirm=float(options.get("confirm", 0.5)),
        drop=options.get("drop", "none" if trials else "proven"),
        trials=trials,
    )


def member_name(family: Family, point: Mapping[str, Any]) -> str:
    """Return the name of the member with these settings, such as `tuned[steps=30,rank=8]`.

    The last part of a key names it where that is unambiguous.
    """
    last = [key.rpartition(".")[2] for key in family.settings]
    parts = [
        f"{short if last.count(short) == 1 else key}={_value_text(point[key])}"
        for key, short in zip(family.settings, last, strict=True)
    ]
    return f"{family.name}[{','.join(parts)}]"


def member_table(table: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the adapter's table without its sweep, and with a member's settings.

    >>> member_table({"backend": "local", "lora": {"rank": 8}, "sweep": {}}, {"lora.rank": 32, "seed": 1})
    {'backend': 'local', 'lora': {'rank': 32}, 'seed': 1}
    """
    changed = copy.deepcopy({key: value for key, value in table.items() if key != SWEEP})
    for key, value in point.items():
        *parents, last = key.split(".")
        inner = changed
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise SpecError(f"it sweeps {key!r}, but {parent} is {inner!r} and no table: write another key")
        inner[last] = value
    return changed


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), default=str)


def _read_settings(name: str, table: Mapping[str, Any], *, is_search: bool) -> dict[str, tuple[Any, ...]]:
    settings = {key: _read_values(name, key, value, is_search) for key, value in _flatten(table)}
    if not settings:
        raise SpecError(f'the sweep of {name!r} names no key of the adapter: write for example "lora.rank" = [8, 32]')
    return settings


def _read_values(name: str, key: str, values: Any, is_search: bool) -> tuple[Any, ...]:
    if is_range(values):
        if not is_search:
            raise SpecError(
                f"the sweep of {name!r} has a range for {key}, from which only a search proposes: add search = {{ trials = 20 }}, "
                f"or write a list of values, such as {key} = [1, 2]"
            )
        return (read_range(name, key, values),)
    if not isinstance(values, list) or not values:
        ranges = f", or a range, {EXAMPLE}" if is_search else ""
        hint = suggest(key, OPTIONS, always=f"write a list of values, such as {key} = [1, 2]{ranges}")
        raise SpecError(f"the sweep of {name!r} has {key} = {values!r}: {hint}")
    return tuple(values)


def _read_trials(name: str, search: Any) -> int:
    trials = search.get("trials") if isinstance(search, Mapping) and set(search) == {"trials"} else None
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 2:
        written = dict(search) if isinstance(search, Mapping) else search
        raise SpecError(
            f"the sweep of {name!r} has search = {written!r}: write a whole number of trials, 2 or more, such as "
            "search = { trials = 20 }"
        )
    return trials


def _check_search(name: str, options: Mapping[str, Any]) -> None:
    """Raise SpecError for options that a search does not have."""
    if options.get("drop", "none") != "none":
        raise SpecError(
            f"the sweep of {name!r} has search and drop = {options['drop']!r}, but each trial answers the whole choosing half: "
            "remove drop"
        )
    if options.get("confirm") == 0:
        # Claims for all members need members that do not depend on the scores.
        raise SpecError(
            f"the sweep of {name!r} has search and confirm = 0, but verdicts on a search need samples that have not "
            "chosen: set confirm = 0.5"
        )


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    # TOML reads lora.rank = [8, 32] without quotes as a table in a table.
    for key, value in table.items():
        if isinstance(value, Mapping) and not is_range(value):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "by": (lambda by: isinstance(by, str), 'the name of the metric that chooses, by = "accuracy"'),
    "confirm": (
        _is_share,
        "the share of samples that is kept for the verdicts, from 0 to below 1, such as confirm = 0.5",
    ),
    "drop": (DROPS.__contains__, f"{', '.join(map(repr, DROPS[:-1]))} or 'none'"),
}
"""Options of the table: whether a value is valid, and what to write instead."""


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    for key, (is_valid, advice) in _CHECKS.items():
        if key in options and not is_valid(options[key]):
            raise SpecError(f"the sweep of {name!r} has {key} = {options[key]!r}: write {advice}")


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


def sweep_changes(before: Sweep, now: Sweep) -> Iterator[str]:
    """Yield a clause for each difference of a sweep from that of an earlier run, with what to do."""
    for key in dict.fromkeys((*before.grid, *now.grid)):
        then, here = before.grid.get(key), now.grid.get(key)
        if then is None or here is None or list(then) != list(here):
            now_is = f"it is {list(here)}" if then and here else _swept_text(key, here, "it sweeps")
            yield f"{_swept_text(key, then, 'swept')}; now {now_is}: restore the grid"
    for name in ("by", "confirm", "drop", "trials", "seed"):
        then, here = getattr(before, name), getattr(now, name)
        if then != here:
            yield f"swept with {name} = {then!r}; now it is {here!r}: restore it"
    if before.choosing_sha256 != now.choosing_sha256:
        yield f"chose on other samples than {now.test} has now: restore the dataset"
    for member, other in zip(before.members, now.members, strict=False):
        if member.identity != other.identity:
            yield f"had another model as {other.name}: restore it"


def _swept_text(key: str, values: Sequence[Any] | None, verb: str) -> str:
    """Return `swept steps = [9, 30]`, or `swept no steps`."""
    name = key.rpartition(".")[2]
    return f"{verb} no {name}" if values is None else f"{verb} {name} = {list(values)}"


def compare_sweeps(then: Plan, now: Plan) -> PlanComparison:
    """Compare the sweep of a stored plan with that of today's."""
    before, after = SWEEP_OF.of(then), SWEEP_OF.of(now)
    if before is None or after is None:
        of = before or after
        changes = [] if of is None else [f"{of.family} was {'not ' if before is None else ''}swept"]
    else:
        changes = [f"this run {change}" for change in sweep_changes(before, after)]
    # The winner of a sweep is one of the members, which are compared above.
    detail = "" if before is None else f"sweep of {before.family}, {before.sha256[:12]}"
    return PlanComparison(tuple(changes), detail, names_candidate=before is None)
