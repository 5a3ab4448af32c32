"""The `hedge` setting of an adapter: `hedge = { strategy = "percentile", percentile = 95, max_extra = 0.1 }`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_crucible.backends.hedging.delays import AdaptiveDelay, Delay, FixedDelay, PercentileDelay, WorkloadDelay
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError

MAX_EXTRA, BEGIN, PERCENTILE = 0.1, 20, 95
_COMMON = {"strategy", "max_extra"}
_STRATEGIES: Mapping[str, frozenset[str]] = {
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
    """A strategy, and the largest share of second requests."""

    delay: Delay
    max_extra: float


def read_hedge(adapter: Adapter, seed: int) -> Hedge | None:
    """Read `hedge` of an adapter; None if it has none. Raises SpecError."""
    table = adapter.asking.get("hedge")
    if table is None:
        return None
    if not isinstance(table, Mapping) or table.get("strategy") not in tuple(_STRATEGIES):
        raise SpecError(
            f"adapter {adapter.name!r} has hedge = {table!r}: write a table with strategy = one of {', '.join(_STRATEGIES)}"
        )
    strategy = table["strategy"]
    _check(adapter, strategy, table)
    return Hedge(_delay(strategy, table, seed), float(table.get("max_extra", MAX_EXTRA)))


def _check(adapter: Adapter, strategy: str, table: Mapping[str, Any]) -> None:
    names = _COMMON | _STRATEGIES[strategy]
    for name, value in table.items():
        if name not in names:
            raise SpecError(
                f"adapter {adapter.name!r} has hedge.{name}, which strategy {strategy!r} does not have; "
                f"expected {', '.join(sorted(names))}"
            )
        if name == "strategy":
            continue
        holds, expected = _LIMITS[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and holds(value)):
            raise SpecError(f"adapter {adapter.name!r} has hedge.{name} = {value!r}: write {expected}")
    if strategy == "fixed" and "delay_s" not in table:
        raise SpecError(f"adapter {adapter.name!r} hedges with strategy 'fixed' but has no delay: add delay_s = 0.5")


def _delay(strategy: str, table: Mapping[str, Any], seed: int) -> Delay:
    begin, share = int(table.get("min_samples", BEGIN)), table.get("percentile", PERCENTILE) / 100
    if strategy == "fixed":
        return FixedDelay(float(table["delay_s"]))
    if strategy == "percentile":
        initial = table.get("initial_delay_s", float("inf"))
        return PercentileDelay(share, begin=begin, initial=float(initial))
    if strategy == "adaptive":
        return AdaptiveDelay(begin=begin, seed=seed, price=float(table.get("price", 0.5)))
    return WorkloadDelay(share, begin=begin)
