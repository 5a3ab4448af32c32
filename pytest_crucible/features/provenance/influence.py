"""The samples or groups that carry a verdict: how much its estimate changes without each, and whether one alone decides."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.scores import Floats
from pytest_crucible.analyse.statistics import prepare, row_of
from pytest_crucible.features.provenance.movable import is_counted, movable_answers, undefined_reason
from pytest_crucible.features.provenance.verdict_facts import Influence, SampleWeight
from pytest_crucible.features.provenance.what_if import Question
from pytest_crucible.gate.decide import Decision
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Contrast, Target

_MEANS = ("mean", "rate", "count", "pass^", "pass@")
MOST_ALONE = 5
"""The verdict is decided again without each of so many samples or groups: the most influential ones."""
_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class Shares:
    """The parts of samples in a mean."""

    places: npt.NDArray[np.int64]
    """Each sample's place in the dataset."""
    values: Floats
    """Its difference between the arms, positive where the candidate is better; of a target its value."""
    units: npt.NDArray[np.int64]
    """The number of its group; of a plan without groups its own."""
    total: float
    """What the mean is multiplied by: 1, or for a count the number of replies."""

    @property
    def changes(self) -> Floats:
        """The change of the estimate without each unit."""
        sums, sizes = np.bincount(self.units, self.values), np.bincount(self.units)
        n = self.values.size
        if self.total != 1.0:
            return np.asarray(-sums * self.total / n)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((self.values.sum() - sums) / (n - sizes) - self.values.mean())


def measure_influence(question: Question) -> Influence:
    """Return the samples or groups whose absence moves the estimate against the verdict, those that move it most first."""
    has_groups = question.table.attributes.clusters is not None
    unit = "group" if has_groups else "sample"
    shares = _shares(question)
    if isinstance(shares, str):
        return Influence(unit=unit, undefined=shares)
    sizes = np.bincount(shares.units)
    if sizes.size == 1:
        return Influence(unit=unit, undefined=f"it has one {unit} only")
    changes, side = shares.changes, _side(question, float(shares.values.mean()) * shares.total)
    if not side:
        return Influence(unit=unit, undefined="its estimate equals what it is compared with")
    order = np.argsort(side * changes, kind="stable")
    order = order[side * changes[order] < -_NOTHING]
    if not has_groups and isinstance(question.measure, Contrast):
        # Pairs that agree carry nothing, although the estimate would change without them.
        order = order[shares.values[order] != 0]
    names = _names(question, shares)
    alone = _alone(question, shares, changes, order)
    return Influence(
        unit=unit,
        names=tuple(names[k] for k in order),
        sizes=tuple(sizes[order].tolist()),
        changes=tuple(changes[order].tolist()),
        decides_alone=tuple(names[k] for k in alone),
    )


def weigh_sample(question: Question, position: int) -> SampleWeight | None:
    """Return the part of the sample at a place of the dataset in a verdict; None if the verdict is not about it."""
    chosen = question.chosen
    if not chosen[position]:
        return None
    shares, flags = _shares(question), np.zeros(chosen.size, dtype=bool)
    flags[position] = True
    value = None if isinstance(shares, str) else float(shares.values[shares.places == position][0])
    state, proven = question.decide_without(flags)
    n = int(chosen.sum())
    decided = question.decide()[0]
    return SampleWeight(
        weight=1 / n,
        n=n,
        value=value,
        state_without=state,
        proven_without=proven,
        decides_alone=state != decided or any(other[0] != decided for other in _decisions_turned(question, position)),
    )


def _decisions_turned(question: Question, position: int) -> Iterator[Decision]:
    """Yield the decision with each single answer to a sample turned to its best or its worst."""
    if undefined_reason(question):
        return
    for number in question.numbers:
        for is_better in (True, False):
            answers = movable_answers(question, number, is_better).answers
            for place in np.flatnonzero(answers.positions == position):
                yield question.decide(answers.at(np.array([place])))


def _shares(question: Question) -> Shares | str:
    """Return what each sample adds to the estimate; a sentence if it is not a mean of samples that count alike."""
    measure, attributes = question.measure, question.table.attributes_of(question.measure)
    if measure.statistic not in _MEANS:
        return f"it is known of means and rates, not of a {row_of(measure).title}"
    if isinstance(measure, Contrast) and measure.unpaired:
        return "it is known of paired arms, and these have samples of their own"
    chosen = question.chosen
    columns = [prepare(measure, question.table.arm(measure, number), attributes, chosen) for number in question.numbers]
    places = np.flatnonzero(chosen)
    # Linearised values are those of samples with unequal numbers of replies.
    if any(column.ends is not None or column.values.size != places.size for column in columns):
        return "its samples have unequal numbers of replies"
    values = columns[0].values if len(columns) == 1 else columns[0].values - columns[1].values
    if isinstance(measure, Contrast) and not row_of(measure).higher_is_better(measure, question.facts):
        values = -values
    if not places.size or not np.isfinite(values).all():
        return "it has no scores"
    units = np.arange(places.size)
    if attributes.clusters is not None:
        units = np.unique(attributes.clusters[chosen], return_inverse=True)[1]
    total = float(columns[0].size or places.size) if row_of(measure).is_total else 1.0
    return Shares(places, np.asarray(values, dtype=np.float64), units, total)


def _names(question: Question, shares: Shares) -> list[str]:
    inputs = question.inputs
    if question.table.attributes.clusters is None:
        return [inputs.sample_ids[place] for place in shares.places]
    sizes = np.bincount(shares.units)
    names = [""] * sizes.size
    for place, unit in zip(shares.places, shares.units, strict=True):
        names[unit] = str(inputs.groups[place]) if sizes[unit] > 1 else inputs.sample_ids[place]
    return names


def _side(question: Question, estimate: float) -> float:
    """Return 1 if the estimate lies above what it is compared with, -1 if below, and 0 if it equals it."""
    measure = question.measure
    if isinstance(measure, Target):
        limit = measure.value
        # At the limit itself the relation says on which side it counts.
        if estimate == limit:
            return {">=": 1.0, "<": 1.0, "<=": -1.0, ">": -1.0}.get(measure.relation, 0.0)
    else:
        limit = {"non-inferior": -1.0, "superior": 1.0}.get(measure.alternative, 0.0) * (measure.limit or 0.0)
    return float(np.sign(estimate - limit))


def _alone(question: Question, shares: Shares, changes: Floats, order: npt.NDArray[np.int64]) -> Iterator[int]:
    """Yield the units without which the verdict has another state, until one changes nothing."""
    decided, states = question.decide()[0], dict[float, bool]()
    is_alike = is_counted(question)
    for unit in order.tolist() if is_alike else order[:MOST_ALONE].tolist():
        key = float(changes[unit]) if is_alike else float(unit)
        if key not in states:
            flags = np.zeros(len(question.inputs.groups), dtype=bool)
            flags[shares.places[shares.units == unit]] = True
            states[key] = question.decide_without(flags)[0] != decided
        if not states[key]:
            return
        yield unit
