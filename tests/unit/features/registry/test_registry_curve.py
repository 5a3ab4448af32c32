"""The curve of a training: each checkpoint against the base, corrected for all of them, and the best one for its choice."""

from __future__ import annotations

import math

import pytest
from experiment_builders import store_run

from pytest_crucible import stats
from pytest_crucible.features.registry.curve import Curve, TrainingCurves, TrainingNumbers, curve_view, measure_curves
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import MetricFacts, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.markdown import view_lines
from pytest_crucible.store.runs import RunStore

N = 40
SAMPLES = [Sample(id=f"q{k:02}", input=k) for k in range(N)]
LABELS = {"first": "10", "second": "20", "last": "30"}


def right(n: int) -> list[bool]:
    return [k < n for k in range(N)]


def training(store: RunStore, *, first: int = 11, second: int = 24, last: int = 26, **facts: object) -> None:
    """Store a session as the command runs it: the last checkpoint, the base, and the others."""
    arms = {"last": right(last), "base": right(10), "first": right(first), "second": right(second)}
    store_run(store, "run", SAMPLES, **{**arms, **facts})


def measure(store: RunStore, metric: str = "") -> tuple[TrainingCurves, Curve]:
    curves = measure_curves(store, "run", LABELS, "base", metric)
    return curves, curves.curves[0]


def test_checkpoints_are_compared_with_the_base_in_the_order_of_the_training(store):
    training(store)
    _, curve = measure(store)

    assert [point.label for point in curve.points] == ["10", "20", "30"]
    assert [point.estimate.value for point in curve.points] == [11 / N, 24 / N, 26 / N]
    assert (curve.base.value, curve.base.n, curve.base.lost) == (10 / N, N, 0)
    differences = [point.comparison.difference for point in curve.points]
    assert differences == pytest.approx([1 / N, 14 / N, 16 / N])
    assert [point.estimate.interval.low for point in curve.points] == [
        pytest.approx(stats.wilson_interval(n, N).low) for n in (11, 24, 26)
    ]


def test_p_values_are_adjusted_by_holm_over_all_checkpoints(store):
    training(store)
    curves, curve = measure(store)

    p_values = [point.comparison.p_value for point in curve.points]
    assert curves.family_size == 3
    assert [point.comparison.p_adjusted for point in curve.points] == pytest.approx(stats.holm(p_values))
    proofs = [point.comparison.proof_p for point in curve.points]
    assert [point.comparison.proof_adjusted for point in curve.points] == pytest.approx(stats.holm(proofs))


def test_the_first_better_checkpoint_needs_the_correction(store):
    """5 of 40 better and none worse: p is below .05, and above it for three checkpoints."""
    training(store, first=15, second=15, last=40)
    _, curve = measure(store)

    first, _, last = curve.points
    assert first.comparison.proof_p < 0.05 < first.comparison.proof_adjusted
    assert curve.first_better is last
    assert (first.verdict.state, first.verdict.proven) == ("undecided", False)
    assert first.verdict.reason == "for all checkpoints together no improvement is proven (adjusted p = 0.051)"


def test_a_worse_checkpoint_is_proven_and_not_better(store):
    training(store, first=0, second=10, last=10)
    _, curve = measure(store)

    assert curve.points[0].verdict.state == "missed"
    assert curve.points[0].verdict.proven
    assert curve.first_better is None


def test_the_best_of_equal_checkpoints_is_corrected_downwards(store):
    # Equal means on different samples: chance alone has chosen.
    arms = {
        name: [(k * 7 + shift) % 20 < 10 for k in range(N)]
        for name, shift in (("last", 0), ("first", 3), ("second", 6))
    }
    arms["first"][1] = arms["first"][2] = True
    store_run(store, "run", SAMPLES, base=right(10), **arms)
    curves, curve = measure(store)

    assert curve.best is not None
    assert f"naive {curve.best.naive:.3f}" in "\n".join(view_lines(curve_view(curves, "x", (), TrainingNumbers())))
    assert f"{curve.best.naive:.3f}" != f"{curve.best.value:.3f}"
    assert curve.best.naive == max(point.estimate.value for point in curve.points)
    assert curve.best.value < curve.best.naive
    assert curve.best.interval.low < curve.best.value < curve.best.interval.high


