"""The curve of a training: its checkpoints in one stored run, each compared with the base, and the best one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from typing import Any

from pytest_crucible import gate
from pytest_crucible.analyse.analysis import AnalysisInputs, metric_facts, numeric_facts
from pytest_crucible.analyse.members import CorrectedMean, correct_winner, member_values
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Analysis,
    Chart,
    Comparison,
    Contrast,
    Estimate,
    Note,
    Point,
    Row,
    Statement,
    Table,
    Verdict,
    View,
)
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.serialize import pick
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.records.views import experiment_name
from pytest_crucible.runs.evaluate import analyse_together, analysis_inputs
from pytest_crucible.sections.inputs import NoStoredDetails
from pytest_crucible.stats import holm
from pytest_crucible.stats.number_format import number, p_equals, p_value, ratio_with_interval, with_interval
from pytest_crucible.store.experiments import load_experiments
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One checkpoint of a training."""

    label: str
    estimate: Estimate
    comparison: Comparison
    """With the base; its p-values are adjusted for all comparisons of the curves."""
    verdict: Verdict
    """On the claim that the checkpoint is better than the base."""

    @property
    def is_better(self) -> bool:
        """Return whether the checkpoint is proven better than the base."""
        return self.verdict.proven and self.verdict.state == "met"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The checkpoints of a training by one metric of one experiment, in the order of the training."""

    nodeid: str
    metric: str
    base: Estimate
    points: tuple[CurvePoint, ...]
    best: CorrectedMean | None
    """The best checkpoint, corrected for having been chosen; `arm` is its place. None for one checkpoint, and where the
    samples allow no correction."""
    is_finished: bool
    """Whether every sample was run."""
    is_simulated: bool
    """Whether the replies are those of a stand-in or a script."""

    @property
    def first_better(self) -> CurvePoint | None:
        """The first checkpoint that is proven better than the base."""
        return next((point for point in self.points if point.is_better), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCurves:
    """All curves of one run."""

    run: str
    alpha: float
    family_size: int
    """The number of comparisons with the base, which share alpha."""
    curves: tuple[Curve, ...]
    left_out: tuple[str, ...] = ()
    """Nodeids of experiments that compare nothing, for which the session queries the candidate alone."""


def measure_curves(store: RunStore, run: str, labels: Mapping[str, str], base: str, metric: str = "") -> TrainingCurves:
    """Return the curves of a run whose arms are checkpoints and their base.

    `labels` has the checkpoints' labels by the names of their arms, in the order of the training. Without a metric the curves are
    by those that the suite compares or targets, else by all that have a direction. Raises SpecError if no experiment compares
    its arms, and for a metric without scores.
    """
    alpha = store.run(run)["alpha"]
    compared, left_out = _split_experiments(store, run, {base, *labels})
    metrics = [_choose_metrics(inputs, metric) for inputs in compared]
    if not any(metrics):
        raise _no_metric(compared, metric)
    of_experiments = [pair for pair in zip(compared, metrics, strict=True) if pair[1]]
    pairs = [_pair_with_base(inputs, arm, base, names) for inputs, names in of_experiments for arm in labels]
    # One family over all experiments and metrics, because a reader takes the first proven checkpoint of any.
    family_size = sum(len(inputs.plan.contrasts) for inputs in pairs)
    analyses, _ = analyse_together(
        lambda: [(inputs, NoStoredDetails()) for inputs in pairs], {}, alpha=alpha, declared=family_size
    )
    judged = _judge(analyses, alpha, family_size)
    curves = [_curve(inputs, name, judged, labels, base) for inputs, names in of_experiments for name in names]
    return TrainingCurves(run=run, alpha=alpha, family_size=family_size, curves=tuple(curves), left_out=left_out)


def _split_experiments(
    store: RunStore, run: str, names: AbstractSet[str]
) -> tuple[Sequence[AnalysisInputs], tuple[str, ...]]:
    """Return the experiments with all of these arms, and the nodeids of the others. Raises SpecError if none has them."""
    inputs = [analysis_inputs(stored, stored.finished) for stored in load_experiments(store, run)]
    compared = [each for each in inputs if names <= {arm.name for arm in each.plan.arms}]
    if not compared:
        raise SpecError(
            'no test of the suite compares, so only the last checkpoint replied: add @pytest.mark.ab_compare("METRIC")'
        )
    return compared, tuple(each.plan.nodeid for each in inputs if not names <= {arm.name for arm in each.plan.arms})


Judged = Mapping[tuple[str, str, str], tuple[Analysis, Verdict]]
"""Analysis and verdict by nodeid, arm and metric."""


def _choose_metrics(inputs: AnalysisInputs, metric: str) -> tuple[str, ...]:
    # A failed reply has the worst score of each declared metric; where all are lost nothing is known.
    has_outcomes = any(len(answers.positions) for answers in inputs.answers)
    scored = numeric_facts(inputs, metric_facts(inputs)) if has_outcomes else {}
    directed = [name for name, facts in scored.items() if facts.is_directed and not facts.is_part]
    if metric:
        return tuple(name for name in directed if name == metric)
    named = {name for measure in (*inputs.plan.contrasts, *inputs.plan.targets) for name in measure.metrics}
    # A suite that names no metric would otherwise have no curve at all.
    return tuple(name for name in directed if name in named) or tuple(directed)


def _no_metric(whole: Sequence[AnalysisInputs], metric: str) -> SpecError:
    names = sorted({name for inputs in whole for name in _choose_metrics(inputs, "")})
    if not metric or not names:
        return SpecError("no sample was scored by a metric with a direction: the run above shows what was lost")
    return SpecError(f"--metric {metric}: no experiment scored it: {suggest(metric, names, always=', '.join(names))}")


def _pair_with_base(inputs: AnalysisInputs, arm: str, base: str, metrics: Iterable[str]) -> AnalysisInputs:
    """Return a checkpoint and the base as an experiment of two arms, which claims that the checkpoint is better."""
    numbers = [_number(inputs, arm), _number(inputs, base)]
    candidate, baseline = (inputs.plan.arms[number] for number in numbers)
    plan = replace(
        inputs.plan,
        arms=(replace(candidate, role="candidate"), replace(baseline, role="baseline")),
        # The suite's targets are about its candidate, which is the last checkpoint alone.
        targets=(),
        contrasts=tuple(Contrast(metric=name, baseline=base, alternative="superior") for name in metrics),
        variants=(),
        variant_terms=(),
        features={},
        not_run={},
    )
    return replace(inputs, plan=plan, answers=tuple(inputs.answers[number] for number in numbers), variants={})


def _number(inputs: AnalysisInputs, arm: str) -> int:
    return [each.name for each in inputs.plan.arms].index(arm)


def _judge(analyses: Sequence[Analysis], alpha: float, family_size: int) -> Judged:
    verdicts = gate.decide_verdicts(analyses, alpha=alpha, strict=False, family_size=family_size)
    by_subject = {(verdict.nodeid, verdict.subject): verdict for verdict in verdicts}
    compared = [(analysis, comparison) for analysis in analyses for comparison in analysis.comparisons]
    proofs = holm([comparison.evidence.weakest_proof_p for _, comparison in compared], family_size=family_size)
    return {
        (analysis.plan.nodeid, comparison.candidate, comparison.contrast.metric): (
            analysis,
            _correct(by_subject[analysis.plan.nodeid, comparison.contrast.subject(comparison.candidate)], proof, alpha),
        )
        for (analysis, comparison), proof in zip(compared, proofs, strict=True)
    }


def _correct(verdict: Verdict, proof: float | None, alpha: float) -> Verdict:
    """Return a verdict whose proof of an improvement holds for all checkpoints together: a reader takes any of them."""
    if verdict.state != "met" or (proof is not None and proof <= alpha):
        return verdict
    adjusted = "" if proof is None else f" (adjusted {p_equals(proof)})"
    reason = f"for all checkpoints together no improvement is proven{adjusted}"
    return replace(verdict, state="undecided", proven=False, reason=reason)


def _curve(inputs: AnalysisInputs, metric: str, judged: Judged, labels: Mapping[str, str], base: str) -> Curve:
    nodeid = inputs.plan.nodeid
    points = [_point(*judged[nodeid, arm, metric], metric, arm, label) for arm, label in labels.items()]
    any_analysis, _ = judged[nodeid, next(iter(labels)), metric]
    return Curve(
        nodeid=nodeid,
        metric=metric,
        base=_estimate(any_analysis, metric, base),
        points=tuple(points),
        best=_correct_best(inputs, metric, list(labels)),
        is_finished=inputs.finished,
        is_simulated=any(arm.simulated for arm in inputs.plan.arms),
    )


def _point(analysis: Analysis, verdict: Verdict, metric: str, arm: str, label: str) -> CurvePoint:
    comparison = next(each for each in analysis.comparisons if each.contrast.metric == metric)
    return CurvePoint(label=label, estimate=_estimate(analysis, metric, arm), comparison=comparison, verdict=verdict)


def _estimate(analysis: Analysis, metric: str, arm: str) -> Estimate:
    return next(each for each in analysis.estimates if (each.metric, each.arm, each.statistic) == (metric, arm, "mean"))


def _correct_best(inputs: AnalysisInputs, metric: str, arms: Sequence[str]) -> CorrectedMean | None:
    # The estimate of a single checkpoint was not chosen. The correction knows the noise of samples alone, at one look.
    if len(arms) < 2 or inputs.plan.random_factors or inputs.plan.look_alpha is not None:
        return None
    numbers = [_number(inputs, arm) for arm in arms]
    values = member_values(inputs, metric, numbers, range(len(inputs.groups)))
    return None if values is None else correct_winner(values)


BASE = "base"


@dataclass(frozen=True, slots=True)
class TrainingNumbers:
    """Numbers of the training behind a curve, by the labels of its checkpoints."""

    name: str = ""
    """The training's own number; empty without one."""
    means: Mapping[str, float | None] = field(default_factory=dict)
    """The mean of this number over the batches since the checkpoint before."""
    steps: Mapping[str, int | None] = field(default_factory=dict)
    """The optimiser steps that the checkpoints hold; None where the service does not state them."""


