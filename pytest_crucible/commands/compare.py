"""`crucible compare` and `crucible import`: two stored runs, arms of them, or results of other harnesses."""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.commands.show import print_comparison, verbose_option
from pytest_crucible.importers.formats import read_results
from pytest_crucible.importers.metric_facts import Declared
from pytest_crucible.importers.results import ImportedFile
from pytest_crucible.importers.sources import is_source
from pytest_crucible.plan.targets import ALTERNATIVES, parse_target
from pytest_crucible.records import Contrast, Run
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.measures import Direction, parse_amount
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.report.json import run_document
from pytest_crucible.report.printable import printable
from pytest_crucible.report.terminal import summary
from pytest_crucible.runs.compared_sources import plan_comparison
from pytest_crucible.runs.imported import ImportedRun, ImportOptions
from pytest_crucible.runs.named_arms import decide_named, make_question, pair_named, read_claims
from pytest_crucible.runs.plugins import importers
from pytest_crucible.runs.report_facts import add_stored_facts
from pytest_crucible.runs.run_store import existing_store, session_equal_inputs
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.runs import RunStore


def _parse_column(text: str) -> tuple[str, str]:
    role, _, name = text.partition("=")
    if not name:
        raise SpecError(f"--column={text!r} cannot be read: write ROLE=NAME, such as sample=question_id")
    return role, name


def _parse_range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, ends = text.rpartition("=")
    try:
        low, high = map(float, ends.split(":"))
    except ValueError:
        # Not a number: every comparison with it is false, so the check below refuses it too.
        low = high = math.nan
    if not name or not low < high:
        raise SpecError(f"--range={text!r} cannot be read: write METRIC=LOW:HIGH, such as quality=1:5")
    return name, (low, high)


