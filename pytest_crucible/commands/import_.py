"""`crucible import`: what another harness has measured, as a run of our own."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pytest_crucible.adopted import DEFAULT_ALPHA, Wishes
from pytest_crucible.adopting import Adoption
from pytest_crucible.commands.claims import claim_options, claims
from pytest_crucible.commands.options import json_option, say, store_option
from pytest_crucible.errors import SpecError
from pytest_crucible.importing.facts import Declared
from pytest_crucible.importing.formats import READERS, read
from pytest_crucible.importing.results import Imported
from pytest_crucible.numerals import counted
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.redaction import hider
from pytest_crucible.report.json import run_document
from pytest_crucible.report.printable import printable
from pytest_crucible.report.terminal import summary
from pytest_crucible.store.runs import RunStore


@click.command("import", short_help="What another harness has measured, as a run.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--as",
    "harness",
    default="",
    metavar="HARNESS",
    show_default="seen from what is in them",
    help=f"Who wrote the files: {', '.join(READERS)}.",
)
@click.option("--arm", "arms", multiple=True, metavar="NAME", help="Name of a file's arm; once a file, in their order.")
@click.option("--candidate", default="", metavar="NAME", show_default="the first arm", help="The arm that is judged.")
@click.option("--target", "targets", multiple=True, metavar="TARGET", help="A quality target; may be repeated.")
@claim_options
@click.option(
    "--column", "columns", multiple=True, metavar="ROLE=NAME", help="What a column of a table has; may be repeated."
)
@click.option("--lower", multiple=True, metavar="METRIC", help="A metric of which less is better; may be repeated.")
@click.option("--higher", multiple=True, metavar="METRIC", help="A metric of which more is better; may be repeated.")
@click.option(
    "--range", "ranges", multiple=True, metavar="METRIC=LOW:HIGH", help="Values that it can have; may be repeated."
)
@click.option(
    "--alpha", type=click.FloatRange(0, 0.5, min_open=True), default=DEFAULT_ALPHA, metavar="A", help="Error rate."
)
@store_option
@json_option
def command(
    files: Sequence[Path],
    harness: str,
    arms: Sequence[str],
    candidate: str,
    targets: Sequence[str],
    columns: Sequence[str],
    lower: Sequence[str],
    higher: Sequence[str],
    ranges: Sequence[str],
    alpha: float,
    store: str,
    as_json: bool,
    **claimed: Any,
) -> int:
    """Read what other harnesses have measured, sample by sample, and store it as a run with verdicts.

    The first arm of the first FILE is the candidate, and all others that were asked the same are its baselines. Exits 1 when
    a verdict is missed.
    """
    wanted = [parse_target(text) for text in targets]
    named = dict(_named(text) for text in columns)
    declared = Declared(lower=frozenset(lower), higher=frozenset(higher), ranges=dict(map(_range, ranges)))
    found = [read(path, harness, named) for path in files]
    wishes = Wishes(
        arms=arms, candidate=candidate, targets=wanted, contrasts=claims(**claimed), declared=declared, alpha=alpha
    )
    adoption = Adoption.of(found, wishes)
    opened = RunStore(store, hider())
    try:
        run = adoption.enter(opened)
        run = replace(run, exit_status=int(any(one.state == "missed" for one in run.verdicts)))
        opened.set_exit_status(run.id, run.exit_status)
    finally:
        opened.close()
    lines = [one.text for one in summary(run, verbosity=0, width=shutil.get_terminal_size().columns)]
    said = [*_read(found), "", *lines, *adoption.notes, f"stored as run {run.id} in {run.store}"]
    say(map(printable, said), {**run_document(run), "notes": adoption.notes}, as_json=as_json)
    return run.exit_status


def _read(files: Sequence[Imported]) -> Iterator[str]:
    for file in files:
        told = ", ".join(f"{one.arm} on {one.task} ({counted(len(one.rows), 'result')})" for one in file.results)
        yield f"{file.path}: {' '.join((file.harness, file.version)).strip()}, {told}"


def _named(text: str) -> tuple[str, str]:
    role, _, name = text.partition("=")
    if not name:
        raise SpecError(f"--column={text!r} cannot be read: write ROLE=NAME, such as sample=question_id")
    return role, name


def _range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, ends = text.rpartition("=")
    try:
        low, high = map(float, ends.split(":"))
    except ValueError:
        low = high = math.nan
    if not name or not low < high:
        raise SpecError(f"--range={text!r} cannot be read: write METRIC=LOW:HIGH, such as quality=1:5")
    return name, (low, high)
