"""The course of trainings: loss and gradient norm by step, from the events of a run and the files beside its store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.backends.lineages import read_lineage_file, trained_places
from pytest_crucible.features.training.log import SavedTraining, summarise_training, unfinished_trainings
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Ancestor, Arm, Lineage, TrainingResult
from pytest_crucible.records.files import is_locked
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True)
class TrainingStep:
    """One step. A number that is not finite, or that is not known, is NaN."""

    step: int
    loss: float
    gradient_norm: float
    learning_rate: float


@dataclass(frozen=True)
class TrainingCourse:
    """One training: its steps, as far as they are known, and its numbers."""

    name: str
    """The adapter's."""
    origin: str
    """Where its steps are known from, as a clause."""
    steps: Sequence[TrainingStep]
    result: TrainingResult | None


def courses_of_run(store: RunStore, run: str, folder: Path) -> list[TrainingCourse]:
    """Return the trainings of a run, and those behind the weights of its arms; `folder` has trained adapters."""
    courses, weights = _courses_of_events(store, run)
    files: dict[str, Lineage] | None = None
    for arm in _trained_arms(store, run):
        for ancestor in arm.ancestry:
            if ancestor.weights not in weights:
                files = _lineages(folder) if files is None else files
                courses.append(_course_of_ancestor(arm, ancestor, files.get(ancestor.weights or "")))
                weights.add(ancestor.weights)
        if not arm.ancestry and arm.training is not None and all(course.name != arm.name for course in courses):
            courses.append(TrainingCourse(arm.name, _ELSEWHERE, (), arm.training))
    return courses


_ELSEWHERE = "trained before this run, and its steps are not beside this store"


def _trained_arms(store: RunStore, run: str) -> Iterator[Arm]:
    arms = {arm.name: arm for _, plan, _ in store.all_experiments(run) for arm in plan.arms}
    yield from (arm for arm in arms.values() if arm.ancestry or arm.training is not None)


def _courses_of_events(store: RunStore, run: str) -> tuple[list[TrainingCourse], set[str | None]]:
    """Return the trainings that the run has made, in their order, and the weights that they ended with."""
    query = """
        SELECT arm, name, facts FROM events WHERE run = :run AND name IN ('train.step', 'checkpoint') ORDER BY id
    """
    trainings: dict[str, list[dict[int, TrainingStep]]] = {}
    weights: set[str | None] = set()
    for arm, name, facts in store.rows(query, run=run):
        of_arm, record = trainings.setdefault(arm, [{}]), from_json(facts) or {}
        if name == "checkpoint":
            weights |= {record.get("sha256"), record.get("path")}
            # An adapter may be trained again, as by a search.
            of_arm.append({})
        else:
            # A training that was lost repeats the steps since its last saved state.
            of_arm[-1][record["step"]] = _step(record["step"], record)
    courses = [
        TrainingCourse(
            _name_training(arm, number, of_arm), "trained in this run", tuple(steps.values()), _summary(steps.values())
        )
        for arm, of_arm in trainings.items()
        for number, steps in enumerate(of_arm, start=1)
        if steps
    ]
    return courses, weights


def _name_training(arm: str, number: int, trainings: Sequence[Mapping[int, TrainingStep]]) -> str:
    return arm if sum(map(bool, trainings)) == 1 else f"{arm}, training {number}"


def _step(number: int, facts: Mapping[str, Any]) -> TrainingStep:
    return TrainingStep(number, *(_finite(facts.get(name)) for name in ("loss", "gradient_norm", "learning_rate")))


def _finite(value: Any) -> float:
    """Return a number; NaN where it is missing, and for the texts by which JSON has numbers that are not finite."""
    number = float(value) if isinstance(value, int | float) else math.nan
    return number if math.isfinite(number) else math.nan


def _summary(steps: Iterable[TrainingStep]) -> TrainingResult | None:
    steps = list(steps)
    if not steps or any(math.isnan(step.loss) for step in steps):
        return None
    norms = [None if math.isnan(step.gradient_norm) else step.gradient_norm for step in steps]
    return summarise_training([step.loss for step in steps], norms)


def _lineages(folder: Path) -> dict[str, Lineage]:
    """Return the lineage of each trained adapter in a folder, by its weights."""
    lineages = (read_lineage_file(place) for place in trained_places(folder))
    return {lineage.checkpoint or lineage.adapter_sha256: lineage for lineage in lineages if lineage is not None}


def _course_of_ancestor(arm: Arm, ancestor: Ancestor, lineage: Lineage | None) -> TrainingCourse:
    name = ancestor.name or arm.name
    if lineage is None:
        is_last = ancestor is arm.ancestry[0]
        return TrainingCourse(name, _ELSEWHERE, (), arm.training if is_last else None)
    steps = [
        TrainingStep(number, *map(_finite, values))
        for number, values in enumerate(
            zip(lineage.losses, lineage.gradient_norms, lineage.learning_rates, strict=True), start=1
        )
    ]
    return TrainingCourse(name, f"trained before this run, by {lineage.recipe}", steps, lineage.result)


def unfinished_courses(folder: Path) -> Iterator[TrainingCourse]:
    """Yield the trainings in a folder that have not ended, with the steps until their newest saved state."""
    for key, saved in unfinished_trainings(folder):
        is_going_on = is_locked(folder / f"{key}.lock")
        origin = f"{'going on' if is_going_on else 'interrupted'}, with the steps until its newest saved state"
        yield TrainingCourse(f"training {key}", origin, _steps_of_log(saved), None)


def _steps_of_log(saved: SavedTraining) -> list[TrainingStep]:
    log = saved.log
    columns = zip(log.losses, log.gradient_norms, log.learning_rates, strict=True)
    return [TrainingStep(number, *map(_finite, values)) for number, values in enumerate(columns, start=1)]
