"""`crucible models curve`: the checkpoints of a cookbook training on a suite, as a curve with intervals."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from pytest_crucible.commands.options import json_option, output_option, print_result, store_option
from pytest_crucible.features.registry.curve import TrainingNumbers, curve_view, measure_curves
from pytest_crucible.features.registry.log_directory import (
    SavedCheckpoint,
    TrainingLog,
    read_log_directory,
    read_training_log,
    training_means,
)
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.markdown import check_format, view_lines, write_view
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore

if TYPE_CHECKING:
    from pytest_crucible.adapters.context import AdapterContext
    from pytest_crucible.records import View

USAGE, NO_TESTS = 4, 5
BROKEN = (2, 3)
"""pytest's statuses of a session that was interrupted, or failed by itself."""


@click.command("curve")
@click.argument("log_dir", type=click.Path(path_type=Path))
@click.option("--suite", required=True, metavar="SUITE", help="Tests that score the checkpoints, as pytest takes them.")
@click.option(
    "--metric",
    default="",
    metavar="M",
    show_default="those that the suite compares or targets",
    help="Metric of the curve.",
)
@click.option(
    "--training",
    default="",
    metavar="KEY",
    show_default="the loss, or the reward",
    help="Number of metrics.jsonl to show beside it.",
)
@output_option
@store_option
@json_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def print_curve(
    log_dir: Path,
    suite: str,
    metric: str,
    training: str,
    output: Path | None,
    store: str,
    as_json: bool,
    arguments: tuple[str, ...],
) -> int:
    """Run SUITE on the base and on each checkpoint of LOG_DIR, in one session, and print the curve.

    LOG_DIR has the checkpoints.jsonl of a tinker-cookbook training. ARGUMENTS after -- are pytest's, such as
    --crucible-budget='5 USD' or --crucible-estimate. Each checkpoint is compared with the base, corrected for all comparisons; the
    best one's estimate is corrected for having been chosen. Exits with 0, or with pytest's status where the session was
    interrupted or gave no replies.
    """
    if output is not None:
        check_format(output)
    if not Path(suite.partition("::")[0]).exists():
        raise SpecError(
            f"--suite {suite} does not exist: name a test file or a folder of tests, such as test_claims.py"
        )
    log = read_log_directory(log_dir)
    if not log.samplers:
        raise SpecError(
            f"{log_dir} names no weights to sample from: train with save_every=N, so that checkpoints are saved"
        )
    key, values = read_training_log(log_dir, training)
    # A path counts from here; pytest's option would count it from its root directory.
    where = store if "://" in store else str(Path(store).resolve())
    with contextlib.closing(RunStore(where)) as opened:
        present, base, steps = find_base(opened, log, arguments)
        status, run = _run_suite(opened, where, suite, present, base, arguments, quiet=as_json)
        if not run:
            return status
        labels = {checkpoint.sampler: checkpoint.label for checkpoint in present}
        curves = measure_curves(opened, run, labels, base, metric)
    gone = [
        f"checkpoint {checkpoint.label} is left out: the service does not have {checkpoint.sampler} any more"
        for checkpoint in log.samplers
        if checkpoint not in present
    ]
    held = {checkpoint.label: checkpoint.steps(steps) for checkpoint in log.samplers}
    numbers = TrainingNumbers(key, training_means(log, values, steps), held)
    view = curve_view(curves, f"Training curve of {log_dir}", gone, numbers)
    _show(view, output, as_json=as_json)
    return status if status in BROKEN else 0


def _show(view: View, output: Path | None, *, as_json: bool) -> None:
    if output is None:
        print_result(["", *view_lines(view)], view.document, as_json=as_json)
    else:
        write_view(view, output)
        click.echo(f"{output} written")


def _run_suite(
    store: RunStore,
    where: str,
    suite: str,
    checkpoints: Sequence[SavedCheckpoint],
    base: str,
    arguments: Sequence[str],
    *,
    quiet: bool,
) -> tuple[int, str]:
    """Run pytest with the last checkpoint as the candidate; return its status, and the run's id, empty where none is stored."""
    *earlier, last = [checkpoint.sampler for checkpoint in checkpoints]
    tag = f"curve/{uuid4().hex[:8]}"
    words = [f"--crucible-adapter={last}", *(f"--crucible-compare={name}" for name in (base, *earlier))]
    stored = (f"--crucible-tag={tag}", f"--crucible-store={where}")
    # Quiet: its tables have the last checkpoint beside each other one, and the curve is shorter.
    # Without stages: one could end the session before all checkpoints have replied to all samples.
    whole = ("-q", "-o", "crucible_stages=")
    command = [sys.executable, "-m", "pytest", suite, *whole, *arguments, *words, *stored]
    # JSON goes to standard output alone.
    click.echo(f"{quantity(len(checkpoints), 'checkpoint')} and {base} in one session", err=True)
    done = subprocess.run(command, stdout=sys.stderr if quiet else None, check=False)
    if done.returncode in (USAGE, NO_TESTS):
        raise SpecError(f"pytest ended with exit status {done.returncode}: correct its arguments or the suite")
    run = next(iter(list_runs(store, tag=tag)), None)
    return done.returncode, run.id if run else ""


TINKER = "--crucible-tinker="
NOT_FOUND = 404


def find_base(
    store: RunStore, log: TrainingLog, arguments: Sequence[str]
) -> tuple[list[SavedCheckpoint], str, Mapping[str, int | None]]:
    """Return the checkpoints that the service has, the URI of their base model, and the optimiser steps by path.

    Raises SpecError where the service is gone, has none of them, or they are of several bases.
    """
    # Imported here: it imports pytest, whose options name the service.
    from pytest_crucible.session.pytest_project import with_adapters

    checkpoints = log.samplers
    options = [argument for argument in arguments if argument.startswith(TINKER)]
    bases, steps = with_adapters(Path.cwd(), store, lambda context: _look_up(log, context), options)
    present = [checkpoint for checkpoint in checkpoints if bases[checkpoint.sampler]]
    if not present:
        raise SpecError(
            f"the service has none of {len(checkpoints)} checkpoints, the first of which is {checkpoints[0].sampler}: "
            "they have expired, or --crucible-tinker=hosted or TINKER_BASE_URL names another service"
        )
    first = present[0]
    for other in present:
        if bases[other.sampler] != bases[first.sampler]:
            raise SpecError(
                f"checkpoint {other.label} was trained on {bases[other.sampler]}, and {first.label} on "
                f"{bases[first.sampler]}: a curve is of one training, so remove the lines of the other"
            )
    return present, f"tinker:{bases[first.sampler]}", steps


def _look_up(log: TrainingLog, context: AdapterContext) -> tuple[dict[str, str], Mapping[str, int | None]]:
    """Return the base model of each checkpoint by its path, empty for one that the service does not have; and the steps."""
    service = context.tinker().own

    def base_of(path: str) -> str:
        try:
            return str(service.rest.get_weights_info_by_tinker_path(path).result().base_model)
        except Exception as error:
            if getattr(error, "status_code", None) == NOT_FOUND:
                return ""
            raise

    def look() -> dict[str, str]:
        return {checkpoint.sampler: base_of(checkpoint.sampler) for checkpoint in log.samplers}

    bases: dict[str, str] = service.within("tell what checkpoints were trained on", look)
    return bases, service.steps_of(log.paths)
