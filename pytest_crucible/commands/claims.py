"""What may be said of comparisons on the command line: of which metrics, and what is claimed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from pytest_crucible.errors import SpecError
from pytest_crucible.markers import ALTERNATIVES, contrast
from pytest_crucible.records import Contrast

_OPTIONS = (
    click.option("--metric", "metrics", multiple=True, metavar="NAME", help="What to compare; may be repeated."),
    click.option(
        "--margin", type=float, metavar="M", help="How much worse is still good enough, as ab_compare has it."
    ),
    click.option("--alternative", type=click.Choice(ALTERNATIVES), help="What is claimed, as ab_compare has it."),
)


def claim_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--metric`, `--margin` and `--alternative`, in this order of the help."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def claims(metrics: Sequence[str], margin: float | None, alternative: str | None) -> tuple[Contrast, ...]:
    """The comparisons that were named; none where all are wanted. Raises SpecError."""
    if not metrics and (margin is not None or alternative is not None):
        raise SpecError("a margin or a claim is one metric's: name it with --metric")
    return tuple(contrast(name, margin=margin, alternative=alternative) for name in metrics)
