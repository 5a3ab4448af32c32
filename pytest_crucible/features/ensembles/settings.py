"""Settings of an ensemble: its members, how they are queried, and how they vote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from pytest_crucible.backends.protocol import is_number
from pytest_crucible.features.ensembles.votes import TIES, VOTES
from pytest_crucible.metrics.normalisers import NORMALISERS
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.object_reference import import_function


def check_name(adapter_name: str, setting: str, name: Any, names: Iterable[str]) -> None:
    """Raise SpecError, with the nearest name, unless a name is in the table or an importable function."""
    if isinstance(name, str) and ":" in name:
        find_function(adapter_name, setting, name)
    elif name not in tuple(names):
        expected = f"expected {', '.join(map(repr, names))}, or 'module:function' for a function of your own"
        raise SpecError(f"{adapter_name} has {setting} = {name!r}: {suggest(str(name), names, always=expected)}")


def find_function(adapter_name: str, setting: str, name: str) -> Callable[..., Any]:
    """Import the function that "module:function" names. Raises SpecError."""
    return import_function(f"{adapter_name} has {setting} =", name)


EXECUTIONS = ("parallel", "sequential", "hedged", "cascade")
BY_CONFIDENCE = "confidence"
# Settings that only apply to these executions.
EXECUTIONS_OF = {"threshold": ("sequential", "cascade"), "delay_s": ("hedged",), "costs": ("cascade",)}
# Settings without a meaning if the first answer is taken.
VOTE_SETTINGS = ("vote", "weights", "ties", "seed")
REQUIRED = {
    "hedged": ("delay_s", "delay_s = 0.5: seconds after which the other members are queried, too"),
    "cascade": ("threshold", "threshold = 0.9: the confidence from which an answer is accepted"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules by which an ensemble queries its members and counts their answers."""

    ensemble: tuple[str, ...]
    """The members' names."""
    vote: str = "majority"
    """One of VOTES, or "module:function". In a cascade the default is "": the last answer counts."""
    weights: tuple[float, ...] | None = None
    """One weight per member; None for equal weights, or weights by confidence."""
    normalise: str = "text"
    execution: str = "parallel"
    threshold: float | None = None
    delay_s: float | None = None
    costs: tuple[float, ...] | None = None
    min_responses: int
    ties: str = "first"
    seed: int = 0

    @property
    def by_confidence(self) -> bool:
        """True if votes are weighted by their members' confidence."""
        return self.vote == "weighted" and self.weights is None

    @property
    def order(self) -> tuple[int, ...]:
        """Positions of the members in the order of querying: the cheapest first if costs are set."""
        positions = range(len(self.ensemble))
        return tuple(positions if self.costs is None else sorted(positions, key=self.costs.__getitem__))


SETTINGS = tuple(field.name for field in fields(Rules))


def read_rules(adapter: Adapter) -> Rules:
    """Read the rules of an ensemble adapter. Raises SpecError."""
    adapter_name = f"adapter {adapter.name!r}"
    options = adapter.options
    _check_settings(adapter_name, adapter)
    members = _members(adapter_name, options.get("ensemble"))
    execution = str(options.get("execution", "parallel"))
    default_vote = "" if execution == "cascade" else "majority"
    least = 1 if execution in ("hedged", "cascade") else len(members) // 2 + 1
    return Rules(
        ensemble=members,
        vote=str(options.get("vote", default_vote)),
        weights=_weights(adapter_name, options, len(members)),
        normalise=str(options.get("normalise", "text")),
        execution=execution,
        threshold=_number(
            adapter_name, options, "threshold", "a number above 0 and up to 1", lambda value: 0 < value <= 1
        ),
        delay_s=_number(adapter_name, options, "delay_s", "seconds, 0 or more", lambda value: value >= 0),
        costs=_numbers(adapter_name, options, "costs", len(members)) if "costs" in options else None,
        min_responses=_min_responses(adapter_name, options, least, len(members)),
        ties=str(options.get("ties", "first")),
        seed=_seed(adapter_name, options),
    )


# -- names of settings ------------------------------------------------------------------------------------------------


