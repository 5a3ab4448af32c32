"""The course of trainings: their steps from events, lineages and saved states, and what charts and tables have of them."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from plan_builders import arms_of, plan_of
from training_builders import make_lineage

from pytest_crucible.backends.lineages import write_lineage
from pytest_crucible.features.training.course import TrainingCourse, TrainingStep, courses_of_run, unfinished_courses
from pytest_crucible.features.training.course_view import MOST_POINTS, MOST_ROWS, thin_points, training_view
from pytest_crucible.features.training.log import SavedTrainings, TrainingLog
from pytest_crucible.records import Ancestor, Event, Sample
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Recorder

SAMPLES = [Sample(id="q", input="?")]


def enter_run(store: RunStore, *events: Event, **arm) -> None:
    candidate, baseline = arms_of("v2", "v1")
    plan = plan_of(dataset_sha256="d", arms=(replace(candidate, **arm), baseline))
    store.begin_run(
        "run1", started="2026", seed=0, alpha=0.05, correction="holm", environment={}, git=None, manifest={}
    )
    store.add_experiment("run1", plan, SAMPLES)
    recorder, writer = Recorder("run1"), store.writer()
    recorder.open(writer)
    for event in events:
        recorder(event)
    writer.close()


def step(number: int, loss: float, norm: float | None = 1.0, arm: str = "v2") -> Event:
    facts = {"step": number, "loss": loss, "gradient_norm": norm, "learning_rate": 0.01}
    return Event(name="train.step", at=float(number), arm=arm, facts=facts)


def checkpoint(sha256: str, arm: str = "v2") -> Event:
    return Event(name="checkpoint", at=99.0, arm=arm, facts={"sha256": sha256, "path": "somewhere"})


def losses_of(course: TrainingCourse) -> list[float]:
    return [each.loss for each in course.steps]


def test_a_training_of_the_run_has_the_steps_of_its_events(store, tmp_path):
    enter_run(
        store, step(1, 2.0), step(2, 1.0, norm=None), checkpoint("w"), ancestry=(Ancestor(weights="w", name="v2"),)
    )

    [course] = courses_of_run(store, "run1", tmp_path)

    assert (course.name, course.origin, losses_of(course)) == ("v2", "trained in this run", [2.0, 1.0])
    assert math.isnan(course.steps[1].gradient_norm)
    assert course.result is not None
    assert course.result.first_loss == 2.0


def test_steps_that_a_lost_training_repeats_count_once(store, tmp_path):
    enter_run(store, step(1, 4.0), step(2, 3.0), step(3, 2.5), step(2, 3.0), step(3, 2.0))

    [course] = courses_of_run(store, "run1", tmp_path)

    assert [(each.step, each.loss) for each in course.steps] == [(1, 4.0), (2, 3.0), (3, 2.0)]


def test_several_trainings_of_one_adapter_are_apart(store, tmp_path):
    enter_run(store, step(1, 4.0), checkpoint("a"), step(1, 3.0), step(2, 2.0), checkpoint("b"), step(1, 9.0, arm="v1"))

    courses = courses_of_run(store, "run1", tmp_path)

    assert [(course.name, losses_of(course)) for course in courses] == [
        ("v2, training 1", [4.0]), ("v2, training 2", [3.0, 2.0]), ("v1", [9.0]),
    ]  # fmt: skip


def test_a_loss_that_is_not_finite_has_no_numbers_and_leaves_a_gap(store, tmp_path):
    enter_run(store, step(1, 4.0), step(2, math.inf), step(3, math.nan))

    [course] = courses_of_run(store, "run1", tmp_path)
    view = training_view([course])

    assert course.result is None
    assert [math.isnan(loss) for loss in losses_of(course)] == [False, True, True]
    assert view.lines[0].note == "v2: 2 of 3 steps have no finite number."
    assert view.tables[0].rows[0].cells == ("v2", "3", "-", "-", "-", "-", "-")


def test_an_earlier_training_is_read_from_the_lineage_of_its_weights(store, tmp_path):
    for name, losses in (("a-1", (2.0, 1.0)), ("b-1", (7.0, 6.0))):
        (tmp_path / name).mkdir()
        write_lineage(tmp_path / name, make_lineage(losses, adapter_sha256=name, adapter="v2"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "lineage.json").write_text("{", encoding="utf-8")
    enter_run(store, ancestry=(Ancestor(weights="b-1", name="v2"),))

    [course] = courses_of_run(store, "run1", tmp_path)

    assert losses_of(course) == [7.0, 6.0]
    assert course.origin == "trained before this run, by recipes:train"


def test_a_training_whose_files_are_elsewhere_has_its_numbers(store, tmp_path):
    result = make_lineage((2.0, 1.0)).result
    enter_run(store, ancestry=(Ancestor(weights="gone", name="v2"),), training=result)

    view = training_view(courses_of_run(store, "run1", tmp_path))

    assert view.notes[0].text == "v2: trained before this run, and its steps are not beside this store"
    assert view.tables[0].rows[0].cells[:4] == ("v2", "2", "2", "1")
    assert view.lines == ()


def test_a_run_without_training_says_so(store, tmp_path):
    enter_run(store)

    view = training_view(courses_of_run(store, "run1", tmp_path))

    assert [note.text for note in view.notes] == ["no arm of this run was trained, as far as the run knows"]
    assert (view.tables, view.lines) == ((), ())


def test_a_training_that_goes_on_has_the_steps_until_its_newest_state(tmp_path):
    log = TrainingLog(losses=[3.0, 2.0], gradient_norms=[1.0, None], learning_rates=[0.1, 0.1])
    SavedTrainings(tmp_path, "key").write(log, "", {}, (), 1.0, lambda folder: "")
    (tmp_path / ".unfinished-empty").mkdir()

    [course] = unfinished_courses(tmp_path)

    assert course.name == "training key"
    assert course.origin == "interrupted, with the steps until its newest saved state"
    assert losses_of(course) == [3.0, 2.0]


def steps_of(losses: list[float]) -> list[TrainingStep]:
    return [TrainingStep(number, loss, 1.0, 0.1) for number, loss in enumerate(losses, start=1)]


@given(st.lists(st.floats(-100, 100) | st.just(math.nan), min_size=1, max_size=50), st.integers(1, 100))
def test_a_thinned_line_keeps_the_highest_and_the_lowest_loss(losses, repeats):
    whole = steps_of(losses * repeats)

    points = thin_points(whole, lambda step: step.loss)

    finite = [loss for loss in losses if not math.isnan(loss)]
    drawn = [loss for _, loss in points if not math.isnan(loss)]
    assert len(points) <= 2 * MOST_POINTS
    assert [min(drawn, default=0), max(drawn, default=0)] == [min(finite, default=0), max(finite, default=0)]
    assert [number for number, _ in points] == sorted(number for number, _ in points)


def test_a_hundred_thousand_steps_are_thinned_and_the_page_says_so():
    losses = [1.0] * 100_000
    losses[70_001] = 50.0
    view = training_view([TrainingCourse("v2", "trained in this run", steps_of(losses), None)])

    [line] = view.lines[0].lines
    table = view.tables[1]
    assert (70_002.0, 50.0) in line.points
    assert "of 100,000 steps the lowest and the highest of each 334 are drawn" in view.lines[0].note
    assert len(table.rows) == MOST_ROWS + 1
    assert table.note == "one of 1,000 steps, and the last"
    assert table.rows[-1].cells[0] == "100,000"


def test_five_trainings_are_drawn_on_two_sets_of_charts():
    courses = [TrainingCourse(f"v{k}", "trained in this run", steps_of([2.0, 1.0]), None) for k in range(5)]

    lines = [[line.label for line in chart.lines] for chart in training_view(courses).lines]

    assert lines == [["v0", "v1", "v2", "v3"]] * 3 + [["v4"]] * 3