def curve_view(curves: TrainingCurves, title: str, notes: Sequence[str], training: TrainingNumbers) -> View:
    """Return the curves, next to the training's own numbers."""
    return View(
        title=title,
        tables=tuple(_table(curve, curves, training) for curve in curves.curves),
        notes=tuple(Note(text=text) for text in (*notes, *_sentences(curves))),
        charts=tuple(_chart(curve) for curve in curves.curves),
        methods=(
            Statement(
                text="Each checkpoint is compared with the base on the same samples, and p-values are adjusted by Holm over all "
                f"{curves.family_size} comparisons. The best checkpoint's estimate is corrected as that of the best of several"
            ),
        ),
        document=_document(curves, training),
    )


def _table(curve: Curve, curves: TrainingCurves, training: TrainingNumbers) -> Table:
    percent = f"{(1 - curves.alpha) * 100:g} %"
    name = training.name
    heads = (
        "checkpoint",
        "steps",
        f"{curve.metric} [{percent}]",
        "n",
        "lost",
        f"from the base [{percent}]",
        f"p (Holm, {curves.family_size})",
        "result",
        *([name] if name else []),
    )
    base = (BASE, "0", *_estimate_cells(curve.base), "", "", "", *([""] if name else []))
    rows = (Row(cells=base), *(Row(cells=_cells(point, training)) for point in curve.points))
    note = "steps are the optimiser steps that a checkpoint holds. Intervals are unadjusted."
    if name:
        note += f" {name} is the training's own number: its mean over the batches since the checkpoint before"
        is_known = all(training.steps.get(point.label) is not None for point in curve.points)
        note += "." if is_known else ", counted by the names of the checkpoints where their steps are unknown."
    title = f"{experiment_name(curve.nodeid)}: {curve.metric}"
    return Table(title=title, heads=heads, rows=rows, numbers=("steps", "n", "lost"), note=note)


