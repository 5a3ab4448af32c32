"""What it took to ask each arm: a row of a table, and what went otherwise than it should below it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tabulate import tabulate

from pytest_crucible.numerals import counted, number, with_interval
from pytest_crucible.records import JUDGE, Analysis, Run, Spread, Usage
from pytest_crucible.report.grids import Grid, Row, named
from pytest_crucible.wire import to_plain

PERCENTILES = ("p50", "p90", "p95", "p99")
_NOTE = (
    "seconds; percentiles linear between order statistics (type 7) of answered requests, {level} intervals from order "
    "statistics; cancelled requests are left out"
)


def usage_grid(run: Run) -> Grid:
    """The arms that a model was asked for; no rows where none was. A column that is known of nobody is left out."""
    shown = list(_shown(run))
    columns = {head: cells for head, cells in _columns([usage for _, usage in shown]).items() if any(cells)}
    rows = tuple(
        Row(
            experiment=analysis.plan.nodeid,
            cells=tuple(cell or "-" for cell in cells),
            below="; ".join(_remarks(usage)),
        )
        for (analysis, usage), *cells in zip(shown, *columns.values(), strict=True)
    )
    return Grid(heads=tuple(columns), rows=rows)


def usage_lines(run: Run) -> Iterator[str]:
    """A table of the arms that a model was asked for; nothing where none was."""
    grid = usage_grid(run)
    if not grid.rows:
        return
    heads, *lines = _aligned([grid.heads, *(row.cells for row in grid.rows)])
    yield heads
    above = ""
    for line, row in zip(lines, grid.rows, strict=True):
        if len(run.experiments) > 1 and row.experiment != above:
            yield row.experiment
            above = row.experiment
        yield line
        if row.below:
            yield f"    {row.below}"


def percentile_grid(run: Run) -> Grid:
    """How long requests took and waited, with intervals."""
    rows = tuple(
        Row(experiment=analysis.plan.nodeid, cells=(usage.arm, what, *_percentiles(spread)))
        for analysis, usage in _shown(run)
        for what, spread in _spreads(usage)
        if spread is not None
    )
    return Grid(heads=("arm", "time of", "n", *PERCENTILES), rows=rows)


def percentile_lines(run: Run) -> Iterator[str]:
    """How long requests took and waited, with intervals, and what is not known of them."""
    many, grid = len(run.experiments) > 1, percentile_grid(run)
    if grid.rows:
        shown = grid.with_names() if many else grid
        yield from _aligned([shown.heads, *(row.cells for row in shown.rows)], words=2 + many)
        yield percentile_note(run)
    for analysis, usage in _shown(run):
        unknown = "; ".join(_unknown(usage))
        if unknown:
            yield f"{_name(analysis)}: {usage.arm}: {unknown}"


def percentile_note(run: Run) -> str:
    """What the percentiles are."""
    return _NOTE.format(level=f"{(1 - run.alpha) * 100:g} %")


def usage_document(analysis: Analysis, arm: str) -> dict[str, Any] | None:
    """The usage of one arm as JSON; None where nothing was asked."""
    usage = next((one for one in analysis.usage if one.arm == arm), None)
    if usage is None:
        return None
    spreads = {name: _spread_document(getattr(usage, name)) for name in ("latency", "first_token", "waited")}
    plain: dict[str, Any] = to_plain(usage)
    del plain["arm"]
    return {**plain, **spreads, "throughput": usage.throughput}


def _spread_document(spread: Spread | None) -> dict[str, Any] | None:
    if spread is None:
        return None
    values = {f"p{one.share * 100:g}": one.value for one in spread.quantiles}
    intervals = {
        f"p{one.share * 100:g}": [one.interval.low, one.interval.high]
        for one in spread.quantiles
        if one.interval is not None
    }
    return {"n": spread.n, **values, "intervals": intervals or None}


def _shown(run: Run) -> Iterator[tuple[Analysis, Usage]]:
    """Each arm that a model was asked for, with its experiment. Scripts cost nothing that is worth a line."""
    for analysis in run.experiments:
        real = {arm.name for arm in analysis.plan.arms if not arm.simulated}
        asked = (one for one in analysis.usage if one.arm in real or one.arm.startswith(JUDGE))
        yield from ((analysis, usage) for usage in asked if usage.sent)


def _columns(shown: Sequence[Usage]) -> dict[str, list[str]]:
    """Cells by the head of their column; empty ones where nothing is known. A column of those is not shown."""
    has_price = any(usage.cost_usd is not None for usage in shown)
    return {
        "asked": [usage.arm for usage in shown],
        "requests": [f"{usage.sent:,}" for usage in shown],
        "tokens in": [_count(usage.input_tokens) for usage in shown],
        "out": [_count(usage.output_tokens) for usage in shown],
        "cost": [_cost(usage) if has_price else "" for usage in shown],
        "latency p50": [_latency(usage, 0.5) for usage in shown],
        "p95": [_latency(usage, 0.95) for usage in shown],
        "answers/s": ["" if usage.throughput is None else _three_digits(usage.throughput) for usage in shown],
    }


def _count(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"


def _cost(usage: Usage) -> str:
    """What is known is the least that it was."""
    if usage.cost_usd is None:
        return "unknown"
    return f"{'>= ' if usage.unpriced else ''}{dollars(usage.cost_usd)}"


def _latency(usage: Usage, share: float) -> str:
    return "" if usage.latency is None else seconds(usage.latency.at(share))


def _remarks(usage: Usage) -> Iterator[str]:
    """What is worth a word: nothing, where every request was answered at once."""
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
        yield f"waited for a turn: p50 {seconds(usage.waited.at(0.5))}, p95 {seconds(usage.waited.at(0.95))}"
    if usage.unpriced and usage.cost_usd is not None:
        yield f"cost of {counted(usage.unpriced, 'request')} unknown"


def _unknown(usage: Usage) -> Iterator[str]:
    if usage.unpriced and usage.cost_usd is None:
        yield f"cost of {counted(usage.unpriced, 'request')} unknown"
    if usage.uncounted:
        yield f"tokens of {counted(usage.uncounted, 'answer')} unknown"
    if usage.cached:
        yield f"{usage.cached:,} read from the cache"


def _spreads(usage: Usage) -> Sequence[tuple[str, Spread | None]]:
    return (
        ("answering", usage.latency),
        ("the first token", usage.first_token),
        ("waiting for a turn", usage.waited),
    )


def _percentiles(spread: Spread) -> list[str]:
    values = [
        number(one.value) if one.interval is None else with_interval(one.value, one.interval)
        for one in spread.quantiles
    ]
    return [f"{spread.n:,}", *values]


def seconds(value: float) -> str:
    """A duration with three digits.

    >>> seconds(0.0431), seconds(1.1), seconds(99.96), seconds(0.000123), seconds(0)
    ('0.0431 s', '1.10 s', '100 s', '0.123 ms', '0 s')
    """
    if not value:
        return "0 s"
    return f"{_three_digits(value)} s" if value >= 0.001 else f"{_three_digits(value * 1e3)} ms"


def dollars(value: float) -> str:
    """An amount to the cent, and with two digits where it is less than ten of them.

    >>> dollars(12.3456), dollars(0.00123), dollars(0.0)
    ('$12.35', '$0.0012', '$0.00')
    """
    decimals = 2 if value >= 0.1 or value <= 0 else 1 - math.floor(math.log10(value))
    return f"${value:,.{decimals}f}"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def _name(analysis: Analysis) -> str:
    return named(analysis.plan.nodeid)


def _aligned(rows: Sequence[Sequence[str]], words: int = 1) -> list[str]:
    """The first `words` columns to the left, all others to the right."""
    align = ["left"] * words + ["right"] * (len(rows[0]) - words)
    return tabulate(rows, tablefmt="plain", colalign=align, disable_numparse=True).splitlines()
