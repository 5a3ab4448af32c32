"""`crucible plan`: how long a run of many samples takes, what it stores and costs, and what bounds it first."""

from __future__ import annotations

from typing import Any

import click

from pytest_crucible.backends.spending import Price
from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.features.scale.capacity import (
    STORES,
    CapacityPlan,
    Costs,
    Rate,
    Workload,
    measured_costs,
    plan_capacity,
)
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.stats.number_format import quantity


@click.command("plan --samples")
@click.option("--samples", type=float, required=True, metavar="N", help="Samples, for example 1e8.")
@click.option("--nodes", type=int, default=1, show_default=True, metavar="N", help="Machines with workers.")
@click.option("--per-node", type=int, default=1, show_default=True, metavar="N", help="Workers of each machine.")
@click.option("--concurrency", type=int, default=64, show_default=True, metavar="N", help="Samples in flight a worker.")
@click.option("--arms", type=int, default=2, show_default=True, metavar="N", help="Candidate and baselines.")
@click.option("--repeats", type=int, default=1, show_default=True, metavar="N", help="Replies to each sample.")
@click.option("--metrics", type=int, default=1, show_default=True, metavar="N", help="Scores of each reply.")
@click.option("--latency", "latency_s", type=float, default=1.0, show_default=True, metavar="S", help="Of a reply.")
@click.option("--input-tokens", type=float, default=500.0, show_default=True, metavar="N", help="Of a prompt.")
@click.option("--output-tokens", type=float, default=200.0, show_default=True, metavar="N", help="Of a reply.")
@click.option("--requests-per-second", type=float, metavar="N", help="Limit of all servers together.")
@click.option("--tokens-per-minute", type=float, metavar="N", help="Limit of all servers together.")
@click.option("--price", type=(float, float), metavar="IN OUT", help="US dollars for a million tokens.")
@click.option("--store", type=click.Choice(STORES), default="sqlite", show_default=True, help="Where results are kept.")
@json_option
def plan(price: tuple[float, float] | None, as_json: bool, **amounts: Any) -> None:
    """Forecast a run: hours, bytes, cost, and the first bottleneck, by rates that were measured on one machine."""
    workload = Workload(**amounts, price=None if price is None else Price(*price))
    forecast = plan_capacity(workload, measured_costs())
    print_result(plan_lines(forecast, measured_costs()), to_plain(forecast), as_json=as_json)


def plan_lines(forecast: CapacityPlan, costs: Costs) -> list[str]:
    """Return the lines of a forecast."""
    workload = forecast.workload
    workers = quantity(workload.nodes * workload.per_node, "worker")
    lines = [
        f"replies     {workload.replies:,.0f}, from {workers} with {workload.concurrency} samples in flight each",
        f"time        {duration_text(forecast.hours * 3600)}, then {duration_text(forecast.analysis_s)} of analysis",
        f"stored      {bytes_text(forecast.stored_bytes)} ({workload.store})",
        f"cost        {_cost_text(forecast)}",
        f"bottleneck  {_rate_text(forecast.bottleneck)}: {forecast.bottleneck.remedy}",
    ]
    return [*lines, *(f"  then      {_rate_text(rate)}" for rate in forecast.rates[1:])]


def _cost_text(forecast: CapacityPlan) -> str:
    if forecast.cost_usd is None:
        return "unknown: give --price"
    return f"{forecast.cost_usd:,.0f} USD, at {forecast.workload.tokens:,.0f} tokens a reply"


def _rate_text(rate: Rate) -> str:
    return f"{rate.name}, {rate.replies_per_second:,.0f} replies/s"


_UNITS = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"))


def duration_text(seconds: float) -> str:
    """Return a duration in its largest unit.

    >>> duration_text(5_400), duration_text(0.2)
    ('1.5 hours', '0.2 seconds')
    """
    size, unit = next((pair for pair in _UNITS if seconds >= pair[0]), (1.0, "seconds"))
    return f"{seconds / size:,.1f} {unit}"


def bytes_text(count: float) -> str:
    """Return a number of bytes in decimal units.

    >>> bytes_text(2.5e9), bytes_text(10)
    ('2.5 GB', '10 bytes')
    """
    for size, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,.0f} bytes"
