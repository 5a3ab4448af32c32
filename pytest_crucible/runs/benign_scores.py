"""The scores that a guard gave the benign samples of a stored run."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_crucible.adapters.guard import input_text
from pytest_crucible.analyse.analysis import score_table
from pytest_crucible.guards.thresholds import hash_text
from pytest_crucible.metrics.guards import read_expected
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.labels import label_number
from pytest_crucible.runs.evaluate import analysis_inputs
from pytest_crucible.store.experiments import load_experiments
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.sample_rows import load_exchanges

SCORE = "guard_score"


@dataclass(frozen=True, slots=True)
class BenignScores:
    """One score for each benign text, or group of texts, of a run's candidate."""

    guard: str
    scores: list[float]
    texts: tuple[str, ...]
    """A hash of each benign text."""
    unit: str
    """`text`, or `group` where texts have groups: then a score is the highest of a group's."""


def read_benign_scores(store: RunStore, run: str) -> BenignScores:
    """Return the scores of all experiments of a run that judged a guard. Raises SpecError if none did."""
    scores: dict[object, float] = {}
    texts: list[str] = []
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
                unit = (
                    stored.groups[exchange.position] if table.clusters is not None else (stored.key, exchange.position)
                )
                scores[unit] = max(value, scores.get(unit, 0.0))
                texts.append(hash_text(input_text(exchange.input)))
    if not guard:
        raise SpecError(
            f"run {run} has no {SCORE}: judge the guard first, pytest --crucible-adapter=guard:NAME, on labelled texts"
        )
    return BenignScores(guard, list(scores.values()), tuple(dict.fromkeys(texts)), "group" if has_groups else "text")
