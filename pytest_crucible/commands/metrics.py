"""`crucible metrics`: what a marker can name by a string, a line each."""

from __future__ import annotations

import math
from typing import Any

import click
from tabulate import tabulate

from pytest_crucible.builtin import METRICS, load
from pytest_crucible.commands.options import json_option, say
from pytest_crucible.metrics import Metric

HEADERS = ("name", "kind", "better", "range", "what it says")


@click.command("metrics", short_help="The metrics that a marker can name.")
@json_option
def command(as_json: bool) -> None:
    """The metrics that this package registers, with --json their versions too.

    Those of a conftest.py are known to its tests alone.
    """
    metrics: list[Metric] = [load(METRICS[name]) for name in sorted(METRICS)]
    rows = [(one.name, one.facts.kind or "", one.facts.direction, _range(one), _sentence(one)) for one in metrics]
    lines = tabulate(rows, headers=HEADERS, tablefmt="plain").splitlines()
    say(lines, [_facts(one) for one in metrics], as_json=as_json)


def _facts(one: Metric) -> dict[str, Any]:
    facts = one.facts
    low, high = (end if math.isfinite(end) else None for end in (facts.low, facts.high))
    return {
        "name": one.name,
        "kind": facts.kind,
        "direction": facts.direction,
        "low": low,
        "high": high,
        "version": facts.version,
        "says": _sentence(one),
    }


def _range(one: Metric) -> str:
    low, high = one.facts.low, one.facts.high
    if not math.isfinite(low):
        return ""
    return f"{low:g} to {high:g}" if math.isfinite(high) else f"from {low:g}"


def _sentence(one: Metric) -> str:
    return (one.function.__doc__ or "").strip().splitlines()[0]