def _parse_reach(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        reach = float(number)
    except ValueError:
        reach = math.nan
    if not name or not 0 < reach < math.inf:
        raise SpecError(f"--reach={text!r} cannot be read: write METRIC=NUMBER, such as quality=0.25")
    return name, reach


def _parse_name(context: Any, option: Any, texts: Sequence[str]) -> tuple[str, ...]:
    if not all(text.strip() for text in texts):
        raise SpecError("--arms-differ-in has an empty name: write a setting such as temperature, messages or '*'")
    return tuple(dict.fromkeys(text.strip() for text in texts))


def _parse_each(parse: Callable[[str], tuple[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda context, option, texts: dict(map(parse, texts))


column_option = click.option(
    "--column",
    "columns",
    multiple=True,
    callback=_parse_each(_parse_column),
    metavar="ROLE=NAME",
    help="Role of a table's column; may be repeated.",
)
group_option = click.option(
    "--group",
    default="",
    metavar="KEY",
    help="Key of the samples' metadata, or column of a table: samples with one value of it are a group.",
)
equal_inputs_option = click.option(
    "--equal-inputs",
    type=click.Choice(["group", "keep"]),
    show_default="crucible_equal_inputs of pytest's configuration, else group",
    help="Samples with equal input, expected value and metadata: one group, or each counts alone.",
)
range_option = click.option(
    "--range",
    "ranges",
    multiple=True,
    callback=_parse_each(_parse_range),
    metavar="METRIC=LOW:HIGH",
    help="Range of a metric's values; may be repeated.",
)
reach_option = click.option(
    "--reach",
    "reaches",
    multiple=True,
    callback=_parse_each(_parse_reach),
    metavar="METRIC=NUMBER",
    help="Largest change of one sample, between two arms, that is possible for a metric; may be repeated.",
)
unpaired_option = click.option(
    "--unpaired", is_flag=True, help="Each arm has samples of its own, such as episodes with other seeds."
)
arms_differ_option = click.option(
    "--arms-differ-in",
    multiple=True,
    callback=_parse_name,
    metavar="NAME",
    help="Setting that the arms are compared for: temperature, messages (prompts), or '*' (all); may be repeated.",
)
_CLAIM_OPTIONS = (
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
    for option in reversed(_CLAIM_OPTIONS):
        command = option(command)
    return command


@click.command("compare")
@click.argument("candidate")
@click.argument("baseline", default="")
@claim_options
@column_option
@group_option
@equal_inputs_option
@range_option
@reach_option
@unpaired_option
@arms_differ_option
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
    return _exit_status(run)


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
    with existing_store(store) as opened:
        claims = (contrasts, directions)
        question = make_question(opened, candidate, baseline, claims, alpha=alpha, arms_differ_in=arms_differ_in)
        return decide_named(opened, question, pair_named(opened, question))


def _is_path(named: str) -> bool:
    """Return whether a name looks like a path: run ids have no dot and no slash; arms and tags follow a colon."""
    return ":" not in named and bool(Path(named).suffix or Path(named).parent.name)


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--as",
    "harness",
    default="",
    metavar="HARNESS",
    show_default="detected from their content",
    help=f"Harness that wrote the files: {', '.join(importers())}.",
)
@click.option(
    "--arm", "arms", multiple=True, metavar="NAME", help="Name of a file's arm; once for each file, in their order."
)
@click.option("--candidate", default="", metavar="NAME", show_default="the first arm", help="The arm to evaluate.")
@click.option("--target", "targets", multiple=True, metavar="TARGET", help="A quality target; may be repeated.")
@claim_options
@column_option
@group_option
@equal_inputs_option
@click.option("--lower", multiple=True, metavar="METRIC", help="A metric where lower is better; may be repeated.")
@click.option("--higher", multiple=True, metavar="METRIC", help="A metric where higher is better; may be repeated.")
@range_option
@reach_option
@unpaired_option
@arms_differ_option
@click.option(
    "--alpha", type=click.FloatRange(0, 0.5, min_open=True), default=DEFAULT_ALPHA, metavar="A", help="Error rate."
)
@store_option
@json_option
def import_results(
    files: Sequence[str],
    harness: str,
    arms: Sequence[str],
    candidate: str,
    targets: Sequence[str],
    columns: Mapping[str, str],
    group: str,
    equal_inputs: str | None,
    lower: Sequence[str],
    higher: Sequence[str],
    ranges: Mapping[str, tuple[float, float]],
    reaches: Mapping[str, float],
    unpaired: bool,
    arms_differ_in: tuple[str, ...],
    alpha: float,
    store: str,
    as_json: bool,
    **claimed: Any,
) -> int:
    """Read the results of other harnesses, sample by sample, and store them as a run with verdicts.

    The first arm of the first FILE is the candidate, and all other arms with the same samples are its baselines. Exits 1 when
    a verdict is missed, or a target or a margin is impossible.
    """
    quality_targets = [parse_target(text) for text in targets]
    contrasts, directions = read_claims(**claimed)
    declared = Declared(
        lower=frozenset(lower), higher=frozenset(higher), ranges=ranges, reaches=reaches
    ).with_directions(directions)
    files_read = [
        file for path in files for file in read_results(path, harness, columns, group=group, readers=importers())
    ]
    wishes = ImportOptions(
        arms=arms,
        candidate=candidate,
        targets=quality_targets,
        contrasts=contrasts,
        declared=declared,
        alpha=alpha,
        equal_inputs=equal_inputs or session_equal_inputs(),
        unpaired=unpaired,
        arms_differ_in=arms_differ_in,
    )
    adoption = ImportedRun.of(files_read, wishes)
    with contextlib.closing(RunStore(store)) as opened:
        run = adoption.enter(opened)
        # A session's status comes from pytest; an imported run has only its verdicts.
        run = replace(run, exit_status=_exit_status(run))
        opened.set_exit_status(run.id, run.exit_status)
    run = add_stored_facts(run) if as_json else run
    lines = [line.text for line in summary(run, verbosity=0, width=shutil.get_terminal_size().columns)]
    lines_printed = [*_origins(files_read), "", *lines, *adoption.notes, f"stored as run {run.id} in {run.store}"]
    print_result(map(printable, lines_printed), {**run_document(run), "notes": adoption.notes}, as_json=as_json)
    return run.exit_status


def _exit_status(run: Run) -> int:
    return int(any(verdict.state == "missed" or verdict.suite_error for verdict in run.verdicts))


def _origins(files: Sequence[ImportedFile]) -> Iterator[str]:
    for file in files:
        arms = ", ".join(
            f"{results.arm} on {results.task} ({quantity(len(results.rows), 'result')})" for results in file.results
        )
        yield f"{file.path}: {' '.join((file.harness, file.version)).strip()}, {arms}"
