"""The settings of an ensemble, read and checked: who answers, how they are asked, how they vote."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pytest_crucible.backends.ensembles.functions import check_name
from pytest_crucible.backends.ensembles.normalisers import NORMALISERS
from pytest_crucible.backends.ensembles.ties import TIES
from pytest_crucible.backends.ensembles.votes import VOTES
from pytest_crucible.errors import SpecError
from pytest_crucible.records import Adapter

EXECUTIONS = ("parallel", "sequential", "hedged", "cascade")
BY_CONFIDENCE = "confidence"
ONLY_IN = {"threshold": ("sequential", "cascade"), "delay_s": ("hedged",), "costs": ("cascade",)}
"""Settings that mean something in these executions alone."""
OF_A_VOTE = ("vote", "weights", "ties", "seed")
"""Settings that mean nothing where the first answer is taken."""
NEEDED = {
    "hedged": ("delay_s", "delay_s = 0.5: seconds after which the others are asked too"),
    "cascade": ("threshold", "threshold = 0.9: the confidence at which an answer is taken"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How an ensemble asks its members, and how it counts what they answer."""

    ensemble: tuple[str, ...]
    """The members' names."""
    vote: str = "majority"
    """One of VOTES, or "module:function". In a cascade "" is the default: the last answer counts."""
    weights: tuple[float, ...] | None = None
    """One a member; None where votes weigh the same, or as their confidence says."""
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
        """Do votes weigh what their members' confidence says?"""
        return self.vote == "weighted" and self.weights is None

    @property
    def order(self) -> tuple[int, ...]:
        """Positions of the members in the order in which they are asked: the cheapest first where costs are given."""
        positions = range(len(self.ensemble))
        return tuple(positions if self.costs is None else sorted(positions, key=self.costs.__getitem__))


KNOWN = tuple(field.name for field in fields(Rules))


def read_rules(adapter: Adapter) -> Rules:
    """The rules of an adapter that is an ensemble. Raises SpecError, with one sentence, for what cannot be meant."""
    says = f"adapter {adapter.name!r}"
    given = adapter.options
    _check_settings(says, adapter)
    members = _members(says, given.get("ensemble"))
    execution = str(given.get("execution", "parallel"))
    default_vote = "" if execution == "cascade" else "majority"
    least = 1 if execution in ("hedged", "cascade") else len(members) // 2 + 1
    return Rules(
        ensemble=members,
        vote=str(given.get("vote", default_vote)),
        weights=_weights(says, given, len(members)),
        normalise=str(given.get("normalise", "text")),
        execution=execution,
        threshold=_number(says, given, "threshold", "a number above 0 and up to 1", lambda value: 0 < value <= 1),
        delay_s=_number(says, given, "delay_s", "seconds, 0 or more", lambda value: value >= 0),
        costs=_numbers(says, given, "costs", len(members)) if "costs" in given else None,
        min_responses=_min_responses(says, given, least, len(members)),
        ties=str(given.get("ties", "first")),
        seed=_seed(says, given),
    )


# -- what may be said at all ------------------------------------------------------------------------------------------


def _check_settings(says: str, adapter: Adapter) -> None:
    given = adapter.options
    unknown = sorted(set(given) - set(KNOWN))
    if unknown:
        raise SpecError(f"{says} has {unknown[0]!r}, which an ensemble does not know: it takes {', '.join(KNOWN)}")
    if adapter.asking:
        raise SpecError(
            f"{says} has {min(adapter.asking)!r}, but it is an ensemble: each member is asked as its own adapter says"
        )
    execution = given.get("execution", "parallel")
    if execution not in EXECUTIONS:
        raise SpecError(f"{says} has execution = {execution!r}: write one of {', '.join(map(repr, EXECUTIONS))}")
    for name, table in (("vote", VOTES), ("normalise", NORMALISERS)):
        if name in given:
            check_name(says, name, given[name], table)
    if given.get("ties", "first") not in tuple(TIES):
        raise SpecError(f"{says} has ties = {given['ties']!r}: write one of {', '.join(map(repr, TIES))}")
    _check_together(says, given, execution)


def _check_together(says: str, given: Mapping[str, Any], execution: str) -> None:
    """A setting that nothing would heed is a mistake."""
    for name, where in ONLY_IN.items():
        if name in given and execution not in where:
            raise SpecError(f"{says} has {name!r}, which belongs to execution = {_either(where)}, not {execution!r}")
    if execution == "hedged":
        for name in OF_A_VOTE:
            if name in given:
                raise SpecError(f"{says} has {name!r}, but a hedged ensemble takes the first answer: nobody votes")
    if execution in NEEDED and NEEDED[execution][0] not in given:
        raise SpecError(f"{says} has execution = {execution!r}: add {NEEDED[execution][1]}")
    if "weights" in given and given.get("vote") != "weighted" and ":" not in str(given.get("vote", "")):
        raise SpecError(f"{says} has weights, which only vote = 'weighted' (or a function of yours) counts by")
    if "seed" in given and given.get("ties") != "random":
        raise SpecError(f"{says} has a seed, but nothing is drawn: it belongs to ties = 'random'")


def _either(names: Iterable[str]) -> str:
    return " or ".join(map(repr, names))


# -- values -----------------------------------------------------------------------------------------------------------


def _members(says: str, given: Any) -> tuple[str, ...]:
    named = isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)
    if not named or len(given) < 2:
        raise SpecError(
            f'{says} has ensemble = {given!r}: write the names of at least 2 adapters, such as ensemble = ["v1", "v2"]'
        )
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise SpecError(
            f"{says} has member {twice!r} twice: to ask one model more than once, give it adapters whose parameters differ"
        )
    return tuple(given)


def _weights(says: str, given: Mapping[str, Any], count: int) -> tuple[float, ...] | None:
    if given.get("weights", BY_CONFIDENCE) == BY_CONFIDENCE:
        return None
    weights = _numbers(says, given, "weights", count)
    if not sum(weights) > 0:
        raise SpecError(f"{says} has weights that sum to 0: at least one member's vote must count")
    return weights


def _numbers(says: str, given: Mapping[str, Any], name: str, count: int) -> tuple[float, ...]:
    """One number a member, none of them negative."""
    values = given[name]
    if not isinstance(values, list | tuple) or not all(map(_is_number, values)):
        also = f" or {BY_CONFIDENCE!r}" if name == "weights" else ""
        raise SpecError(f"{says} has {name} = {values!r}: write a list of one number for each member{also}")
    if len(values) != count:
        raise SpecError(f"{says} has {len(values)} {name} and {count} members: write one number for each member")
    if min(values) < 0:
        raise SpecError(f"{says} has {name} of which one is {min(values):g}: write numbers of 0 or more")
    return tuple(map(float, values))


def _number(says: str, given: Mapping[str, Any], name: str, wanted: str, fits: Any) -> float | None:
    if name not in given:
        return None
    value = given[name]
    if not _is_number(value) or not fits(value):
        raise SpecError(f"{says} has {name} = {value!r}: write {wanted}")
    return float(value)


def _min_responses(says: str, given: Mapping[str, Any], least: int, count: int) -> int:
    value = given.get("min_responses", least)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= count:
        raise SpecError(f"{says} has min_responses = {value!r}: write a whole number from 1 to its {count} members")
    if given.get("execution") == "hedged" and value > 1:
        raise SpecError(f"{says} has min_responses = {value}, but a hedged ensemble takes the first answer")
    return value


def _seed(says: str, given: Mapping[str, Any]) -> int:
    value = given.get("seed", 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise SpecError(f"{says} has seed = {value!r}: write a whole number")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
