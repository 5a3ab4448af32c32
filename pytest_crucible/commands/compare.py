"""`crucible compare`: compare two stored runs, arms of them, or two files of another harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from pytest_crucible.commands.claims import claim_options, read_claims
from pytest_crucible.commands.options import (
    column_option,
    group_option,
    json_option,
    parse_columns,
    parse_ranges,
    parse_reaches,
    range_option,
    reach_option,
    store_option,
)
from pytest_crucible.commands.plugins import importers
from pytest_crucible.commands.show import print_run, verbose_option
from pytest_crucible.importers.formats import read_results
from pytest_crucible.importers.metric_facts import Declared
from pytest_crucible.records import Contrast, Run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.records.suggestions import suggest
from pytest_crucible.records.types import Direction
from pytest_crucible.runs.compare import StoredArm, compare_runs
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.runs.imported import ImportedRun
from pytest_crucible.runs.imported_plan import ImportOptions
from pytest_crucible.store.find_run import TAGGED
from pytest_crucible.store.runs import RunStore


@click.command("compare", short_help="Compare two stored runs, arms of them, or files.")
@click.argument("candidate")
@click.argument("baseline", default="")
@claim_options
@column_option
@group_option
@range_option
@reach_option
@click.option("--alpha", type=float, metavar="A", show_default="the candidate run's", help="Error rate of the claims.")
@store_option
@verbose_option
@json_option
def command(
    candidate: str,
    baseline: str,
    columns: Sequence[str],
    group: str,
    ranges: Sequence[str],
    reaches: Sequence[str],
    store: str,
    alpha: float | None,
    verbose: int,
    as_json: bool,
    **claimed: Any,
) -> int:
    """Compare CANDIDATE with BASELINE, sample by sample: the same methods and verdicts as in a session.

    Each is RUN or RUN:ARM, where RUN is a run's id, or its beginning, `latest` or `tag:NAME`; ARM is the run's candidate by
    default. Or both are files or directories of another harness, as `crucible import` reads them; then nothing is stored. One
    file of several arms needs no BASELINE: its first arm is the candidate. NAME may also be a term on a
    variant, such as exact_match.drop[homoglyph]: variants that both runs have are compared, and others are named. Without --metric
    the comparisons are those that the suite declares, or of every metric if it declares none. Exits 1 when a verdict is
    missed, or a margin is impossible.
    """
    contrasts, directions = read_claims(**claimed)
    names = [candidate, baseline] if baseline else [candidate]
    if any(Path(name).exists() or _is_path(name) for name in names):
        tabular = Tabular(parse_columns(columns), group, parse_ranges(ranges), parse_reaches(reaches))
        run, notes = _files(names, contrasts, directions, alpha, tabular)
    else:
        _check_runs(baseline, columns, group, ranges, reaches)
        run, notes = _runs(store, candidate, baseline, contrasts, directions, alpha)
    print_run(run, verbose, as_json=as_json, notes=notes)
    return int(any(verdict.state == "missed" or verdict.suite_error for verdict in run.verdicts))


Compared = tuple[Run, tuple[str, ...]]


class Tabular(NamedTuple):
    """The command's options on columns, groups, ranges and reaches of imported files."""

    columns: Mapping[str, str]
    group: str
    ranges: Mapping[str, tuple[float, float]]
    reaches: Mapping[str, float]


def _check_runs(
    baseline: str, columns: Sequence[str], group: str, ranges: Sequence[str], reaches: Sequence[str]
) -> None:
    """Raise SpecError for a comparison of stored runs without a baseline, or with options of files."""
    if not baseline:
        raise SpecError("name a baseline after the candidate: only a file with several arms needs none")
    if columns or group:
        raise SpecError("--column and --group apply to files: a stored run has its own samples and groups")
    if ranges:
        raise SpecError(
            "--range applies to files, and a stored run has the bounds that its metrics declared: leave the option out"
        )
    if reaches:
        raise SpecError(
            "--reach applies to files, and a stored run has the reach that its metrics declared before it: leave the option "
            "out"
        )


def _files(
    names: Sequence[str],
    contrasts: tuple[Contrast, ...],
    directions: Mapping[str, Direction],
    alpha: float | None,
    tabular: Tabular,
) -> Compared:
    run = next((name for name in names if not Path(name).exists()), None)
    if run is not None and _is_path(run):
        raise SpecError(
            f"{run!r} is neither a file nor a run: give the path of a log or of a table, or what `crucible runs` lists"
        )
    if run is not None:
        raise SpecError(
            f"{run!r} is not a file: compare files with files, or runs with runs (crucible import makes a run of a file)"
        )
    files = [
        file
        for name in names
        for file in read_results(Path(name), columns=tabular.columns, group=tabular.group, readers=importers())
    ]
    wishes = ImportOptions(
        contrasts=contrasts,
        declared=Declared(ranges=tabular.ranges, reaches=tabular.reaches).with_directions(directions),
        alpha=DEFAULT_ALPHA if alpha is None else alpha,
    )
    adoption = ImportedRun.of(files, wishes)
    adoption.check_compared()
    return adoption.evaluate_unstored(), adoption.notes


def _runs(
    store: str,
    candidate: str,
    baseline: str,
    contrasts: tuple[Contrast, ...],
    directions: Mapping[str, Direction],
    alpha: float | None,
) -> Compared:
    with existing_store(store) as opened:
        ours, theirs = _side(opened, candidate), _side(opened, baseline)
        if ours == theirs:
            raise SpecError(f"{candidate} and {baseline} are the same replies: compare two that differ")
        level = opened.run(ours.run)["alpha"] if alpha is None else alpha
        return compare_runs(
            opened, ours, theirs, lambda metrics: _check_metrics(contrasts, metrics), directions, alpha=level
        )


def _is_path(named: str) -> bool:
    """Return whether a name looks like a path: run ids have no dot and no slash; arms and tags follow a colon."""
    return ":" not in named and bool(Path(named).suffix or Path(named).parent.name)


def _side(store: RunStore, named: str) -> StoredArm:
    """Return the arm of `RUN:ARM`; the colon of `tag:NAME` does not separate an arm."""
    prefix = TAGGED if named.startswith(TAGGED) else ""
    run, _, arm = named.removeprefix(prefix).partition(":")
    return StoredArm(store.find_run(prefix + run), arm)


def _check_metrics(contrasts: tuple[Contrast, ...], metrics: Sequence[str]) -> tuple[Contrast, ...]:
    """Return the comparisons. Raises SpecError for a metric that is missing in one of the arms."""
    for contrast in contrasts:
        missing = next((name for name in contrast.metrics if name not in metrics), None)
        if missing is not None:
            whole = ", ".join(name for name in metrics if "[" not in name)
            hint = suggest(missing, metrics, otherwise=f"they share {whole or 'none'}")
            raise SpecError(f"metric {missing!r} was not scored in both arms: {hint}")
    return contrasts
