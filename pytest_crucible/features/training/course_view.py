"""The course of trainings as a view: charts of loss and gradient norm by step, and tables of their numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from pytest_crucible.features.training.course import TrainingCourse, TrainingStep
from pytest_crucible.records import Note, Row, Table, View
from pytest_crucible.records.views import Curve, LineChart

MOST_POINTS = 600
"""Points of a line: more than a chart has pixels would only make the page large."""
MOST_ROWS = 100
"""Rows of a table of steps."""
LINES = 4
"""Lines of one chart that can be told apart."""
Value = Callable[[TrainingStep], float]


def training_view(courses: Sequence[TrainingCourse]) -> View:
    """Return the loss, gradient norm and learning rate of trainings by step."""
    notes = [Note(text=f"{course.name}: {course.origin}") for course in courses]
    if not courses:
        notes = [Note(text="no arm of this run was trained, as far as the run knows")]
    steps = [table for course in courses if course.steps for table in [_step_table(course)]]
    return View(
        title="Training",
        tables=(_summary_table(courses), *steps) if courses else (),
        notes=tuple(notes),
        lines=tuple(_charts([course for course in courses if course.steps])),
    )


def _charts(courses: Sequence[TrainingCourse]) -> Iterator[LineChart]:
    values: dict[str, Value] = {
        "loss": lambda step: step.loss,
        "gradient norm": lambda step: step.gradient_norm,
        "learning rate": lambda step: step.learning_rate,
    }
    for first in range(0, len(courses), LINES):
        part = courses[first : first + LINES]
        for name, value in values.items():
            lines = tuple(Curve(label=course.name, points=thin_points(course.steps, value)) for course in part)
            yield LineChart(
                title=f"{name.capitalize()} by step",
                across="step",
                lines=lines,
                note=" ".join(_chart_notes(part, value)),
            )


def _chart_notes(courses: Sequence[TrainingCourse], value: Value) -> Iterator[str]:
    for course in courses:
        unknown = sum(math.isnan(value(step)) for step in course.steps)
        if unknown:
            yield f"{course.name}: {unknown:,} of {len(course.steps):,} steps have no finite number."
        if len(course.steps) > MOST_POINTS:
            yield (
                f"{course.name}: of {len(course.steps):,} steps the lowest and the highest of each "
                f"{_width(len(course.steps)):,} are drawn."
            )


def _width(steps: int) -> int:
    return math.ceil(2 * steps / MOST_POINTS)


def thin_points(steps: Sequence[TrainingStep], value: Value) -> tuple[tuple[float, float], ...]:
    """Return the points of a line; of many steps the lowest and highest of each part, so that no peak is left out."""
    points = [(float(step.step), value(step)) for step in steps]
    if len(points) <= MOST_POINTS:
        return tuple(points)
    width = _width(len(points))
    parts = (points[first : first + width] for first in range(0, len(points), width))
    return tuple(point for part in parts for point in _extremes(part))


def _extremes(part: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    finite = [point for point in part if not math.isnan(point[1])]
    ends = {min(finite, key=lambda point: point[1]), max(finite, key=lambda point: point[1])} if finite else set()
    # A gap stays one.
    gaps = [point for point in part if math.isnan(point[1])][:1]
    return sorted([*ends, *gaps], key=lambda point: point[0])


HEADS = ("adapter", "steps", "first loss", "final loss", "reduction", "converged at step", "largest gradient norm")


def _summary_table(courses: Sequence[TrainingCourse]) -> Table:
    rows = tuple(Row(cells=tuple(_summary_cells(course))) for course in courses)
    note = "the final loss is the mean of the last tenth of the steps, in nats per counted token"
    return Table(title="Trainings", heads=HEADS, rows=rows, numbers=HEADS[1:], note=note)


def _summary_cells(course: TrainingCourse) -> Iterator[str]:
    result, steps = course.result, len(course.steps)
    yield course.name
    if result is None:
        yield from (f"{steps:,}" if steps else "-", *["-"] * (len(HEADS) - 2))
        return
    yield f"{result.training_steps:,}"
    values = (result.first_loss, result.final_loss, result.loss_reduction)
    yield from ("-" if value is None else f"{value:.3g}" for value in values)
    yield "-" if result.convergence_steps is None else f"{result.convergence_steps:,}"
    yield "-" if result.largest_gradient_norm is None else f"{result.largest_gradient_norm:.3g}"


def _step_table(course: TrainingCourse) -> Table:
    every = math.ceil(len(course.steps) / MOST_ROWS)
    steps = [*course.steps[::every]]
    if course.steps[-1] is not steps[-1]:
        steps.append(course.steps[-1])
    heads = ("step", "loss", "gradient norm", "learning rate")
    note = f"one of {every:,} steps, and the last" if every > 1 else ""
    rows = tuple(
        Row(cells=(f"{step.step:,}", *map(_cell, (step.loss, step.gradient_norm, step.learning_rate))))
        for step in steps
    )
    return Table(title=f"Steps of {course.name}", heads=heads, rows=rows, numbers=heads, note=note, verbosity=1)


def _cell(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"
