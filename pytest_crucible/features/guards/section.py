"""Detection: how well guards separate attacks from benign texts, with flags by category and findings by type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from pytest_crucible.analyse.statistics import estimate_values, mean_of
from pytest_crucible.measures.row import Clusters, Flags, Floats, Measured
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Measure, Note, Row, Table, View
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.records.views import Curve, Curves
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import with_interval

decides = False  # no claim of it can fail the session

SCORE, CAUGHT, ALARM, CATEGORY = "guard_score", "caught", "false_alarm", "guard_category"
_AREA = Measure(statistic="auroc", metric=SCORE)
_PRECISION = Measure(statistic="average_precision", metric=SCORE)
# A curve has a point for each different score; more are not seen in a picture.
MOST_POINTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """One arm's detection of attacks."""

    arm: str
    attacks: int
    benign: int
    caught: Measured
    false_alarm: Measured
    area: Measured
    average_precision: Measured
    roc: tuple[tuple[float, float], ...]
    precision_recall: tuple[tuple[float, float], ...]
    categories: tuple[tuple[str, int, int], ...]
    """Category, flagged attacks and flagged benign texts, the most frequent first."""
    types: tuple[tuple[str, int, int, int, int], ...]
    """Type of span, found, annotated, right, predicted."""

    @property
    def interval_below_chance(self) -> Interval | None:
        """The interval of the area, where all of it is below 0.5: the labels may be swapped."""
        interval = self.area.interval
        return interval if interval is not None and interval.high < 0.5 else None


def compute(inputs: SectionInputs) -> tuple[Detector, ...] | None:
    """Return each arm's detection; None if no guard was judged."""
    if SCORE not in inputs.scores or CAUGHT not in inputs.scores or ALARM not in inputs.scores:
        return None
    return tuple(_detector(inputs, number) for number in range(len(inputs.plan.arms))) or None


def claims(detectors: Sequence[Detector]) -> Sequence[Claim]:
    """Return no claims: targets and comparisons make them."""
    return ()


def _detector(inputs: SectionInputs, arm: int) -> Detector:
    # Sessions without a guard do not load it.
    from pytest_crucible.stats.classifiers import precision_recall_points, roc_points

    attacks, benign = (inputs.scores[name][arm].seen for name in (CAUGHT, ALARM))
    values = inputs.scores[SCORE][arm].values
    labelled = (attacks | benign) & ~np.isnan(values)
    scores, labels = values[labelled], attacks[labelled].astype(np.float64)
    clusters = None if inputs.clusters is None else inputs.clusters[labelled]
    has_both = 0 < labels.sum() < labels.size
    return Detector(
        arm=inputs.plan.arms[arm].name,
        attacks=int(attacks.sum()),
        benign=int(benign.sum()),
        caught=_rate(inputs, CAUGHT, arm),
        false_alarm=_rate(inputs, ALARM, arm),
        area=_of_table(inputs, _AREA, scores, labels, clusters),
        average_precision=_of_table(inputs, _PRECISION, scores, labels, clusters),
        roc=_thin(roc_points(scores, labels)) if has_both else (),
        precision_recall=_thin(precision_recall_points(scores, labels)) if has_both else (),
        categories=_categories(inputs, arm, attacks),
        types=tuple(_types(inputs, arm)),
    )


def _rate(inputs: SectionInputs, metric: str, arm: int) -> Measured:
    scores, facts = inputs.scores[metric][arm], inputs.facts[metric]
    clusters = None if inputs.clusters is None else inputs.clusters[scores.seen]
    return estimate_values(mean_of(facts), [facts], [scores.values[scores.seen]], clusters, level=1 - inputs.alpha)


def _of_table(
    inputs: SectionInputs, measure: Measure, scores: Floats, labels: Floats, clusters: Clusters | None
) -> Measured:
    facts = [inputs.facts[SCORE]]
    return estimate_values(measure, facts, [scores], clusters, level=1 - inputs.alpha, expected=labels.tolist())


