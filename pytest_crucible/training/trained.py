"""Adapters that recipes have trained: a directory each, with weights and lineage, which appears whole or not at all.

    KEY-DATA/       weights and lineage; KEY says what decides the weights but for the data, DATA which data were read
    KEY-stopped/    the last good weights of a training that could not go on
    KEY.lock        held by the process that trains
    KEY.failed      why a training failed, for the other workers of its session

Who looks for an adapter gets one whose base, recipe, settings and data files are what they are now.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pytest_crucible.embedded.lineages import LINEAGE_FILE, read_lineage, write_lineage
from pytest_crucible.errors import CrucibleError, SpecError
from pytest_crucible.records import Lineage
from pytest_crucible.training.locks import alone
from pytest_crucible.training.log import Log, TrainingStopped
from pytest_crucible.training.reading import files_read, sha256_of
from pytest_crucible.training.recipe import Recipe
from pytest_crucible.training.results import result_of
from pytest_crucible.training.trainer import RecipeTrainer

_STOPPED, _DRAFT = "stopped", ".training-"


@dataclass(frozen=True)
class Trained:
    """A trained adapter, where it is, and where it comes from."""

    path: Path
    lineage: Lineage


def find_trained(recipe: Recipe, folder: Path) -> Trained | None:
    """The adapter that the recipe has made, where base, recipe, settings and data are still what they were."""
    for path in sorted(folder.glob(f"{recipe.key}-*")):
        lineage = read_lineage(path)
        if lineage is not None and _is_valid(lineage, recipe.folder) and recipe.base.holds(lineage):
            return Trained(path, lineage)
    return None


def trained_adapters(folder: Path) -> list[Trained]:
    """All adapters that were trained here, the newest first, whatever their recipes say by now."""
    found = [Trained(path, lineage) for path in folder.glob("*") if (lineage := read_lineage(path)) is not None]
    return sorted(found, key=lambda one: (one.path / LINEAGE_FILE).stat().st_mtime_ns, reverse=True)


def obtain(
    recipe: Recipe,
    folder: Path,
    *,
    git: Mapping[str, Any] | None,
    begin: Callable[[], None],
    waiting: Callable[[], None],
    watch: Callable[[Log], None],
    session: str | None = None,
) -> tuple[Trained, bool]:
    """The recipe's adapter, and whether it was trained just now. One process trains, others wait and take what it made.

    Raises SpecError when the recipe raises, makes no step, or cannot go on. `session` is what the workers of one session have
    in common: what has failed for one of them is not tried again by the others.
    """
    found = find_trained(recipe, folder)
    if found is not None:
        return found, False
    with alone(folder / f"{recipe.key}.lock", waiting):
        found = find_trained(recipe, folder)
        if found is not None:
            return found, False
        failed = folder / f"{recipe.key}.failed"
        _fail_again(failed, session)
        for left in folder.glob(f"{_DRAFT}{recipe.key}-*"):  # by a process that was killed: nobody else holds the lock
            shutil.rmtree(left, ignore_errors=True)
        begin()
        try:
            return _train(recipe, folder, git, watch), True
        except SpecError as error:
            if session is not None:
                failed.write_text(json.dumps([session, str(error)]), encoding="utf-8")
            raise


def _fail_again(failed: Path, session: str | None) -> None:
    """Raise what a training of this session has raised; what others have left is swept away."""
    if not failed.exists():
        return
    told, sentence = json.loads(failed.read_text(encoding="utf-8"))
    if told == session:
        raise SpecError(sentence)
    failed.unlink()


def _train(recipe: Recipe, folder: Path, git: Mapping[str, Any] | None, watch: Callable[[Log], None]) -> Trained:
    trainer = recipe.base.trainer(recipe.adapter, recipe.spec, folder=recipe.folder, watch=watch)
    started = time.perf_counter()
    stopped: TrainingStopped | None = None
    with files_read() as read:
        try:
            recipe.function(trainer)
        except TrainingStopped as error:
            stopped = error
        except CrucibleError as error:
            raise SpecError(f"recipe {recipe.name!r} of adapter {recipe.adapter!r}: {error}") from error
        except (Exception, SystemExit) as error:
            raise SpecError(_raised(recipe, error)) from error
    if stopped is not None and not trainer.log.losses:
        raise SpecError(f"training of {recipe.adapter!r} stopped at its first step, so nothing is kept: {stopped}")
    if not trainer.log.losses:
        raise SpecError(
            f"recipe {recipe.name!r} of adapter {recipe.adapter!r} made no step: call trainer.step(batch, learning_rate=...)"
        )
    lineage = _lineage(recipe, trainer, read | trainer.files, git, time.perf_counter() - started)
    if stopped is None:
        return _keep(recipe, trainer, folder, lineage)
    kept = _keep(recipe, trainer, folder, replace(lineage, stopped=str(stopped)))
    raise SpecError(
        f"training of {recipe.adapter!r} stopped at step {len(trainer.log.losses) + 1}: {stopped}; {_left(kept)}"
    )


def _keep(recipe: Recipe, trainer: RecipeTrainer, folder: Path, lineage: Lineage) -> Trained:
    """Write beside the place, then give it its name."""
    data = json.dumps(sorted(lineage.data.items()))
    end = _STOPPED if lineage.stopped else hashlib.sha256(data.encode()).hexdigest()[:8]
    place = folder / f"{recipe.key}-{end}"
    draft = Path(tempfile.mkdtemp(prefix=f"{_DRAFT}{recipe.key}-", dir=folder))
    try:
        told = replace(lineage, **asdict(trainer.save(draft)))
        write_lineage(draft, told)
        draft.chmod(0o755)
        shutil.rmtree(place, ignore_errors=True)  # of an older training, or damaged: else it would have been found
        os.rename(draft, place)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return Trained(place, told)


def _left(kept: Trained) -> str:
    """What there is of a training that stopped."""
    if kept.lineage.adapter_sha256:
        return f"the last good adapter is kept in {str(kept.path)!r}"
    if kept.lineage.state:
        return f"a state from before is kept as {kept.lineage.state}, for trainer.start_from"
    return "nothing is kept, since no state of it was saved on the service yet"


def _is_valid(lineage: Lineage, folder: Path) -> bool:
    """Complete, and of data that are still the same."""
    try:
        return lineage.stopped is None and all(sha256_of(folder / name) == told for name, told in lineage.data.items())
    except OSError:
        return False


def _lineage(
    recipe: Recipe, trainer: RecipeTrainer, files: set[Path], git: Mapping[str, Any] | None, seconds: float
) -> Lineage:
    log = trainer.log
    return Lineage(
        adapter_sha256="",
        base=recipe.base.name,
        base_sha256=recipe.base.sha256,
        adapter=recipe.adapter,
        recipe=recipe.name,
        recipe_sha256=recipe.sha256,
        data={_named(path, recipe.folder): sha256_of(path) for path in sorted(files) if path.is_file()},
        lora=asdict(trainer.spec),
        seed=trainer.seed,
        hyperparameters={name: sorted(values) for name, values in sorted(log.settings.items())},
        git=git,
        parent=trainer.parent,
        result=result_of(log.losses, log.gradient_norms, finite=log.finite),
        losses=tuple(log.losses),
        gradient_norms=tuple(log.gradient_norms),
        learning_rates=tuple(log.learning_rates),
        seconds=round(seconds, 3),
    )


def _named(path: Path, folder: Path) -> str:
    """Below the recipe's folder as seen from there, so that a project may be moved."""
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


def _raised(recipe: Recipe, error: BaseException) -> str:
    """One sentence: what was raised, and the last line of the user's own code that it came through."""
    said = " ".join(traceback.format_exception_only(error)[-1].split())
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if Path(one.filename).parent == recipe.folder] or frames[-1:]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno}; -v shows all of it)" if own else ""
    return f"recipe {recipe.name!r} of adapter {recipe.adapter!r} raised {said}{where}"
