"""Adapters that recipes have trained: a directory each, with weights and lineage, which appears whole or not at all.

    KEY-DATA/       weights and lineage; KEY is the hash of all settings, DATA that of the files that were read
    KEY-DATA/step-30/   the same of a step that the recipe kept before its end
    KEY-stopped/    the last good weights of a training that could not go on
    .unfinished-KEY/    the state of a training that was interrupted, or is running
    KEY.lock        held by the process that trains
    KEY.failed      why a training failed, for the other workers of its session

An adapter is found only while its base, recipe, settings and data files are still the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pytest_crucible.backends.lineages import TrainedAdapter, read_lineage, trained_adapters, write_lineage
from pytest_crucible.features.training.log import (
    SavedTraining,
    SavedTrainings,
    TrainingLog,
    TrainingLost,
    TrainingStopped,
    summarise_training,
)
from pytest_crucible.features.training.recipe import RESUME, STOPPED, Recipe, find_trained, write_steps
from pytest_crucible.features.training.trainer import RecipeTrainer
from pytest_crucible.records import Lineage
from pytest_crucible.records.errors import CrucibleError, ServiceLost, SpecError
from pytest_crucible.records.files import file_lock, hash_file

# The beginning of the name of a directory that is being written.
_DRAFT = ".training-"


def train_or_load(
    recipe: Recipe,
    folder: Path,
    *,
    git: Mapping[str, Any] | None,
    begin: Callable[[], None],
    wait: Callable[[], None],
    watch: Callable[[TrainingLog], None],
    resume: Callable[[int], None] = lambda step: None,
    lose: Callable[[str], None] = lambda reason: None,
    session: str | None = None,
    hide: Callable[[str], str] = str,
) -> tuple[TrainedAdapter, bool]:
    """Return the recipe's adapter, and whether it was trained just now. One process trains, others wait and load it.

    Raises SpecError when the recipe raises, makes no step, or cannot continue. `session` is the same for all workers of one
    session: a training that failed for one of them is not repeated by the others. `hide` redacts the texts of errors in files.
    """
    trained = find_trained(recipe, folder)
    if trained is not None:
        return trained, False
    with file_lock(folder / f"{recipe.key}.lock", wait):
        # Looked for again: another process may have trained it while this one waited.
        trained = find_trained(recipe, folder)
        if trained is not None:
            return trained, False
        with _remember_failure(folder / f"{recipe.key}.failed", session, hide):
            # A draft was left by a process that was killed: while this one holds the lock, no other process writes one.
            for draft in folder.glob(f"{_DRAFT}{recipe.key}-*"):
                shutil.rmtree(draft, ignore_errors=True)
            begin()
            states = SavedTrainings(folder, recipe.key)

            def train(saved: SavedTraining | None) -> TrainedAdapter:
                return _train(recipe, folder, git, watch, hide, states, saved)

            return train_through_losses(train, recipe, states, resume=resume, lose=lose), True


@contextlib.contextmanager
def _remember_failure(failure_file: Path, session: str | None, hide: Callable[[str], str]) -> Iterator[None]:
    """Raise the failure of another worker's training of this session, else write down a failure of this one."""
    if failure_file.exists():
        failed_session, sentence = json.loads(failure_file.read_text(encoding="utf-8"))
        if failed_session == session:
            raise SpecError(sentence)
        failure_file.unlink()
    try:
        yield
    except SpecError as error:
        # Without a session there are no other workers: a later session is to try again.
        if session is not None:
            failure_file.write_text(json.dumps([session, hide(str(error))]), encoding="utf-8")
        raise


def _train(
    recipe: Recipe,
    folder: Path,
    git: Mapping[str, Any] | None,
    watch: Callable[[TrainingLog], None],
    hide: Callable[[str], str],
    states: SavedTrainings,
    saved: SavedTraining | None,
) -> TrainedAdapter:
    trainer = recipe.base.trainer(recipe.adapter, recipe.spec, folder=recipe.folder, watch=watch)
    trainer.find_version = recipe.find_version
    read_files, stopped = _run_recipe(
        recipe, trainer, lambda read: trainer.survive(states, recipe.save_every, saved, read)
    )
    if isinstance(stopped, TrainingLost):
        raise stopped
    _check_steps(recipe, trainer, stopped)
    lineage = _lineage(recipe, trainer, read_files | trainer.files, git, trainer.elapsed_s)
    if (parent := _lineage_of_parent(trainer, folder)) is not None:
        lineage = replace(lineage, inherited=parent.training_files, ancestors=parent.ancestry)
    if stopped is None:
        try:
            trained = _store(recipe, trainer, folder, lineage)
        except ServiceLost as error:
            raise TrainingLost(str(error)) from None
        states.remove()
        return trained
    partial = _store(recipe, trainer, folder, replace(lineage, stopped=hide(str(stopped))))
    raise SpecError(
        f"training of {recipe.adapter!r} stopped at step {len(trainer.log.losses) + 1}: {stopped}; {_describe_remainder(partial)}"
    )