def _thin(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    step = -(-len(points) // MOST_POINTS)
    # The ends of a curve are always drawn.
    return tuple(point for k, point in enumerate(points) if k % step == 0 or k == len(points) - 1)


def _categories(inputs: SectionInputs, arm: int, attacks: Flags) -> tuple[tuple[str, int, int], ...]:
    counts: dict[str, Counter[bool]] = {}
    for (position, _), category in inputs.stored.texts(arm, CATEGORY).items():
        counts.setdefault(category, Counter())[bool(attacks[position])] += 1
    rows = [(category, count[True], count[False]) for category, count in counts.items()]
    return tuple(sorted(rows, key=lambda row: (-row[1] - row[2], row[0])))


def _types(inputs: SectionInputs, arm: int) -> Iterator[tuple[str, int, int, int, int]]:
    suffix = ".annotated"
    for name in sorted(
        name for name in inputs.scores if name.startswith("pii.") and name.endswith(suffix) and name != f"pii{suffix}"
    ):
        kind = name.removeprefix("pii.").removesuffix(suffix)
        matched, annotated, right, predicted = (
            int(np.nansum(inputs.scores[f"pii.{kind}.{part}"][arm].values))
            for part in ("found", "annotated", "right", "predicted")
        )
        yield kind, matched, annotated, right, predicted


def view(detectors: Sequence[Detector], claims: Sequence[Claim]) -> View:
    """Return tables of arms, categories and types, the curves, and a question where labels seem swapped."""
    return View(
        title="Detection",
        tables=(_summary(detectors), *_category_table(detectors), *_type_table(detectors)),
        notes=tuple(_swapped_labels_notes(detectors)),
        curves=tuple(_curves(detectors)),
        document=[_document(detector) for detector in detectors],
    )


def _summary(detectors: Sequence[Detector]) -> Table:
    return Table(
        title="Attacks and benign texts",
        heads=("guard", "attacks", "caught", "benign", "false alarms", "auroc(guard_score)", "average precision"),
        rows=tuple(
            Row(
                cells=(
                    detector.arm,
                    f"{detector.attacks:,}",
                    _format_measured(detector.caught),
                    f"{detector.benign:,}",
                    _format_measured(detector.false_alarm),
                    _format_measured(detector.area),
                    _format_measured(detector.average_precision),
                )
            )
            for detector in detectors
        ),
        numbers=("attacks", "benign"),
        verbosity=1,
    )


def _format_measured(measured: Measured) -> str:
    return with_interval(measured.value, measured.interval)


def _category_table(detectors: Sequence[Detector]) -> Iterator[Table]:
    rows = [
        Row(cells=(detector.arm, category or "-", f"{attacks:,}", f"{benign:,}"))
        for detector in detectors
        for category, attacks, benign in detector.categories
    ]
    if rows:
        heads = ("guard", "category", "attacks flagged", "benign flagged")
        yield Table(title="Flagged by category", heads=heads, rows=tuple(rows), numbers=heads[2:], verbosity=1)


def _type_table(detectors: Sequence[Detector]) -> Iterator[Table]:
    rows = [
        Row(cells=(detector.arm, kind, f"{matched:,} of {annotated:,}", f"{right:,} of {predicted:,}"))
        for detector in detectors
        for kind, matched, annotated, right, predicted in detector.types
    ]
    if rows:
        note = "A span counts where one of its type on the other side overlaps by half of both (IoU >= 0.5)."
        heads = ("guard", "type", "found of annotated", "right of predicted")
        yield Table(title="Spans by type", heads=heads, rows=tuple(rows), note=note, verbosity=1)


def _swapped_labels_notes(detectors: Sequence[Detector]) -> Iterator[Note]:
    for detector in detectors:
        if detector.interval_below_chance is not None:
            area = _plain(detector.area.value, detector.interval_below_chance)
            yield Note(text=f"{detector.arm}: auroc(guard_score) is {area}: are the labels swapped?")


def _plain(value: float | None, interval: Interval) -> str:
    return f"{value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _curves(detectors: Sequence[Detector]) -> Iterator[Curves]:
    drawn = [detector for detector in detectors if detector.roc]
    if drawn:
        roc = tuple(Curve(label=detector.arm, points=detector.roc) for detector in drawn)
        yield Curves(title="ROC curve", across="false alarms", up="caught", curves=roc)
        recall = tuple(Curve(label=detector.arm, points=detector.precision_recall) for detector in drawn)
        yield Curves(title="Precision-recall curve", across="recall", up="precision", curves=recall)


def _document(detector: Detector) -> dict[str, object]:
    return {
        "arm": detector.arm,
        "attacks": detector.attacks,
        "benign": detector.benign,
        "labels_seem_swapped": detector.interval_below_chance is not None,
        **{
            name: {"value": measured.value, **interval_ends(measured.interval)}
            for name, measured in (
                ("caught", detector.caught),
                ("false_alarm", detector.false_alarm),
                ("auroc", detector.area),
                ("average_precision", detector.average_precision),
            )
        },
        "roc": detector.roc,
        "precision_recall": detector.precision_recall,
        "categories": [
            {"category": category, "attacks": attacks, "benign": benign}
            for category, attacks, benign in detector.categories
        ],
        "types": [
            {"type": kind, "found": matched, "annotated": annotated, "right": right, "predicted": predicted}
            for kind, matched, annotated, right, predicted in detector.types
        ],
    }
