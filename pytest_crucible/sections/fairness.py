"""Fairness of decisions: each slice's rates, its stated probabilities, and which parities cannot hold together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_crucible.analyse.scores import Floats
from pytest_crucible.records import Claim, Note, Row, Statement, Table, View
from pytest_crucible.records.slices import By, short_name
from pytest_crucible.sections.inputs import SectionInputs

if TYPE_CHECKING:
    from pytest_crucible.stats.slices.decisions import ReferenceDifference, SliceRates
    from pytest_crucible.stats.slices.reliability import Reliability
    from pytest_crucible.stats.slices.slicing import Slicing

decides = False  # no claim of it can fail the session

NEEDED = ("selected", "true_positive", "false_positive")
CONFIDENCE = "overconfidence"
CITES = ("kleinberg2017", "chouldechova2017")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFairness:
    """One arm's decisions by the slices of one field."""

    arm: str
    field: str
    rates: tuple[SliceRates, ...]
    reference: str
    """The slice from which differences are taken: the largest, if none is named."""
    differences: tuple[ReferenceDifference, ...]
    reliability: tuple[tuple[str, Reliability], ...]
    """(slice, its reliability); empty without stated probabilities."""
    theil: float | None
    base_rates: str
    """Two slices whose base rates are proven to differ, as text; empty if none are."""


def compute(inputs: SectionInputs) -> tuple[ArmFairness, ...] | None:
    """Return the decisions of each arm by each field that a target or a comparison names; None without decisions."""
    fields = dict.fromkeys(
        measure.by for measure in (*inputs.plan.targets, *inputs.plan.contrasts) if measure.by is not None
    )
    return tuple(arm for by in fields for arm in measure_fairness(inputs, by)) or None


def measure_fairness(inputs: SectionInputs, by: By, reference: str = "") -> Iterator[ArmFairness]:
    """Yield each arm's decisions by the slices of a field; nothing without the metrics of `fairness.decision`."""
    slicing = inputs.slicings.get(by)
    if slicing is None or len(slicing.codes) != inputs.samples or not all(name in inputs.scores for name in NEEDED):
        return
    for number, arm in enumerate(inputs.plan.arms):
        values = {name: of_arms[number].values for name, of_arms in inputs.scores.items()}
        yield _arm_fairness(arm.name, by, slicing, values, reference, inputs.alpha)


def claims(arms: Sequence[ArmFairness]) -> Sequence[Claim]:
    """Return no claims: the suite declares its targets and comparisons."""
    return ()


def view(arms: Sequence[ArmFairness], claims: Sequence[Claim]) -> View:
    """Return the rates of each arm by slice, and a note where parities exclude each other."""
    return View(
        title="Fairness",
        tables=(*_rate_tables(arms), *_reliability_tables(arms)),
        notes=tuple(Note(text=text) for text in dict.fromkeys(filter(None, map(_conflict, arms)))),
        methods=(Statement(text=_METHODS, cites=CITES),) if any(arm.base_rates for arm in arms) else (),
        document=[_document(arm) for arm in arms],
    )


_METHODS = (
    "Where base rates differ between slices, error rates and predictive values cannot both be equal "
    "unless decisions are perfect."
)


def _arm_fairness(
    name: str, by: By, slicing: Slicing, values: dict[str, Floats], reference: str, alpha: float
) -> ArmFairness:
    from pytest_crucible.stats.slices.decisions import difference_from, slice_rates, theil_index
    from pytest_crucible.stats.slices.reliability import reliability

    selected, outcome = values["selected"], find_outcomes(values["true_positive"], values["false_positive"])
    inside = [slicing.codes == code for code in range(slicing.count)]
    rates = tuple(
        slice_rates(label, selected[flags], outcome[flags]) for label, flags in zip(slicing.names, inside, strict=True)
    )
    base = next((rate for rate in rates if rate.name == reference), max(rates, key=lambda rate: rate.n))
    stated = values.get(CONFIDENCE)
    of_slices = []
    if stated is not None:
        confidence = stated + outcome
        for label, flags in zip(slicing.names, inside, strict=True):
            is_stated = flags & ~np.isnan(confidence)
            of_slices.append((label, reliability(confidence[is_stated], outcome[is_stated])))
    return ArmFairness(
        arm=name,
        field=by.title,
        rates=rates,
        reference=base.name,
        differences=tuple(difference_from(base, rate) for rate in rates if rate is not base),
        reliability=tuple(of_slices),
        theil=theil_index(selected, outcome),
        base_rates=_differing_base_rates(outcome, slicing, alpha),
    )


