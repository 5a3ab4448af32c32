"""Fairness of decisions by slice, with parities that exclude each other; and invariance of scores between versions of a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from pytest_crucible.analyse.scores import Flags, Floats, Scores
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Note, Row, Statement, Table, View
from pytest_crucible.records.datasets import TWIN, By, short_name
from pytest_crucible.sections.inputs import SectionInputs, no_claims

if TYPE_CHECKING:
    from pytest_crucible.stats.classifiers import Decisions, ReferenceDifference, Reliability, SliceRates
    from pytest_crucible.stats.slices.slicing import Slicing

decides = False  # no claim of it can fail the session
claims = no_claims

NEEDED = ("selected", "true_positive", "false_positive", "correct")
STATED = "stated_probability"
OVERCONFIDENCE = "overconfidence"
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
    reliability: tuple[tuple[str, Reliability], ...] | None
    """(slice, its reliability); empty without stated probabilities, None if this run stored only their distances from outcomes."""
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
        scores = {name: of_arms[number] for name, of_arms in inputs.scores.items()}
        yield _arm_fairness(arm.name, by, slicing, scores, reference, inputs.alpha)


def view(arms: Sequence[ArmFairness], claims: Sequence[Claim]) -> View:
    """Return the rates of each arm by slice, and a note where parities exclude each other."""
    return View(
        title="Fairness",
        tables=(*_rate_tables(arms), *_reliability_tables(arms)),
        notes=tuple(Note(text=text) for text in dict.fromkeys(_warnings(arms))),
        methods=(Statement(text=_METHODS, cites=CITES),) if any(arm.base_rates for arm in arms) else (),
        document=[_document(arm) for arm in arms],
    )


_METHODS = (
    "Where base rates differ between slices, error rates and predictive values cannot both be equal "
    "unless decisions are perfect."
)


def _arm_fairness(
    name: str, by: By, slicing: Slicing, scores: Mapping[str, Scores], reference: str, alpha: float
) -> ArmFairness:
    from pytest_crucible.stats.classifiers import Decisions, difference_from, slice_rates, theil_index

    decisions = Decisions(**{metric: scores[metric].values for metric in NEEDED})
    slices = [(label, slicing.codes == code) for code, label in enumerate(slicing.names)]
    rates = tuple(slice_rates(label, decisions.take(inside)) for label, inside in slices)
    base = next((rate for rate in rates if rate.name == reference), max(rates, key=lambda rate: rate.n))
    return ArmFairness(
        arm=name,
        field=by.title,
        rates=rates,
        reference=base.name,
        differences=tuple(difference_from(base, rate) for rate in rates if rate is not base),
        reliability=_reliability(scores, decisions, slices),
        theil=theil_index(decisions),
        base_rates=_differing_base_rates(decisions.outcome, slicing, alpha),
    )


def _reliability(
    scores: Mapping[str, Scores], decisions: Decisions, slices: Sequence[tuple[str, Flags]]
) -> tuple[tuple[str, Reliability], ...] | None:
    """Return the reliability of each slice's stated probabilities, of which each repeat has its own."""
    from pytest_crucible.stats.classifiers import reliability

    if STATED not in scores:
        # Earlier builds stored the probability minus the outcome, from which rounding makes two numbers of one.
        return None if OVERCONFIDENCE in scores else ()
    stated = _replies(scores[STATED])
    outcome = np.broadcast_to(decisions.outcome[:, None], stated.shape)
    is_known = ~np.isnan(stated) & ~np.isnan(outcome)
    of_slices = [(label, is_known & inside[:, None]) for label, inside in slices]
    return tuple((label, reliability(stated[chosen], outcome[chosen])) for label, chosen in of_slices)


def _replies(scores: Scores) -> Floats:
    samples = len(scores.values)
    return scores.values[:, None] if scores.units is None else scores.units.values.reshape(samples, -1)


def _differing_base_rates(outcome: Floats, slicing: Slicing, alpha: float) -> str:
    from pytest_crucible.stats.slices.extremes import bound_extreme
    from pytest_crucible.stats.slices.slicing import slice_means

    means = slice_means(outcome, slicing, is_binary=True, bounds=(0.0, 1.0))
    if slicing.count < 2:
        return ""
    gap = bound_extreme("gap", [means], [means], alpha=alpha)
    if gap.lower is None or gap.lower <= 0 or gap.lower_pair is None:
        return ""
    pair = gap.lower_pair.first, gap.lower_pair.second
    return ", ".join(f"{short_name(slicing.names[at])} {means.means[at]:.3g}" for at in pair)


