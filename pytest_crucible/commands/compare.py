"""`crucible compare`: two stored runs, or arms of them, against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from pytest_crucible.commands.options import json_option, store_option
from pytest_crucible.commands.show import say_run, verbose_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.errors import SpecError
from pytest_crucible.markers import ALTERNATIVES, contrast
from pytest_crucible.pairing import Side, paired
from pytest_crucible.records import Contrast
from pytest_crucible.store.naming import TAGGED
from pytest_crucible.store.runs import RunStore


@click.command("compare", short_help="Two stored runs, or arms of them, against each other.")
@click.argument("candidate")
@click.argument("baseline")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="What to compare; may be repeated.")
@click.option("--margin", type=float, metavar="M", help="How much worse is still good enough, as ab_compare has it.")
@click.option("--alternative", type=click.Choice(ALTERNATIVES), help="What is claimed, as ab_compare has it.")
@click.option("--alpha", type=float, metavar="A", show_default="the candidate run's", help="Error rate of the claims.")
@store_option
@verbose_option
@json_option
def command(
    candidate: str, baseline: str, store: str, alpha: float | None, verbose: int, as_json: bool, **asked: Any
) -> int:
    """Compare CANDIDATE with BASELINE, sample by sample: the same methods and verdicts as in a session.

    Each is RUN or RUN:ARM, where RUN is the id of a run, or its beginning, `latest` or `tag:NAME`; without an arm the run's
    candidate is meant. Without --metric the comparisons are those that the suite declares, and where it declares none, of
    every metric. Exits 1 when a verdict is missed.
    """
    with existing_store(store) as opened:
        ours, theirs = _side(opened, candidate), _side(opened, baseline)
        if ours == theirs:
            raise SpecError(f"{candidate} and {baseline} are the same answers: compare two that differ")
        level = opened.run(ours.run)["alpha"] if alpha is None else alpha
        run, notes = paired(opened, ours, theirs, lambda known: _asked(known, **asked), alpha=level)
    say_run(run, verbose, as_json=as_json, notes=notes)
    return int(any(one.state == "missed" for one in run.verdicts))


def _side(store: RunStore, named: str) -> Side:
    """What stands behind a colon is the arm, but for the one of `tag:`."""
    prefix = TAGGED if named.startswith(TAGGED) else ""
    run, _, arm = named.removeprefix(prefix).partition(":")
    return Side(store.find_run(prefix + run), arm)


def _asked(
    known: Sequence[str], *, metrics: tuple[str, ...], margin: float | None, alternative: str | None
) -> tuple[Contrast, ...]:
    """Those that were named on the command line. Raises SpecError for a metric that the arms do not have both."""
    if not metrics and (margin is not None or alternative is not None):
        raise SpecError("a margin or a claim is one metric's: name it with --metric")
    for name in metrics:
        if name not in known:
            raise SpecError(f"metric {name!r} was not scored in both arms: they share {', '.join(known) or 'none'}")
    return tuple(contrast(name, margin=margin, alternative=alternative) for name in metrics)