def test_a_single_checkpoint_needs_no_correction(store):
    store_run(store, "run", SAMPLES, last=right(30), base=right(10))
    curves = measure_curves(store, "run", {"last": "final"}, "base")

    assert curves.curves[0].best is None
    assert "one checkpoint: nothing was chosen" in "\n".join(view_lines(curve_view(curves, "x", (), TrainingNumbers())))


def test_lost_samples_may_overturn_a_proof(store):
    arms = {"last": ["lost"] * 30 + [True] * 10, "base": [False] * N, "first": right(0), "second": right(0)}
    store_run(store, "run", SAMPLES, **arms)
    _, curve = measure(store)

    last = curve.points[-1]
    assert (last.estimate.n, last.estimate.lost) == (10, 30)
    assert last.comparison.pairs == 10
    assert last.comparison.p_adjusted < 0.05
    assert not last.is_better


def test_the_metrics_that_the_suite_targets_have_a_curve(store):
    metrics = (MetricFacts(name="exact", kind="binary"), MetricFacts(name="other", kind="binary"))
    training(store, metrics=metrics, targets=(parse_target("exact >= 0.5"),))

    assert [curve.metric for curve in measure(store)[0].curves] == ["exact"]
    with pytest.raises(SpecError, match=r"--metric exakt: no experiment scored it: did you mean 'exact'\?"):
        measure(store, "exakt")


def test_a_session_that_compared_nothing_has_no_curve(store):
    store_run(store, "run", SAMPLES, last=right(20))

    with pytest.raises(SpecError, match=r"no test of the suite compares, .*: add @pytest.mark.ab_compare"):
        measure(store)


def test_lower_is_better_reverses_the_curve(store):
    training(store, metrics=(MetricFacts(name="exact", kind="binary", direction="lower"),), first=1, second=3, last=40)
    _, curve = measure(store)

    assert curve.first_better.label == "10"
    assert curve.points[-1].verdict.state == "missed"
    assert curve.best.arm == 0


def test_the_view_has_the_curve_in_words_rows_and_json(store):
    training(store)
    curves, _ = measure(store)
    numbers = TrainingNumbers("loss", {"10": 2.5, "20": None, "30": 0.125}, {"10": 12, "20": 22})
    view = curve_view(curves, "Training curve of runs/x", ["a note"], numbers)
    lines = "\n".join(view_lines(view))

    assert "a note" in lines
    assert "first checkpoint proven better than the base: 20" in lines
    assert "best checkpoint: 30: 0.6" in lines
    assert "(95 %), corrected for being the best of 3; naive 0.650" in lines
    rows = {row.cells[0]: row.cells for row in view.tables[0].rows}
    assert list(rows) == ["base", "10", "20", "30"]
    assert (rows["10"][-1], rows["20"][-1], rows["30"][-1]) == ("2.5", "-", "0.125")
    assert (rows["10"][-2], rows["20"][-2]) == ("not proven", "better")
    assert [cells[1] for cells in rows.values()] == ["0", "12", "22", "unknown"]
    assert (
        "loss is the training's own number: its mean over the batches since the checkpoint before, counted by" in lines
    )
    document = view.document["curves"][0]
    assert document["first_better"] == "20"
    assert document["best"]["checkpoint"] == "30"
    assert [each["training"] for each in document["checkpoints"]] == [2.5, None, 0.125]
    assert [each["steps"] for each in document["checkpoints"]] == [12, 22, None]


def test_the_view_names_why_nothing_was_tested(store):
    """Without bounds a mean of scores proves nothing."""
    scores = [k / 7 for k in range(N)]
    better = [score + 1 for score in scores]
    facts = MetricFacts(name="exact", kind="bounded", direction="higher", low=-math.inf, high=math.inf)
    store_run(store, "run", SAMPLES, last=better, base=scores, first=better, second=better, metrics=(facts,))
    curves = measure_curves(store, "run", LABELS, "base")

    notes = [note.text for note in curve_view(curves, "t", (), TrainingNumbers()).notes]

    assert notes[0] == (
        "no checkpoint is proven better than the base: nothing is proven about a difference of means without bounds: declare "
        "bounds of 'exact' or its reach"
    )
