"""The scores that a guard gave the benign samples of a stored run."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_crucible.adapters.guard import input_text
from pytest_crucible.analyse.analysis import score_table
from pytest_crucible.guards.normalise import hash_text
from pytest_crucible.metrics.guards import read_expected
from pytest_crucible.records.datasets import label_number
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.store.experiments import load_experiments
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import load_exchanges

SCORE = "guard_score"


@dataclass(frozen=True, slots=True)
class BenignScores:
    """One score for each different benign text, or group of texts, of a run's candidate."""

    guard: str
    scores: list[float]
    texts: tuple[str, ...]
    """A hash of each benign text."""
    samples: int
    """Benign samples: of several with equal texts one is counted."""
    unit: str
    """`text`, or `group` where texts have groups: then a score is the highest of a group's."""


def read_benign_scores(store: RunStore, run: str) -> BenignScores:
    """Return the scores of all experiments of a run that judged a guard. Raises SpecError if none did."""
    units = _Units()
    guard, has_groups = "", False
    for stored in load_experiments(store, run):
        table = score_table(analysis_inputs(stored, stored.finished))
        if SCORE not in table.scores:
            continue
        guard = stored.plan.candidate.name.removeprefix("guard:")
        values = table.scores[SCORE][0].values
        has_groups = has_groups or table.clusters is not None
        for exchange in load_exchanges(store, stored.key, stored.plan, range(len(values))):
            value = float(values[exchange.position])
            if label_number(read_expected(exchange.expected)) == 0 and value == value:
                group = stored.groups[exchange.position] if table.clusters is not None else None
                units.add(hash_text(input_text(exchange.input)), group, value)
    if not guard:
        raise SpecError(
            f"run {run} has no {SCORE}: judge the guard first, pytest --crucible-adapter=guard:NAME, on labelled texts"
        )
    unit = "group" if has_groups else "text"
    return BenignScores(guard, units.read_scores(), tuple(units.unit_of_text), units.samples, unit)


class _Units:
    """Different texts, or groups of texts, with their highest scores. A second copy of a text shows nothing new.

    Groups that share a text are one.
    """

    def __init__(self) -> None:
        self.unit_of_text: dict[str, object] = {}
        self.samples = 0
        self._scores: dict[object, float] = {}
        self._joined: dict[object, object] = {}

    def add(self, text: str, group: object, score: float) -> None:
        unit = self._find(text if group is None else ("group", group))
        other = self._find(self.unit_of_text.setdefault(text, unit))
        if other != unit:
            self._joined[unit] = other
            score = max(score, self._scores.pop(unit, 0.0))
        self._scores[other] = max(score, self._scores.get(other, 0.0))
        self.samples += 1

    def read_scores(self) -> list[float]:
        return list(self._scores.values())

    def _find(self, unit: object) -> object:
        while unit in self._joined:
            unit = self._joined[unit]
        return unit
