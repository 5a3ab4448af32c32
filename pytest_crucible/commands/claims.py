"""Options that declare comparisons on the command line: metrics, margin, alternative and relevant difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast, get_args

import click

from pytest_crucible.plan.contrasts import ALTERNATIVES, parse_contrast
from pytest_crucible.records import Contrast
from pytest_crucible.records.amounts import parse_amount
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.types import Direction

_OPTIONS = (
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        metavar="NAME[:lower|:higher]",
        help="Metric to compare, and which direction is better where nothing shows it; may be repeated.",
    ),
    click.option(
        "--margin", type=parse_amount, metavar="M", help="Largest acceptable loss, as in ab_compare: 0.05, or '10 %'."
    ),
    click.option("--alternative", type=click.Choice(ALTERNATIVES), help="Claim to test, as in ab_compare."),
    click.option(
        "--relevant",
        type=parse_amount,
        metavar="D",
        help="Smallest difference that matters, as in ab_compare: 0.02, or '10 %'.",
    ),
)


def claim_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--metric`, `--margin`, `--alternative` and `--relevant`, in this order of the help."""
    # click lists options in the reverse order in which they are added.
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_claims(
    metrics: Sequence[str],
    margin: float | str | None,
    alternative: str | None,
    relevant: float | str | None,
) -> tuple[tuple[Contrast, ...], dict[str, Direction]]:
    """Return the named comparisons, and metric -> direction as far as it is named; no comparison compares all metrics.

    Raises SpecError.
    """
    if not metrics and any(option is not None for option in (margin, alternative, relevant)):
        raise SpecError("--margin, --alternative and --relevant apply to one metric: name it with --metric")
    parts = [_split_direction(text) for text in metrics]
    contrasts = [parse_contrast(name, margin, alternative, relevant) for name, _ in parts]
    named = zip(contrasts, (direction for _, direction in parts), strict=True)
    return tuple(contrasts), {claim.metric: direction for claim, direction in named if direction}


def _split_direction(text: str) -> tuple[str, Direction | None]:
    name, _, direction = text.rpartition(":")
    return (name, cast(Direction, direction)) if direction in get_args(Direction) else (text, None)
