"""`crucible metrics`: the metrics that a marker can name, a line for each."""

from __future__ import annotations

import math
from typing import Any

import click

from pytest_crucible.builtin import METRICS
from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.metrics import Metric
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.report.printable import headed_lines

HEADERS = ("name", "kind", "better", "range", "meaning")


@click.command("metrics", short_help="The metrics that a marker can name.")
@json_option
def command(as_json: bool) -> None:
    """List the built-in metrics; --json includes their versions.

    Metrics of a conftest.py are known only to its tests.
    """
    metrics: list[Metric] = [load_object(METRICS[name]) for name in sorted(METRICS)]
    rows = [
        (metric.name, metric.facts.kind or "", metric.facts.direction, _range(metric), _sentence(metric))
        for metric in metrics
    ]
    lines = headed_lines(HEADERS, rows)
    print_result(lines, [_facts(metric) for metric in metrics], as_json=as_json)


def _facts(metric: Metric) -> dict[str, Any]:
    facts = metric.facts
    low, high = (end if math.isfinite(end) else None for end in (facts.low, facts.high))
    return {
        "name": metric.name,
        "kind": facts.kind,
        "direction": facts.direction,
        "low": low,
        "high": high,
        "reach": facts.reach,
        "version": facts.version,
        "says": _sentence(metric),
    }


def _range(metric: Metric) -> str:
    low, high = metric.facts.low, metric.facts.high
    if not math.isfinite(low):
        return ""
    return f"{low:g} to {high:g}" if math.isfinite(high) else f"from {low:g}"


def _sentence(metric: Metric) -> str:
    # The first line of the docstring describes the metric, so both stay equal.
    return (metric.function.__doc__ or "").strip().splitlines()[0]