def _check_settings(adapter_name: str, adapter: Adapter) -> None:
    options = adapter.options
    unknown = sorted(set(options) - set(SETTINGS))
    if unknown:
        raise SpecError(
            f"{adapter_name} has {unknown[0]!r}, which is not a setting of an ensemble; expected {', '.join(SETTINGS)}"
        )
    if adapter.asking:
        raise SpecError(
            f"{adapter_name} has {min(adapter.asking)!r}, but it is an ensemble: set it in the adapters of its members"
        )
    execution = options.get("execution", "parallel")
    if execution not in EXECUTIONS:
        raise SpecError(
            f"{adapter_name} has execution = {execution!r}: write one of {', '.join(map(repr, EXECUTIONS))}"
        )
    for name, table in (("vote", VOTES), ("normalise", NORMALISERS)):
        if name in options:
            check_name(adapter_name, name, options[name], table)
    if options.get("ties", "first") not in tuple(TIES):
        raise SpecError(f"{adapter_name} has ties = {options['ties']!r}: write one of {', '.join(map(repr, TIES))}")
    _check_together(adapter_name, options, execution)


def _check_together(adapter_name: str, options: Mapping[str, Any], execution: str) -> None:
    """Raise SpecError for a setting that would have no effect: it is an error."""
    for name, where in EXECUTIONS_OF.items():
        if name in options and execution not in where:
            raise SpecError(
                f"{adapter_name} has {name!r}, which belongs to execution = {' or '.join(map(repr, where))}, "
                f"not {execution!r}: remove it"
            )
    if execution == "hedged":
        for name in VOTE_SETTINGS:
            if name in options:
                raise SpecError(f"{adapter_name} has {name!r}, but a hedged ensemble takes the first answer: remove it")
    if execution in REQUIRED and REQUIRED[execution][0] not in options:
        raise SpecError(f"{adapter_name} has execution = {execution!r}: add {REQUIRED[execution][1]}")
    if "weights" in options and options.get("vote") != "weighted" and ":" not in str(options.get("vote", "")):
        raise SpecError(f"{adapter_name} has weights, which need vote = 'weighted' or a function of your own")
    if "seed" in options and options.get("ties") != "random":
        raise SpecError(f"{adapter_name} has a seed, but draws nothing: set ties = 'random', or remove it")


# -- values -----------------------------------------------------------------------------------------------------------


def _members(adapter_name: str, names: Any) -> tuple[str, ...]:
    named = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not named or len(names) < 2:
        raise SpecError(
            f"{adapter_name} has ensemble = {names!r}: write the names of at least 2 adapters, "
            'such as ensemble = ["v1", "v2"]'
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(
            f"{adapter_name} has member {twice!r} twice: to use one model more than once, "
            "give it adapters with different parameters"
        )
    return tuple(names)


def _weights(adapter_name: str, options: Mapping[str, Any], count: int) -> tuple[float, ...] | None:
    if options.get("weights", BY_CONFIDENCE) == BY_CONFIDENCE:
        return None
    weights = _numbers(adapter_name, options, "weights", count)
    if not sum(weights) > 0:
        raise SpecError(f"{adapter_name} has weights that sum to 0: write at least one above 0")
    return weights


def _numbers(adapter_name: str, options: Mapping[str, Any], name: str, count: int) -> tuple[float, ...]:
    """Return one number per member, each at least 0."""
    values = options[name]
    if not isinstance(values, list | tuple) or not all(map(is_number, values)):
        also = f" or {BY_CONFIDENCE!r}" if name == "weights" else ""
        raise SpecError(f"{adapter_name} has {name} = {values!r}: write a list of one number for each member{also}")
    if len(values) != count:
        raise SpecError(
            f"{adapter_name} has {len(values)} {name} and {count} members: write one number for each member"
        )
    if min(values) < 0:
        raise SpecError(f"{adapter_name} has {min(values):g} among its {name}: write numbers of 0 or more")
    return tuple(map(float, values))


def _number(adapter_name: str, options: Mapping[str, Any], name: str, expected: str, fits: Any) -> float | None:
    if name not in options:
        return None
    value = options[name]
    if not is_number(value) or not fits(value):
        raise SpecError(f"{adapter_name} has {name} = {value!r}: write {expected}")
    return float(value)


def _min_responses(adapter_name: str, options: Mapping[str, Any], least: int, count: int) -> int:
    value = options.get("min_responses", least)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= count:
        raise SpecError(
            f"{adapter_name} has min_responses = {value!r}: write a whole number from 1 to its {count} members"
        )
    if options.get("execution") == "hedged" and value > 1:
        raise SpecError(
            f"{adapter_name} has min_responses = {value}, but a hedged ensemble takes the first answer: remove it"
        )
    return value


def _seed(adapter_name: str, options: Mapping[str, Any]) -> int:
    value = options.get("seed", 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise SpecError(f"{adapter_name} has seed = {value!r}: write a whole number")
    return value
