"""The checks of `crucible doctor LOG_DIR`: the optimiser steps of a cookbook training's checkpoints, and repeated batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_crucible.commands.tinker import project_services
from pytest_crucible.features.registry.log_directory import (
    CHECKPOINTS_FILE,
    SavedCheckpoint,
    TrainingLog,
    find_resumptions,
    held_batches,
    read_log_directory,
    steps_text,
)
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import STORE_FOLDER
from pytest_crucible.runs.reproduction import ReproductionCheck
from pytest_crucible.runs.run_store import project_root


def check_log_directory(folder: Path) -> Iterator[ReproductionCheck]:
    """Yield a check for each checkpoint, and for each resumption that has repeated batches. No model is called."""
    if not (folder / CHECKPOINTS_FILE).is_file():
        return
    log = read_log_directory(folder)
    steps = _fetch_steps(log)
    held = held_batches(log, steps)
    resumptions, resumed = find_resumptions(log, steps), set[str]()
    for row in log.rows:
        source = resumptions[row.run].source
        if source is not None and row.run not in resumed:
            resumed.add(row.run)
            yield from _check_resumption(source, held[source])
        yield _check_row(row, steps, held[row])


def _fetch_steps(log: TrainingLog) -> Mapping[str, int | None]:
    from pytest_crucible.backends.tinker.service import KEY, URL

    root = project_root()
    # The cookbook trains on the service of this variable.
    services = project_services(root, service="hosted" if os.environ.get(URL) else "")
    folder = root / STORE_FOLDER / "tinker"
    if services.is_local and not folder.is_dir():
        raise SpecError(
            f"{folder} does not exist, so the local service has no checkpoint: set {URL} and {KEY} of the service "
            "that the training used"
        )
    try:
        return services.own.steps_of(log.paths)
    finally:
        services.close()


def _check_resumption(source: SavedCheckpoint, held: int | None) -> Iterator[ReproductionCheck]:
    if source.batch is not None and held is not None and held > source.batch:
        yield ReproductionCheck("resumed", False, f"from {source.label}: {_batches(source.batch, held)} applied twice")


def _check_row(row: SavedCheckpoint, steps: Mapping[str, int | None], held: int | None) -> ReproductionCheck:
    own = row.steps(steps)
    if own is None:
        is_listed = row.sampler in steps or row.state in steps
        reason = "the service does not state them" if is_listed else "the service does not list it"
        return ReproductionCheck(row.label, True, f"{steps_text(own)}: {reason}")
    repeats = row.batch is not None and held is not None and held > row.batch
    if not repeats:
        return ReproductionCheck(row.label, True, steps_text(own))
    assert row.batch is not None
    assert held is not None
    detail = f"{steps_text(own)}, though a training that resumes here starts with batch {row.batch} (from 0)"
    if row.state:
        batches = _batches(row.batch, held)
        detail += f": {batches} applied twice if tinker-cookbook is killed and resumed; trainings of pytest-crucible repeat none"
    return ReproductionCheck(row.label, False, detail)


def _batches(start: int, end: int) -> str:
    """Return the batches from start to end, without the end.

    >>> _batches(3, 5)
    'batches 3 and 4'
    """
    if end - start == 1:
        return f"batch {start}"
    return f"batches {start} {'and' if end - start == 2 else 'to'} {end - 1}"