def _run_recipe(
    recipe: Recipe, trainer: RecipeTrainer, begin: Callable[[set[Path]], None]
) -> tuple[set[Path], TrainingStopped | None]:
    """Return the files that the recipe read, and why its training stopped early, if it did. Raises SpecError.

    `begin` is called with the set to which files are added as they are read.
    """
    stopped: TrainingStopped | None = None
    with track_reads() as read_files:
        begin(read_files)
        try:
            recipe.function(trainer, **recipe.hyperparameters)
        except TrainingStopped as error:
            stopped = error
        except ServiceLost as error:
            stopped = TrainingLost(str(error))
        except CrucibleError as error:
            raise SpecError(f"recipe {recipe.name!r} of adapter {recipe.adapter!r}: {error}") from error
        # sys.exit in a recipe is an error like others; only an interrupt passes.
        except (Exception, SystemExit) as error:
            raise SpecError(_describe_exception(recipe, error)) from error
    return read_files, stopped


def _check_steps(recipe: Recipe, trainer: RecipeTrainer, stopped: TrainingStopped | None) -> None:
    """Raise SpecError if no step was made: then there is nothing to keep."""
    if trainer.log.losses:
        return
    if stopped is not None:
        raise SpecError(f"training of {recipe.adapter!r} stopped at its first step, so nothing is kept: {stopped}")
    raise SpecError(
        f"recipe {recipe.name!r} of adapter {recipe.adapter!r} made no step: call trainer.step(batch, learning_rate=...)"
    )


def _store(recipe: Recipe, trainer: RecipeTrainer, folder: Path, lineage: Lineage) -> TrainedAdapter:
    """Write weights and lineage to a draft, then rename it: an adapter appears whole or not at all."""
    # The data are in the name, so that one recipe may have adapters of several versions of its data.
    data = json.dumps(sorted(lineage.data.items()))
    end = STOPPED if lineage.stopped else hashlib.sha256(data.encode()).hexdigest()[:8]
    place = folder / f"{recipe.key}-{end}"
    draft = Path(tempfile.mkdtemp(prefix=f"{_DRAFT}{recipe.key}-", dir=folder))
    try:
        saved = replace(lineage, **asdict(trainer.save(draft)), kept=tuple(sorted(trainer.kept)))
        write_steps(draft, trainer.kept, trainer.log, lineage)
        write_lineage(draft, saved)
        # mkdtemp makes directories that other users, and a web server, cannot read.
        draft.chmod(0o755)
        # A directory of this name is damaged or of an older training: a valid one would have been found before.
        shutil.rmtree(place, ignore_errors=True)
        os.rename(draft, place)
    except BaseException:  # an interrupt must not leave a draft either
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return TrainedAdapter(place, saved)


def _describe_remainder(partial: TrainedAdapter) -> str:
    """Return a clause on the remains of a training that stopped."""
    if partial.lineage.adapter_sha256:
        return f"the last good adapter is kept in {str(partial.path)!r}"
    if partial.lineage.state:
        return f"an earlier state is kept as {partial.lineage.state}, for trainer.start_from"
    return "nothing is kept, because no state was saved on the service yet"


def _lineage(
    recipe: Recipe, trainer: RecipeTrainer, files: set[Path], git: Mapping[str, Any] | None, seconds: float
) -> Lineage:
    log = trainer.log
    return Lineage(
        adapter_sha256="",
        base=recipe.base.name,
        base_sha256=recipe.base.sha256,
        simulated=recipe.base.simulated,
        adapter=recipe.adapter,
        recipe=recipe.name,
        recipe_sha256=recipe.sha256,
        # Relative to the recipe's folder, so that a project may be moved.
        data={
            path.relative_to(recipe.folder).as_posix() if path.is_relative_to(recipe.folder) else str(path): hash_file(
                path
            )
            for path in sorted(files)
            if path.is_file()
        },
        lora=asdict(trainer.spec),
        seed=trainer.seed,
        hyperparameters={name: sorted(values) for name, values in sorted(log.settings.items())},
        arguments=dict(recipe.hyperparameters),
        git=git,
        parent=trainer.parent,
        declared=recipe.declared,
        result=summarise_training(log.losses, log.gradient_norms, finite=log.finite),
        losses=tuple(log.losses),
        gradient_norms=tuple(log.gradient_norms),
        learning_rates=tuple(log.learning_rates),
        seconds=round(seconds, 3),
    )


