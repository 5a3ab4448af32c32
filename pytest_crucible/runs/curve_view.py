"""The curve of a training as tables, notes and charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.records import Chart, Comparison, Estimate, Note, Point, Row, Statement, Table, View
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.records.views import experiment_name
from pytest_crucible.runs.curve import Curve, CurvePoint, TrainingCurves
from pytest_crucible.stats.number_format import number, p_value, ratio_with_interval, with_interval

BASE = "base"


def curve_view(
    curves: TrainingCurves, title: str, notes: Sequence[str], training: str, values: Mapping[str, float | None]
) -> View:
    """Return the curves, next to the training's own numbers.

    `training` names the number, empty without one; `values` has its value by the label of a checkpoint.
    """
    return View(
        title=title,
        tables=tuple(_table(curve, curves, training, values) for curve in curves.curves),
        notes=tuple(Note(text=text) for text in (*notes, *_sentences(curves))),
        charts=tuple(_chart(curve) for curve in curves.curves),
        methods=(
            Statement(
                text="Each checkpoint is compared with the base on the same samples, and p-values are adjusted by Holm over all "
                f"{curves.family_size} comparisons. The best checkpoint's estimate is corrected as that of the best of several",
            ),
        ),
        document=_document(curves, training, values),
    )


def _table(curve: Curve, curves: TrainingCurves, training: str, values: Mapping[str, float | None]) -> Table:
    percent = f"{(1 - curves.alpha) * 100:g} %"
    heads = (
        "step",
        f"{curve.metric} [{percent}]",
        "n",
        "lost",
        f"from the base [{percent}]",
        f"p (Holm, {curves.family_size})",
        "result",
        *([training] if training else []),
    )
    base = (BASE, *_estimate_cells(curve.base), "", "", "", *([""] if training else []))
    rows = [Row(cells=base), *(Row(cells=_cells(point, training, values)) for point in curve.points)]
    note = "Intervals are unadjusted."
    if training:
        note += f" {training} is the training's own number: its mean over the batches since the checkpoint before."
    return Table(
        title=f"{experiment_name(curve.nodeid)}: {curve.metric}",
        heads=heads,
        rows=tuple(rows),
        numbers=("n", "lost"),
        note=note,
    )


def _cells(point: CurvePoint, training: str, values: Mapping[str, float | None]) -> tuple[str, ...]:
    comparison = point.comparison
    return (
        point.label,
        *_estimate_cells(point.estimate),
        _difference(comparison),
        p_value(comparison.proof_adjusted),
        _result(point),
        *([_training_text(values.get(point.label))] if training else []),
    )


def _estimate_cells(estimate: Estimate) -> tuple[str, str, str]:
    return with_interval(estimate.value, estimate.interval), f"{estimate.n:,}", f"{estimate.lost:,}"


def _difference(comparison: Comparison) -> str:
    if comparison.ratio is not None:
        return f"{ratio_with_interval(comparison.ratio.value, comparison.ratio.interval)} times"
    return with_interval(comparison.difference, comparison.interval, sign=True)


def _result(point: CurvePoint) -> str:
    if not point.verdict.proven:
        return "not proven"
    return "better" if point.is_better else "worse"


def _training_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _sentences(curves: TrainingCurves) -> Iterator[str]:
    several = len(curves.curves) > 1
    for curve in curves.curves:
        prefix = f"{experiment_name(curve.nodeid)}: {curve.metric}: " if several else ""
        first = curve.first_better
        yield prefix + (
            f"first checkpoint proven better than the base: step {first.label}"
            if first
            else f"no checkpoint is proven better than the base{_why_untested(curve)}"
        )
        yield prefix + _best_sentence(curve)
        if not curve.is_finished:
            yield f"{prefix}not all samples were run, so nothing is proven: the same command runs the others"
    for nodeid in curves.left_out:
        yield f"{experiment_name(nodeid)} is left out: it has no ab_compare, so only the last checkpoint replied"
    if any(curve.is_simulated for curve in curves.curves):
        yield "simulated: a stand-in gave the replies, and nothing here is about the model that it stands in for"
    yield f"the session's verdicts are on the last checkpoint: crucible show {curves.run}"


def _why_untested(curve: Curve) -> str:
    """Return why a checkpoint could not be tested, such as for want of bounds; empty where all were."""
    reasons = dict.fromkeys(point.comparison.note for point in curve.points if point.comparison.proof_p is None)
    return "".join(f": {reason}" for reason in [*filter(None, reasons)][:1])


def _best_sentence(curve: Curve) -> str:
    if len(curve.points) < 2:
        return "one checkpoint: nothing was chosen, and its estimate needs no correction"
    if curve.best is None:
        return "best checkpoint: its estimate cannot be corrected for the choice: too few samples, no spread, rounds, or looks"
    best = curve.best
    label, chosen = curve.points[best.arm].label, f"the best of {len(curve.points)}"
    value = with_interval(best.value, best.interval)
    level = f"{best.interval.level * 100:g} %"
    return f"best checkpoint: step {label}: {value} ({level}), corrected for being {chosen}; naive {number(best.naive)}"


def _chart(curve: Curve) -> Chart:
    rows = [(BASE, curve.base), *((point.label, point.estimate) for point in curve.points)]
    return Chart(
        title=f"{experiment_name(curve.nodeid)}: {curve.metric}",
        points=tuple(Point(label=label, value=each.value, interval=each.interval) for label, each in rows),
    )


def _document(curves: TrainingCurves, training: str, values: Mapping[str, float | None]) -> dict[str, Any]:
    return {
        "run": curves.run,
        "alpha": curves.alpha,
        "family_size": curves.family_size,
        "training": training or None,
        "curves": [_curve_document(curve, values) for curve in curves.curves],
    }


def _curve_document(curve: Curve, values: Mapping[str, float | None]) -> dict[str, Any]:
    first, best = curve.first_better, curve.best
    return {
        "experiment": curve.nodeid,
        "metric": curve.metric,
        "finished": curve.is_finished,
        "simulated": curve.is_simulated,
        "base": _estimate_document(curve.base),
        "checkpoints": [
            {
                "step": point.label,
                **_estimate_document(point.estimate),
                "difference": point.comparison.difference,
                **{f"difference_{name}": end for name, end in interval_ends(point.comparison.interval).items()},
                "pairs": point.comparison.pairs,
                "p_value": point.comparison.p_value,
                "p_adjusted": point.comparison.p_adjusted,
                "proof_p": point.comparison.proof_p,
                "proof_adjusted": point.comparison.proof_adjusted,
                "state": point.verdict.state,
                "proven": point.verdict.proven,
                "reason": point.verdict.reason,
                "training": values.get(point.label),
            }
            for point in curve.points
        ],
        "first_better": first.label if first else None,
        "best": None
        if best is None
        else {
            "step": curve.points[best.arm].label,
            "value": best.value,
            **interval_ends(best.interval),
            "naive": best.naive,
        },
    }


def _estimate_document(estimate: Estimate) -> dict[str, Any]:
    return {
        "arm": estimate.arm,
        "value": estimate.value,
        **interval_ends(estimate.interval),
        "n": estimate.n,
        "lost": estimate.lost,
    }
