"""Usage: requests, tokens, cost and latency of each arm and each judge, from the counted events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pytest_crucible import stats
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    HELPERS,
    ArmEvents,
    Claim,
    EventCount,
    LatencySummary,
    Note,
    Plan,
    Quantile,
    Row,
    Statement,
    Table,
    Usage,
    View,
)
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.sections.inputs import SectionInputs, no_claims
from pytest_crucible.stats.number_format import dollars, number, quantity, seconds, three_digits, with_interval

decides = False  # no claim of it can fail the session
claims = no_claims

# The percentiles by which latencies are usually compared.
SHARES = (0.5, 0.9, 0.95, 0.99)
Amount = TypeVar("Amount", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usages:
    """Usage of the arms in the order of the plan, and then of the judges."""

    usages: tuple[Usage, ...]
    simulated: frozenset[str]
    """Arms that no model answered."""
    level: float


def compute(inputs: SectionInputs) -> Usages | None:
    """Return the usage of each arm and judge that sent requests or read the cache; None if none did."""
    return summarize_arms(inputs.plan, inputs.stored.events(), alpha=inputs.alpha)


def summarize_arms(plan: Plan, events: Mapping[str, ArmEvents], *, alpha: float) -> Usages | None:
    """Return the usage of each arm and judge of an experiment from their events; None without any."""
    level = 1 - alpha
    usages = tuple(_usages(plan, events, level=level))
    simulated = frozenset(arm.name for arm in plan.arms if arm.simulated)
    return Usages(usages=usages, simulated=simulated, level=level) if usages else None


def view(usages: Usages, claims: Sequence[Claim]) -> View:
    """Return a table of requests and cost, one of percentiles, and notes on unknown values."""
    # Scripted arms cost nothing, and need no line.
    called = [usage for usage in usages.usages if usage.arm not in usages.simulated and usage.sent]
    unknown = {usage.arm: "; ".join(_unknown_amounts(usage)) for usage in called}
    tables = (_usage_table(called), _percentile_table(called, usages.level))
    return View(
        title="Cost and latency",
        tables=tuple(table for table in tables if table.rows),
        notes=tuple(Note(text=f"{arm}: {text}", verbosity=1) for arm, text in unknown.items() if text),
        methods=(_METHOD,) if any(usage.latency is not None for usage in usages.usages) else (),
        document=[_document(usage) for usage in usages.usages],
    )


def _usages(plan: Plan, events: Mapping[str, ArmEvents], *, level: float) -> Iterator[Usage]:
    helpers = sorted(name for name in events if name.startswith(HELPERS))
    for name in (*(arm.name for arm in plan.arms), *helpers):
        if name in events:
            yield summarize_usage(name, events[name], level=level)


def summarize_usage(arm: str, events: ArmEvents, *, level: float) -> Usage:
    """Return counts, sums and percentiles of one arm.

    Percentiles of latency are those of answered requests. A cancelled request took at least as long as it lived, and its
    full latency is unknown: it is counted, but its time is left out.
    """
    stopped = [count for count in events.counts if count.name == "request.stop"]
    answered = [count for count in stopped if count.error is None]
    cancelled = [count for count in stopped if count.error == "cancelled"]
    # `request.stop` is counted, because `request.start` is not stored.
    sent, hedged = _total(stopped), _number(events, "hedge.fired")
    return Usage(
        arm=arm,
        sent=sent,
        answered=_total(answered),
        failed={str(count.error): count.n for count in stopped if count not in answered and count not in cancelled},
        cancelled=_total(cancelled),
        retried=_number(events, "request.retry"),
        hedged=hedged,
        hedges_won=_number(events, "hedge.won"),
        cached=_number(events, "cache.hit"),
        input_tokens=_sum_known([count.input_tokens for count in stopped]),
        output_tokens=_sum_known([count.output_tokens for count in stopped]),
        uncounted=sum(count.n - count.counted for count in answered),
        cost_usd=_sum_known([count.cost_usd for count in stopped]),
        unpriced=sum(count.n - count.priced for count in (*answered, *cancelled)),
        latency=_summary(events.latencies, level),
        first_token=_summary(events.first_tokens, level),
        waited=_waiting_time(events.waits, turns=sent - hedged),
        seconds=max((count.last for count in stopped), default=0.0)
        - min((count.first for count in stopped), default=0.0),
    )


def _total(counts: Iterable[EventCount]) -> int:
    return sum(count.n for count in counts)


def _sum_known(amounts: Sequence[Amount | None]) -> Amount | None:
    terms = [amount for amount in amounts if amount is not None]
    return sum(terms[1:], terms[0]) if terms else None


def _number(events: ArmEvents, name: str) -> int:
    return _total(count for count in events.counts if count.name == name)


def _waiting_time(waits: Sequence[float], *, turns: int) -> LatencySummary | None:
    """Return the waiting time over all turns. A turn without an event did not wait; a hedge takes no turn.

    Without intervals: requests that wait at the same time wait for the same reason, so waits are not independent.
    """
    if not waits:
        return None
    return _summary(np.concatenate([np.zeros(max(0, turns - len(waits))), np.asarray(waits)]), None)


def _summary(seconds: npt.ArrayLike, level: float | None) -> LatencySummary | None:
    values = np.sort(np.asarray(seconds, dtype=np.float64))
    if not values.size:
        return None
    intervals = [None if level is None else stats.quantile_interval(values, share, level=level) for share in SHARES]
    # As numpy.quantile, which imports numpy.ma for it: 11 ms.
    quantiles = tuple(
        Quantile(share=share, value=stats.quantile_estimate(values, share), interval=interval)
        for share, interval in zip(SHARES, intervals, strict=True)
    )
    return LatencySummary(n=values.size, quantiles=quantiles)


_TIMES = ("reply", "first token", "rate limit wait")
PERCENTILES = ("p50", "p90", "p95", "p99")
HEADS = ("arm", "requests", "tokens in", "out", "cost", "latency p50", "p95", "replies/s")
_NOTE = (
    "seconds; percentiles linear between order statistics (type 7) of answered requests, {level} intervals from order "
    "statistics; cancelled requests are left out"
)
_METHOD = Statement(
    text="Percentiles are linear between order statistics (type 7), their intervals by order statistics.",
    cites=("hyndman1996", "david2003"),
)


def _usage_table(usages: Sequence[Usage]) -> Table:
    """Return a row for each arm. A cell is empty if its value is unknown: renderers drop columns of empty cells."""
    has_price = any(usage.cost_usd is not None for usage in usages)
    rows = tuple(Row(cells=_cells(usage, has_price), below="; ".join(_remarks(usage))) for usage in usages)
    return Table(title="Requests, tokens, cost and latency", heads=HEADS, rows=rows, numbers=HEADS[1:])


def _cells(usage: Usage, has_price: bool) -> tuple[str, ...]:
    return (
        usage.arm,
        f"{usage.sent:,}",
        "" if usage.input_tokens is None else f"{usage.input_tokens:,}",
        "" if usage.output_tokens is None else f"{usage.output_tokens:,}",
        _cost(usage) if has_price else "",
        _latency(usage, 0.5),
        _latency(usage, 0.95),
        "" if usage.throughput is None else three_digits(usage.throughput),
    )


def _cost(usage: Usage) -> str:
    """Return the known cost, which is the least that it can have been."""
    if usage.cost_usd is None:
        return "unknown"
    return f"{'>= ' if usage.unpriced else ''}{dollars(usage.cost_usd)}"


def _latency(usage: Usage, share: float) -> str:
    return "" if usage.latency is None else seconds(usage.latency.at(share))


def _remarks(usage: Usage) -> Iterator[str]:
    """Yield the errors, retries and waits; nothing if every request was answered at once."""
    if usage.failed:
        kinds = ", ".join(f"{kind} x {count:,}" for kind, count in sorted(usage.failed.items()))
        yield f"{sum(usage.failed.values()):,} failed ({kinds})"
    if usage.retried:
        yield f"{usage.retried:,} retried"
    if usage.hedged:
        yield f"{usage.hedged:,} hedged, {usage.hedges_won:,} won"
    if usage.cancelled:
        yield f"{usage.cancelled:,} cancelled (in no percentile)"
    if usage.waited is not None:
        yield f"rate limit wait: p50 {seconds(usage.waited.at(0.5))}, p95 {seconds(usage.waited.at(0.95))}"
    if usage.unpriced and usage.cost_usd is not None:
        yield f"cost of {quantity(usage.unpriced, 'request')} unknown"


def _unknown_amounts(usage: Usage) -> Iterator[str]:
    if usage.unpriced and usage.cost_usd is None:
        yield f"cost of {quantity(usage.unpriced, 'request')} unknown"
    if usage.uncounted:
        yield f"tokens of {quantity(usage.uncounted, 'reply')} unknown"
    if usage.cached:
        yield f"{usage.cached:,} read from the cache"


def _percentile_table(usages: Sequence[Usage], level: float) -> Table:
    rows = tuple(
        Row(cells=(usage.arm, name, *_percentiles(summary)))
        for usage in usages
        for name, summary in zip(_TIMES, (usage.latency, usage.first_token, usage.waited), strict=True)
        if summary is not None
    )
    return Table(
        title="Percentiles of latency and waiting, in seconds",
        heads=("arm", "time of", "n", *PERCENTILES),
        rows=rows,
        numbers=("n", *PERCENTILES),
        note=_NOTE.format(level=f"{level * 100:g} %"),
        verbosity=1,
    )


def _percentiles(summary: LatencySummary) -> list[str]:
    values = [
        number(quantile.value) if quantile.interval is None else with_interval(quantile.value, quantile.interval)
        for quantile in summary.quantiles
    ]
    return [f"{summary.n:,}", *values]


def _document(usage: Usage) -> dict[str, Any]:
    summaries = {name: _summary_document(getattr(usage, name)) for name in ("latency", "first_token", "waited")}
    plain: dict[str, Any] = to_plain(usage)
    return {**plain, **summaries, "throughput": usage.throughput}


def _summary_document(summary: LatencySummary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    values = {f"p{quantile.share * 100:g}": quantile.value for quantile in summary.quantiles}
    intervals = {
        f"p{quantile.share * 100:g}": [quantile.interval.low, quantile.interval.high]
        for quantile in summary.quantiles
        if quantile.interval is not None
    }
    return {"n": summary.n, **values, "intervals": intervals or None}
