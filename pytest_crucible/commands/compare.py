"""`crucible compare`: two stored runs, or arms of them, or two files of another harness, against each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pytest_crucible.adopted import DEFAULT_ALPHA, Wishes
from pytest_crucible.adopting import Adoption
from pytest_crucible.commands.claims import claim_options, claims
from pytest_crucible.commands.options import json_option, store_option
from pytest_crucible.commands.show import say_run, verbose_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.errors import SpecError
from pytest_crucible.importing.formats import read
from pytest_crucible.pairing import Side, paired
from pytest_crucible.records import Contrast, Run
from pytest_crucible.store.naming import TAGGED
from pytest_crucible.store.runs import RunStore


@click.command("compare", short_help="Two stored runs, or arms of them, or files, against each other.")
@click.argument("candidate")
@click.argument("baseline")
@claim_options
@click.option("--alpha", type=float, metavar="A", show_default="the candidate run's", help="Error rate of the claims.")
@store_option
@verbose_option
@json_option
def command(
    candidate: str, baseline: str, store: str, alpha: float | None, verbose: int, as_json: bool, **claimed: Any
) -> int:
    """Compare CANDIDATE with BASELINE, sample by sample: the same methods and verdicts as in a session.

    Each is RUN or RUN:ARM, where RUN is the id of a run, or its beginning, `latest` or `tag:NAME`; without an arm the run's
    candidate is meant. Or both are files that another harness has written, as `crucible import` reads them; then nothing is
    stored. Without --metric the comparisons are those that the suite declares, and where it declares none, of every metric.
    Exits 1 when a verdict is missed.
    """
    asked = claims(**claimed)
    if any(Path(one).is_file() or _is_path(one) for one in (candidate, baseline)):
        run, notes = _files(candidate, baseline, asked, alpha)
    else:
        run, notes = _runs(store, candidate, baseline, asked, alpha)
    say_run(run, verbose, as_json=as_json, notes=notes)
    return int(any(one.state == "missed" for one in run.verdicts))


Compared = tuple[Run, tuple[str, ...]]


def _files(candidate: str, baseline: str, asked: tuple[Contrast, ...], alpha: float | None) -> Compared:
    run = next((one for one in (candidate, baseline) if not Path(one).is_file()), None)
    if run is not None and _is_path(run):
        raise SpecError(
            f"{run!r} is neither a file nor a run: give the path of a log or of a table, or what `crucible runs` lists"
        )
    if run is not None:
        raise SpecError(
            f"{run!r} is no file: compare files with files, or runs with runs (crucible import makes a run)"
        )
    files = [read(Path(one)) for one in (candidate, baseline)]
    adoption = Adoption.of(files, Wishes(contrasts=asked, alpha=DEFAULT_ALPHA if alpha is None else alpha))
    return adoption.judged(), adoption.notes


def _runs(store: str, candidate: str, baseline: str, asked: tuple[Contrast, ...], alpha: float | None) -> Compared:
    with existing_store(store) as opened:
        ours, theirs = _side(opened, candidate), _side(opened, baseline)
        if ours == theirs:
            raise SpecError(f"{candidate} and {baseline} are the same answers: compare two that differ")
        level = opened.run(ours.run)["alpha"] if alpha is None else alpha
        return paired(opened, ours, theirs, lambda known: _checked(asked, known), alpha=level)


def _is_path(named: str) -> bool:
    """Whether it is named as a file is. Ids of runs have no point and no slash; arms and tags, which may, follow a colon."""
    return ":" not in named and bool(Path(named).suffix or Path(named).parent.name)


def _side(store: RunStore, named: str) -> Side:
    """What stands behind a colon is the arm, but for the one of `tag:`."""
    prefix = TAGGED if named.startswith(TAGGED) else ""
    run, _, arm = named.removeprefix(prefix).partition(":")
    return Side(store.find_run(prefix + run), arm)


def _checked(asked: tuple[Contrast, ...], known: Sequence[str]) -> tuple[Contrast, ...]:
    """Raises SpecError for a metric that the arms do not have both."""
    for one in asked:
        if one.metric not in known:
            raise SpecError(
                f"metric {one.metric!r} was not scored in both arms: they share {', '.join(known) or 'none'}"
            )
    return asked
