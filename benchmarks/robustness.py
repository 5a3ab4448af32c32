"""What attacks cost: their texts, and the analysis of an experiment with many of them.

    python -m benchmarks.robustness

Exits 1 where a figure is over its limit.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.figures import Figure, show
from pytest_crucible.analyse.scores import scores
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.features.robustness.built_in import ROWS, make_attack
from pytest_crucible.features.robustness.drops import VariantData, compute_breakages, compute_drops
from pytest_crucible.features.robustness.records import PlannedAttack, Robustness
from pytest_crucible.features.robustness.twins import Draw
from pytest_crucible.records import (
    Arm,
    ArmOutcomes,
    Fingerprint,
    MetricFacts,
    Plan,
    PlannedVariant,
    Sample,
    ScoreColumns,
)
from pytest_crucible.records.serialize import to_plain

TEXTS, CHARACTERS = 1_000, 500
ATTACKS, SAMPLES = 25, 1_000
TEXTS_S, ANALYSIS_S = 2.0, 1.0
WORDS = "the teacher asked about several important answers because they usually receive 3 different results from this experiment "
FACTS = MetricFacts(name="ok", kind="binary", low=0.0, high=1.0)


def time_texts() -> float:
    """Return the seconds of CPU of all rule-based attacks on a thousand texts of 500 characters."""
    samples = [Sample(id=f"q{k}", input=f"{WORDS * 5}"[: CHARACTERS - 6] + f" {k}.") for k in range(TEXTS)]
    attacks = [attack for attack in map(make_attack, ROWS) if not attack.needs_model]
    draws = [Draw(attack=attack, strength=0.05, number=0, seed=0) for attack in attacks]
    started = time.process_time()
    # Sample by sample, as a session does.
    for sample in samples:
        for draw in draws:
            draw.twin(sample)
    return time.process_time() - started


def time_analysis() -> float:
    """Return the seconds of CPU of the drops and broken samples of 25 attacks, two arms and a thousand samples."""
    data = _data(np.random.default_rng(0))
    started = time.process_time()
    compute_drops(data, ["ok"])
    compute_breakages(data, ["ok"])
    return time.process_time() - started


def _data(draw: np.random.Generator) -> VariantData:
    names = [f"attack {k}" for k in range(ATTACKS)]
    attacks = tuple(PlannedAttack(name=name, attack=name, kind="characters", strength=0.05, draws=1) for name in names)
    variants = tuple(PlannedVariant(name=name, sha256="", samples=SAMPLES) for name in (*names, "control"))
    plan = Plan(
        nodeid="test.py::test", path="test.py", line=0, dataset="d", dataset_sha256="", planned=SAMPLES, selected=SAMPLES,
        groups=None, repeats=1, arms=tuple(_arm(name) for name in ("v2", "v1")), metrics=(FACTS,), targets=(), contrasts=(),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""), open_metrics=False, variants=variants,
        features={"robustness": to_plain(Robustness(attacks=attacks, controls=1))},
    )  # fmt: skip
    arms = tuple(_answers(draw) for _ in range(2))
    originals = tuple(scores(FACTS, arm, samples=SAMPLES, repeats=1) for arm in arms)
    of_variants = {variant.name: tuple(_answers(draw) for _ in range(2)) for variant in variants}
    return VariantData(plan, {"ok": FACTS}, {"ok": originals}, of_variants, SampleAttributes(), SAMPLES, 0.05)


def _arm(name: str) -> Arm:
    return Arm(name=name, role="candidate" if name == "v2" else "baseline", adapter=name, identity=name)


def _answers(draw: np.random.Generator) -> ArmOutcomes:
    values, places, zeros = (draw.random(SAMPLES) < 0.8).tolist(), list(range(SAMPLES)), [0] * SAMPLES
    column = ScoreColumns(positions=places, repeats=zeros, values=values, is_bool=[True] * SAMPLES)
    return ArmOutcomes(
        positions=places,
        repeats=zeros,
        failures=[None] * SAMPLES,
        skipped=[False] * SAMPLES,
        scores={"ok": column},
        lost=[],
    )


def figures() -> list[Figure]:
    """Return both figures, each the best of three."""
    texts, analysis = (min(measure() for _ in range(3)) for measure in (time_texts, time_analysis))
    return [
        Figure(
            name=f"all rule-based attacks on {TEXTS:,} texts of {CHARACTERS} characters",
            measured=texts,
            unit="s",
            limit=TEXTS_S,
            digits=2,
        ),
        Figure(
            name=f"{ATTACKS} attacks x 2 arms x {SAMPLES:,} samples analysed",
            measured=analysis,
            unit="s",
            limit=ANALYSIS_S,
            digits=2,
        ),
    ]


if __name__ == "__main__":
    raise SystemExit(show(figures()))