def find_outcomes(true_positive: Floats, false_positive: Floats) -> Floats:
    """Return 1 where the favourable answer is expected and 0 where it is not: each metric applies to one of both."""
    return np.where(~np.isnan(true_positive), 1.0, np.where(~np.isnan(false_positive), 0.0, np.nan))


def _differing_base_rates(outcome: Floats, slicing: Slicing, alpha: float) -> str:
    from pytest_crucible.stats.slices.extremes import bound_extreme
    from pytest_crucible.stats.slices.means import slice_means

    means = slice_means(outcome, slicing, is_binary=True, bounds=(0.0, 1.0))
    if slicing.count < 2:
        return ""
    gap = bound_extreme("gap", [means], [means], alpha=alpha)
    if gap.lower is None or gap.lower <= 0 or gap.lower_pair is None:
        return ""
    pair = gap.lower_pair.first, gap.lower_pair.second
    return ", ".join(f"{short_name(slicing.names[at])} {means.means[at]:.3g}" for at in pair)


def _conflict(arm: ArmFairness) -> str:
    if not arm.base_rates:
        return ""
    return (
        f"base rates by {arm.field} differ ({arm.base_rates}; proven): equalized odds and predictive parity cannot both hold "
        "unless decisions are perfect, nor equalized odds and demographic parity unless decisions ignore the outcome"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _rate_tables(arms: Sequence[ArmFairness]) -> Iterator[Table]:
    for arm in arms:
        columns = ("base_rate", "selected", "true_positive", "false_positive", "right_if_selected", "correct")
        yield Table(
            title=f"Decisions of {arm.arm} by {arm.field}",
            heads=(arm.field, "n", "base rate", *columns[1:]),
            rows=tuple(
                Row(cells=(short_name(rate.name), f"{rate.n:,}", *(_number(rate.rates[column]) for column in columns)))
                for rate in arm.rates
            ),
            numbers=("n", "base rate", *columns[1:]),
            note=f"Decisions of {arm.arm}. A rate without a sample to count is shown as -.",
            verbosity=1,
        )


def _reliability_tables(arms: Sequence[ArmFairness]) -> Iterator[Table]:
    for arm in arms:
        if not arm.reliability:
            continue
        yield Table(
            title=f"Stated probabilities of {arm.arm} by {arm.field}",
            heads=(arm.field, "n", "calibration error", "AUROC"),
            rows=tuple(
                Row(cells=(short_name(name), f"{each.n:,}", _number(each.ece), _number(each.auroc)))
                for name, each in arm.reliability
            ),
            numbers=("n", "calibration error", "AUROC"),
            note=f"Stated probabilities of {arm.arm}; the calibration error is without the bias of small bins.",
            verbosity=1,
        )
        yield Table(
            title=f"Reliability of {arm.arm} by {arm.field}",
            heads=(arm.field, "stated", "observed", "n"),
            rows=tuple(
                Row(cells=(short_name(name), f"{part.confidence:.2f}", f"{part.rate:.2f}", f"{part.n:,}"))
                for name, each in arm.reliability
                for part in each.bins
            ),
            numbers=("stated", "observed", "n"),
            verbosity=3,
        )


def _document(arm: ArmFairness) -> dict[str, object]:
    return {
        "arm": arm.arm,
        "field": arm.field,
        "slices": [{"slice": rate.name, "n": rate.n, **rate.rates} for rate in arm.rates],
        "reference": arm.reference,
        "differences": [
            {"slice": each.name, **{key: value for key, value in asdict(each).items() if key != "name"}}
            for each in arm.differences
        ],
        "theil": arm.theil,
        "reliability": [{"slice": name, **asdict(each)} for name, each in arm.reliability],
        "base_rates_differ": arm.base_rates,
    }