def _cells(point: CurvePoint, training: TrainingNumbers) -> tuple[str, ...]:
    comparison, steps, mean = point.comparison, training.steps.get(point.label), training.means.get(point.label)
    return (
        point.label,
        "unknown" if steps is None else f"{steps:,}",
        *_estimate_cells(point.estimate),
        _difference(comparison),
        p_value(comparison.proof_adjusted),
        _result(point),
        *(["-" if mean is None else f"{mean:.4g}"] if training.name else []),
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


def _sentences(curves: TrainingCurves) -> Iterator[str]:
    several = len(curves.curves) > 1
    for curve in curves.curves:
        prefix = f"{experiment_name(curve.nodeid)}: {curve.metric}: " if several else ""
        first = curve.first_better
        yield prefix + (
            f"first checkpoint proven better than the base: {first.label}"
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
    return f"best checkpoint: {label}: {value} ({level}), corrected for being {chosen}; naive {number(best.naive)}"


def _chart(curve: Curve) -> Chart:
    rows = [(BASE, curve.base), *((point.label, point.estimate) for point in curve.points)]
    return Chart(
        title=f"{experiment_name(curve.nodeid)}: {curve.metric}",
        points=tuple(Point(label=label, value=each.value, interval=each.interval) for label, each in rows),
    )


def _document(curves: TrainingCurves, training: TrainingNumbers) -> dict[str, Any]:
    return {
        **pick(curves, "run alpha family_size"),
        "training": training.name or None,
        "curves": [_curve_document(curve, training) for curve in curves.curves],
    }


def _curve_document(curve: Curve, training: TrainingNumbers) -> dict[str, Any]:
    first, best = curve.first_better, curve.best
    return {
        "experiment": curve.nodeid,
        "metric": curve.metric,
        "finished": curve.is_finished,
        "simulated": curve.is_simulated,
        "base": _estimate_document(curve.base),
        "checkpoints": [
            {
                "checkpoint": point.label,
                "steps": training.steps.get(point.label),
                **_estimate_document(point.estimate),
                "difference": point.comparison.difference,
                **{f"difference_{name}": end for name, end in interval_ends(point.comparison.interval).items()},
                **pick(point.comparison, "pairs p_value p_adjusted proof_p proof_adjusted"),
                **pick(point.verdict, "state proven reason"),
                "training": training.means.get(point.label),
            }
            for point in curve.points
        ],
        "first_better": first.label if first else None,
        "best": None
        if best is None
        else {
            "checkpoint": curve.points[best.arm].label,
            "value": best.value,
            **interval_ends(best.interval),
            "naive": best.naive,
        },
    }


def _estimate_document(estimate: Estimate) -> dict[str, Any]:
    return {**pick(estimate, "arm value"), **interval_ends(estimate.interval), **pick(estimate, "n lost")}
