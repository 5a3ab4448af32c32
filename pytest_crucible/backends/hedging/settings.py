"""What an adapter says of hedging: `hedge = { strategy = "percentile", percentile = 95, max_extra = 0.1 }`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_crucible.backends.hedging.delays import AdaptiveDelay, Delay, FixedDelay, PercentileDelay, WorkloadDelay
from pytest_crucible.errors import SpecError
from pytest_crucible.records import Adapter

MAX_EXTRA, BEGIN, PERCENTILE = 0.1, 20, 95
_COMMON = {"strategy", "max_extra"}
_OWN: Mapping[str, frozenset[str]] = {
    "fixed": frozenset({"delay_s"}),
    "percentile": frozenset({"percentile", "min_samples", "initial_delay_s"}),
    "adaptive": frozenset({"min_samples", "price"}),
    "workload": frozenset({"percentile", "min_samples"}),
}
_LIMITS: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "max_extra": (lambda value: 0 < value <= 1, "a share above 0 and at most 1, such as 0.1"),
    "delay_s": (lambda value: value >= 0, "seconds, such as 0.5"),
    "initial_delay_s": (lambda value: value >= 0, "seconds, such as 0.5"),
    "percentile": (lambda value: 50 <= value < 100, "a number from 50 to below 100, such as 95"),
    "min_samples": (lambda value: value >= 5 and value == int(value), "a whole number of at least 5"),
    "price": (lambda value: value >= 0, "median latencies that a second request may cost, such as 0.5"),
}


@dataclass(frozen=True, slots=True)
class Hedge:
    """A strategy, and the share of second requests that it may send."""

    delay: Delay
    max_extra: float


def hedge_of(adapter: Adapter, seed: int) -> Hedge | None:
    """What the adapter asks for; None where it asks for nothing. Raises SpecError for what cannot be meant."""
    given = adapter.asking.get("hedge")
    if given is None:
        return None
    if not isinstance(given, Mapping) or given.get("strategy") not in tuple(_OWN):
        raise SpecError(
            f"adapter {adapter.name!r} has hedge = {given!r}: write a table with strategy = one of {', '.join(_OWN)}"
        )
    strategy = given["strategy"]
    _check(adapter, strategy, given)
    return Hedge(_delay(strategy, given, seed), float(given.get("max_extra", MAX_EXTRA)))


def _check(adapter: Adapter, strategy: str, given: Mapping[str, Any]) -> None:
    known = _COMMON | _OWN[strategy]
    for name, value in given.items():
        if name not in known:
            raise SpecError(
                f"adapter {adapter.name!r} has hedge.{name}, which strategy {strategy!r} does not know: "
                f"it takes {', '.join(sorted(known))}"
            )
        if name == "strategy":
            continue
        holds, wanted = _LIMITS[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and holds(value)):
            raise SpecError(f"adapter {adapter.name!r} has hedge.{name} = {value!r}: write {wanted}")
    if strategy == "fixed" and "delay_s" not in given:
        raise SpecError(f"adapter {adapter.name!r} hedges after a fixed time and does not say which: add delay_s = 0.5")


def _delay(strategy: str, given: Mapping[str, Any], seed: int) -> Delay:
    begin, share = int(given.get("min_samples", BEGIN)), given.get("percentile", PERCENTILE) / 100
    if strategy == "fixed":
        return FixedDelay(float(given["delay_s"]))
    if strategy == "percentile":
        initial = given.get("initial_delay_s", float("inf"))
        return PercentileDelay(share, begin=begin, initial=float(initial))
    if strategy == "adaptive":
        return AdaptiveDelay(begin=begin, seed=seed, price=float(given.get("price", 0.5)))
    return WorkloadDelay(share, begin=begin)