def _lineage_of_parent(trainer: RecipeTrainer, folder: Path) -> Lineage | None:
    """Return the lineage of the checkpoint that training started from; None without one.

    Called after the recipe has ended, whose own files would otherwise include the parent's lineage.
    """
    if trainer.parent_place is not None:
        return read_lineage(trainer.parent_place)
    lineages = (trained.lineage for trained in trained_adapters(folder)) if trainer.parent else iter(())
    return next((each for each in lineages if trainer.parent in (each.state, each.checkpoint)), None)


def _describe_exception(recipe: Recipe, error: BaseException) -> str:
    """Return one sentence with the exception and the last line of the user's own code in its traceback."""
    exception = " ".join(traceback.format_exception_only(error)[-1].split())
    frames = traceback.extract_tb(error.__traceback__)
    # A recipe often calls helpers in its folder: the innermost of these is the line to look at.
    own_frames = [frame for frame in frames if Path(frame.filename).parent == recipe.folder] or frames[-1:]
    where = (
        f" ({Path(own_frames[-1].filename).name}, line {own_frames[-1].lineno}; -v shows all of it)"
        if own_frames
        else ""
    )
    return f"recipe {recipe.name!r} of adapter {recipe.adapter!r} raised {exception}{where}"


T = TypeVar("T")

WAIT_S = 120.0
"""How long a service that is gone is waited for: a restart, with its model to load, takes less."""
ATTEMPTS = 3
"""Losses in a row, without a new state between them, after which a training fails."""


def train_through_losses(
    train: Callable[[SavedTraining | None], T],
    recipe: Recipe,
    states: SavedTrainings,
    *,
    resume: Callable[[int], None],
    lose: Callable[[str], None],
) -> T:
    """Return the result of a training, which starts from the newest state that its service still has.

    With `on_lost = "resume"` a training that is lost starts again from there, when the service is back. `resume` is called with
    the step of the state, `lose` with the reason of each loss. Raises SpecError if it fails.
    """
    losses, reached = 0, -1
    while True:
        saved = states.find()
        try:
            # After a restart without its files the service lacks its states; those on this machine survive it.
            if saved is not None and saved.state and not recipe.base.holds_state(saved.state):
                saved = None
            if saved is not None:
                resume(saved.step)
            return train(saved)
        # The second while the training is opened, or its state looked for.
        except (TrainingLost, ServiceLost) as error:
            newest = states.find()
            step = 0 if newest is None else newest.step
            # A loss after progress is a new one: a service that restarts each night must not end a long training.
            losses, reached = (losses + 1 if step <= reached else 1), max(step, reached)
            if recipe.on_lost != RESUME or losses >= ATTEMPTS:
                raise SpecError(_explain(recipe, str(error), step, losses)) from None
            lose(str(error))
            try:
                recipe.base.recover(WAIT_S)
            except SpecError as late:
                raise SpecError(_explain(recipe, str(late), step, 1)) from None


def _explain(recipe: Recipe, reason: str, step: int, losses: int) -> str:
    times = f" {losses} times" if losses > 1 else ""
    sentence = f"training of {recipe.adapter!r} was lost{times}: {reason}"
    if not step:
        return f"{sentence}; no state was saved yet (save_every = {recipe.save_every}), so that it starts again from step 1"
    advice = "" if recipe.on_lost == RESUME else f', and on_lost_training = "{RESUME}" waits for the service'
    return f"{sentence}; the same command continues after step {step}{advice}"


_PROGRAMS = frozenset({".py", ".pyc", ".pyi", ".so", ".pyd", ".dll"})
_WRITES = os.O_WRONLY | os.O_RDWR
_tracked: dict[int, set[Path]] = {}
"""Tracked threads and the files that each has opened; empty while no recipe runs."""


@contextlib.contextmanager
def track_reads() -> Iterator[set[Path]]:
    """Collect the files that this thread opens for reading within the block, without programs and installed files.

    Files of other threads are not collected, nor files that a module has read when it was imported earlier.
    """
    _install_hook()
    thread = threading.get_ident()
    files = _tracked[thread] = set()
    try:
        yield files
    finally:
        del _tracked[thread]


@cache
def _install_hook() -> None:
    # Python cannot remove an audit hook, so it is installed once, by the first training of a process, and returns at once
    # while nothing is tracked. To replace `open` for the time of a training would miss modules that have bound it already,
    # and numpy would keep the replacement.
    sys.addaudithook(_record_open)


def _record_open(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or (files := _tracked.get(threading.get_ident())) is None:
        return
    # os.open reports its flags, open() those of its mode; files opened for writing are not data.
    name, _, flags = arguments
    if isinstance(name, str | bytes | os.PathLike) and not (flags or 0) & _WRITES:
        path = Path(os.path.abspath(os.fsdecode(name)))
        is_installed = any(path.is_relative_to(folder) for folder in _program_folders())
        if path.suffix not in _PROGRAMS and path.is_file() and not is_installed:
            files.add(path)


@cache
def _program_folders() -> tuple[str, ...]:
    return ("/proc", "/sys", *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