def _warnings(arms: Sequence[ArmFairness]) -> Iterator[str]:
    for arm in (arm for arm in arms if arm.base_rates):
        yield (
            f"base rates by {arm.field} differ ({arm.base_rates}; proven): equalized odds and predictive parity cannot both "
            "hold unless decisions are perfect, nor equalized odds and demographic parity unless decisions ignore the outcome"
        )
    for arm in (arm for arm in arms if arm.reliability is None):
        yield f"probabilities as {arm.arm} stated them: not stored by this run; run it again for calibration errors and AUROC"


_CALIBRATION = ("calibration error", "without bias", "AUROC")


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
            heads=(arm.field, "n", *_CALIBRATION),
            rows=tuple(
                Row(cells=(short_name(name), f"{each.n:,}", *map(_number, (each.ece, each.ece_debiased, each.auroc))))
                for name, each in arm.reliability
            ),
            numbers=("n", *_CALIBRATION),
            note=f"Stated probabilities of {arm.arm}. Small bins add to the calibration error by chance: then without this bias.",
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
        "reliability": None
        if arm.reliability is None
        else [{"slice": name, **asdict(each)} for name, each in arm.reliability],
        "base_rates_differ": arm.base_rates,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariance:
    """The change of one metric of the candidate between two versions of the prompts that have both."""

    metric: str
    first: str
    second: str
    n: int
    better_as_first: float
    """Share of prompts, averaged over repeats."""
    better_as_second: float
    between_repeats: float | None
    """Share of pairs of repeats of one version that differ; None for one repeat."""

    @property
    def changed(self) -> float:
        return self.better_as_first + self.better_as_second


def compute_twins(inputs: SectionInputs) -> tuple[Invariance, ...] | None:
    """Return the changes of each metric that a target or a comparison is about by twin; None without one."""
    return tuple(each for metric in inputs.twins for each in _of_metric(inputs, metric)) or None


def view_twins(changes: Sequence[Invariance], claims: Sequence[Claim]) -> View:
    """Return a note for each pair of versions."""
    return View(
        title="Invariance",
        notes=tuple(Note(text=_sentence(each)) for each in changes),
        document=[{**asdict(each), "changed": each.changed} for each in changes],
    )


def _of_metric(inputs: SectionInputs, metric: str) -> Iterator[Invariance]:
    sign = 1.0 if inputs.facts[metric].direction == "higher" else -1.0
    labels = np.array([str(sample.metadata.get(TWIN, "")) for sample in inputs.stored.all_samples()], dtype=object)
    if len(labels) != inputs.samples:
        return
    originals = _replies(inputs.scores[metric][0])
    names = [variant.name for variant in inputs.plan.variants]
    versions = dict.fromkeys([*sorted(set(labels) - {""}), *names])
    # The replies to each version: those to the sample itself if it is this version, else to its twin.
    replies = {name: np.full_like(originals, np.nan) for name in versions}
    for name, of_arms in zip(names, inputs.twins[metric], strict=True):
        replies[name] = _replies(of_arms[0]).copy()
    for name, table in replies.items():
        table[labels == name] = originals[labels == name]
    for at, first in enumerate(versions):
        for second in list(versions)[at + 1 :]:
            difference = sign * (replies[first] - replies[second])
            is_known = ~np.isnan(difference).all(axis=1) & (labels != "")
            if is_known.any():
                yield Invariance(
                    metric=metric,
                    first=first,
                    second=second,
                    n=int(is_known.sum()),
                    better_as_first=_share_of(difference[is_known] > 0, difference[is_known]),
                    better_as_second=_share_of(difference[is_known] < 0, difference[is_known]),
                    between_repeats=_between_repeats([replies[first][is_known], replies[second][is_known]]),
                )


def _share_of(flags: np.typing.NDArray[np.bool_], differences: Floats) -> float:
    return float(flags.sum() / np.count_nonzero(~np.isnan(differences)))


def _between_repeats(tables: Sequence[Floats]) -> float | None:
    repeats = tables[0].shape[1]
    changes = [
        (table[:, repeat] - table[:, other]) for table in tables for repeat in range(repeats) for other in range(repeat)
    ]
    finite = [change[~np.isnan(change)] for change in changes]
    together = np.concatenate(finite) if finite else np.array([])
    return float((together != 0).mean()) if len(together) else None


def _sentence(each: Invariance) -> str:
    repeats = "" if each.between_repeats is None else f"; between repeats of one version in {each.between_repeats:.1%}"
    return (
        f"invariance: {each.metric} changes between {each.first} and {each.second} in {each.changed:.1%} of {each.n:,} prompts "
        f"({each.better_as_first:.1%} better as {each.first}, {each.better_as_second:.1%} as {each.second}){repeats}"
    )


TWINS = SimpleNamespace(decides=False, compute=compute_twins, claims=no_claims, view=view_twins)
