"""`crucible metrics`: what a marker can name by a string, a line each."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from tabulate import tabulate

from pytest_crucible.builtin import METRICS, load
from pytest_crucible.metrics import Metric

HEADERS = ("name", "kind", "better", "range", "what it says")


def add_command(commands: Any) -> None:
    """Enter the command with its options."""
    parser = commands.add_parser(
        "metrics",
        help="the metrics that a marker can name",
        description="The metrics that this package registers. Those of a conftest.py are known to its tests alone.",
    )
    parser.add_argument("--json", action="store_true", help="as JSON, with versions")
    parser.set_defaults(run_command=list_metrics)


def list_metrics(given: argparse.Namespace) -> int:
    """Print them."""
    metrics: list[Metric] = [load(METRICS[name]) for name in sorted(METRICS)]
    if given.json:
        print(json.dumps([_facts(one) for one in metrics], indent=1))
    else:
        rows = [(one.name, one.facts.kind or "", one.facts.direction, _range(one), _sentence(one)) for one in metrics]
        print(tabulate(rows, headers=HEADERS, tablefmt="plain"))
    return 0


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
