"""Tables, notes and JSON of the usage section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_crucible.records import LatencySummary, Note, Row, Statement, Table, Usage, View
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.stats.number_format import dollars, number, quantity, seconds, three_digits, with_interval

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


def usage_view(usages: Sequence[Usage], called: Sequence[Usage], *, level: float) -> View:
    """Return the view of all usages. Only `called` ones, which sent requests to a model, get rows."""
    return View(
        title="Cost and latency",
        tables=tuple(table for table in (_usage_table(called), _percentile_table(called, level)) if table.rows),
        notes=tuple(
            Note(text=f"{usage.arm}: {text}", verbosity=1)
            for usage in called
            if (text := "; ".join(_unknown_amounts(usage)))
        ),
        methods=(_METHOD,) if any(usage.latency is not None for usage in usages) else (),
        document=[_document(usage) for usage in usages],
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
        _count(usage.input_tokens),
        _count(usage.output_tokens),
        _cost(usage) if has_price else "",
        _latency(usage, 0.5),
        _latency(usage, 0.95),
        "" if usage.throughput is None else three_digits(usage.throughput),
    )


def _count(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"


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
        for name, summary in _summaries(usage)
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


def _summaries(usage: Usage) -> Sequence[tuple[str, LatencySummary | None]]:
    return (
        ("reply", usage.latency),
        ("first token", usage.first_token),
        ("rate limit wait", usage.waited),
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
