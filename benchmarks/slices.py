"""What slices cost: all parities of 100,000 decisions in ten slices, and a search over 10,000 samples x 200 slices."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from benchmarks.figures import Figure, show
from pytest_crucible import fairness
from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.features.slices.section import compute
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Arm, ArmOutcomes, Fingerprint, Plan, ScoreColumns
from pytest_crucible.sections.inputs import NoStoredDetails, section_inputs
from pytest_crucible.stats.slices.search import PERMUTATIONS, search_slices

SAMPLES, SLICES = 100_000, 10
SEARCHED, CANDIDATES = 10_000, 200
PARITIES_S, SEARCH_S = 1.0, 5.0
REPEATS = 3
PARITIES = (
    *(fairness.demographic_parity, fairness.disparate_impact, fairness.equalized_odds),
    *(fairness.equal_opportunity, fairness.predictive_parity, fairness.calibration),
)


def figures() -> Iterator[Figure]:
    inputs = parity_inputs()
    table = score_table(inputs)
    yield Figure(
        name=f"all parities, {SAMPLES:,} samples, {SLICES} slices",
        measured=_least(lambda: analyse(inputs, replace(score_table(inputs)), alpha=0.05, family_size=1).targets)
        - _least(lambda: score_table(replace(inputs, plan=replace(inputs.plan, targets=())))),
        unit="s",
        limit=PARITIES_S,
        digits=2,
    )
    sections = section_inputs(inputs, table, NoStoredDetails(), alpha=0.05)
    yield Figure(name="- their section of a report", measured=_least(lambda: compute(sections)), unit="s", digits=2)
    rng = np.random.default_rng(0)
    members = rng.random((SEARCHED, CANDIDATES)) < rng.uniform(0.01, 0.5, CANDIDATES)
    differences = rng.choice([-1.0, 0.0, 1.0], SEARCHED)
    yield Figure(
        name=f"search, {SEARCHED:,} samples x {CANDIDATES} slices x {PERMUTATIONS:,} permutations",
        measured=_least(lambda: search_slices(differences, members)),
        unit="s",
        limit=SEARCH_S,
        digits=2,
    )


def parity_inputs() -> AnalysisInputs:
    """Return decisions of one arm with stated probabilities, by a field of ten values."""
    rng = np.random.default_rng(1)
    selected, deserving = rng.random(SAMPLES) < 0.4, rng.random(SAMPLES) < 0.5
    stated, missing = rng.random(SAMPLES), np.full(SAMPLES, None, dtype=object)
    columns = {
        "selected": selected.astype(object),
        "true_positive": np.where(deserving, selected, missing),
        "false_positive": np.where(deserving, missing, selected),
        "right_if_selected": np.where(selected, deserving, missing),
        "correct": (selected == deserving).astype(object),
        "overconfidence": (stated - deserving).astype(object),
        "stated_probability": stated.astype(object),
    }
    positions, zeros = list(range(SAMPLES)), [0] * SAMPLES
    answers = ArmOutcomes(
        positions=positions,
        repeats=zeros,
        failures=[None] * SAMPLES,
        skipped=[False] * SAMPLES,
        scores={
            name: ScoreColumns(
                positions=positions,
                repeats=zeros,
                values=[None if value is None else float(value) for value in column.tolist()],
                is_bool=[name not in ("overconfidence", "stated_probability")] * SAMPLES,
            )
            for name, column in columns.items()
        },
        lost=[],
    )
    metrics = tuple(
        metric.facts for metric in fairness.decision(str, favourable="yes", confidence=str) if metric.name in columns
    )
    plan = Plan(
        nodeid="t.py::t", path="t.py", line=1, dataset="d", dataset_sha256="d", planned=SAMPLES, selected=SAMPLES,
        groups=None, repeats=1, arms=(Arm(name="v2", role="candidate", adapter="v2", identity="v2"),), metrics=metrics,
        targets=tuple(parse_target(parity(by="field")) for parity in PARITIES), contrasts=(), open_metrics=False,
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
    )  # fmt: skip
    metadata = [{"field": f"value {number}"} for number in rng.integers(0, SLICES, SAMPLES).tolist()]
    return AnalysisInputs(
        plan=plan, answers=(answers,), groups=[None] * SAMPLES, finished=True, known_kinds={}, metadata=metadata,
        expected=[None] * SAMPLES,
    )  # fmt: skip


def _least(call: Callable[[], object]) -> float:
    """Return the least CPU time of a few calls: whatever else the machine does only adds."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    sys.exit(show(figures()))
