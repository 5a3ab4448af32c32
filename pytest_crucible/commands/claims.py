"""Options that declare comparisons on the command line: metrics, margin and alternative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from pytest_crucible.markers import ALTERNATIVES, contrast
from pytest_crucible.records import Contrast
from pytest_crucible.records.errors import SpecError

_OPTIONS = (
    click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Metric to compare; may be repeated."),
    click.option("--margin", type=float, metavar="M", help="Largest acceptable loss, as in ab_compare."),
    click.option("--alternative", type=click.Choice(ALTERNATIVES), help="Claim to test, as in ab_compare."),
)


def claim_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--metric`, `--margin` and `--alternative`, in this order of the help."""
    # click lists options in the reverse order in which they are added.
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_claims(metrics: Sequence[str], margin: float | None, alternative: str | None) -> tuple[Contrast, ...]:
    """Return the named comparisons; an empty tuple compares all metrics. Raises SpecError."""
    if not metrics and (margin is not None or alternative is not None):
        raise SpecError("--margin and --alternative apply to one metric: name it with --metric")
    return tuple(contrast(name, margin=margin, alternative=alternative) for name in metrics)
