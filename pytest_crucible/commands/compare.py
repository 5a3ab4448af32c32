"""`crucible compare`: two stored runs, arms of them, or results of other harnesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from pytest_crucible.commands.file_options import fact_options, question_options
from pytest_crucible.commands.options import json_option, store_option
from pytest_crucible.commands.show import print_comparison, verbose_option, verdict_status
from pytest_crucible.importers.metric_facts import Declared
from pytest_crucible.importers.sources import is_source
from pytest_crucible.records import Contrast, Run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.measures import Direction
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.runs.compared_sources import plan_comparison
from pytest_crucible.runs.imported import ImportOptions
from pytest_crucible.runs.named_arms import decide_named, make_question, pair_named, read_claims
from pytest_crucible.runs.run_store import existing_store, session_equal_inputs


@click.command("compare")
@click.argument("candidate")
@click.argument("baseline", default="")
@question_options
@fact_options
@click.option("--alpha", type=float, metavar="A", show_default="the candidate run's", help="Error rate of the claims.")
@store_option
@verbose_option
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a comment on a pull request.")
@json_option
def compare_arms(
    candidate: str,
    baseline: str,
    columns: Mapping[str, str],
    group: str,
    equal_inputs: str | None,
    ranges: Mapping[str, tuple[float, float]],
    reaches: Mapping[str, float],
    unpaired: bool,
    arms_differ_in: tuple[str, ...],
    store: str,
    alpha: float | None,
    verbose: int,
    as_markdown: bool,
    as_json: bool,
    **claimed: Any,
) -> int:
    """Compare CANDIDATE with BASELINE, sample by sample: the same methods and verdicts as in a session.

    Each is RUN or RUN:ARM, where RUN is a run's id, or its beginning, `latest` or `tag:NAME`; ARM is the run's candidate by
    default. Or both are files or directories of another harness, or queries of DuckDB (duckdb:SELECT ...), as `crucible import`
    reads them; then nothing is stored. One file of several arms needs no BASELINE: its first arm is the candidate. NAME may also
    be a term on a variant, such as exact_match.drop[homoglyph]: variants that both runs have are compared, and others are named.
    Without --metric the comparisons are those that the suite declares, or of every metric if it declares none. Exits 1 when a
    verdict is missed, or a margin is impossible.
    """
    contrasts, directions = read_claims(**claimed)
    names = [candidate, baseline] if baseline else [candidate]
    tabular = Tabular(columns, group, equal_inputs, ranges, reaches, unpaired)
    if any(is_source(name) or _is_path(name) for name in names):
        run, notes = _files(names, contrasts, directions, alpha, tabular, arms_differ_in)
    else:
        _check_runs(baseline, tabular)
        run, notes = _runs(store, candidate, baseline, contrasts, directions, alpha, arms_differ_in)
    print_comparison(run, verbose, notes, as_markdown=as_markdown, as_json=as_json)
    return verdict_status(run)


Compared = tuple[Run, tuple[str, ...]]


class Tabular(NamedTuple):
    """The command's options on columns, groups, ranges and reaches of imported files."""

    columns: Mapping[str, str]
    group: str
    equal_inputs: str | None
    ranges: Mapping[str, tuple[float, float]]
    reaches: Mapping[str, float]
    unpaired: bool


def _check_runs(baseline: str, tabular: Tabular) -> None:
    if not baseline:
        raise SpecError("name a baseline after the candidate: only a file with several arms needs none")
    if tabular.columns or tabular.group:
        raise SpecError("--column and --group apply to files: a stored run has its own samples and groups")
    if tabular.equal_inputs is not None:
        raise SpecError(
            "--equal-inputs applies to files: a stored run has the groups of its plan, leave the option out"
        )
    if tabular.unpaired:
        raise SpecError("--unpaired applies to files: the arms of stored runs have samples in common")
    if tabular.ranges:
        raise SpecError(
            "--range applies to files, and a stored run has the bounds that its metrics declared: leave the option out"
        )
    if tabular.reaches:
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
    arms_differ_in: tuple[str, ...],
) -> Compared:
    run = next((name for name in names if not is_source(name)), None)
    if run is not None and _is_path(run):
        raise SpecError(
            f"{run!r} is neither a file nor a run: give the path of a log or of a table, or what `crucible runs` lists"
        )
    if run is not None:
        raise SpecError(
            f"{run!r} is not a file: compare files with files, or runs with runs (crucible import makes a run of a file)"
        )
    wishes = ImportOptions(
        contrasts=contrasts,
        declared=Declared(ranges=tabular.ranges, reaches=tabular.reaches).with_directions(directions),
        alpha=DEFAULT_ALPHA if alpha is None else alpha,
        equal_inputs=tabular.equal_inputs or session_equal_inputs(),
        unpaired=tabular.unpaired,
        arms_differ_in=arms_differ_in,
    )
    adoption = plan_comparison(names, wishes, tabular.columns, tabular.group)
    return adoption.evaluate_unstored(), adoption.notes


def _runs(
    store: str,
    candidate: str,
    baseline: str,
    contrasts: tuple[Contrast, ...],
    directions: Mapping[str, Direction],
    alpha: float | None,
    arms_differ_in: tuple[str, ...],
) -> Compared:
    with existing_store(store, reader="crucible compare") as opened:
        claims = (contrasts, directions)
        question = make_question(opened, candidate, baseline, claims, alpha=alpha, arms_differ_in=arms_differ_in)
        return decide_named(opened, question, pair_named(opened, question))


def _is_path(named: str) -> bool:
    """Return whether a name looks like a path: run ids have no dot and no slash; arms and tags follow a colon."""
    return ":" not in named and bool(Path(named).suffix or Path(named).parent.name)
