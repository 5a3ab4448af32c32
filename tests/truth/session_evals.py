"""Sessions of ten experiments whose truth is known: six of bits, two of graded scores, two of bits in groups.

Where nothing differs, both arms draw from one law, which every sample has for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.analyse.stopping import in_order, stop_early
from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.plan.arms import look_order
from pytest_crucible.plan.design import look_alpha
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Analysis,
    Arm,
    ArmOutcomes,
    Contrast,
    Fingerprint,
    Lost,
    MetricFacts,
    Plan,
    ScoreColumns,
    State,
    Unit,
    Verdict,
)

ALPHA = 0.05
QUESTIONS = 10
KINDS = ["bits"] * 6 + ["shares"] * 2 + ["groups"] * 2
ARMS = (
    Arm(name="v2", role="candidate", adapter="v2", identity="2"),
    Arm(name="v1", role="baseline", adapter="v1", identity="1"),
)
FACTS = {
    "bits": MetricFacts(name="score"),
    "groups": MetricFacts(name="score"),
    "shares": MetricFacts(name="score", kind="bounded", low=0.0, high=1.0),
}


def plan(number: int, kind: str, n: int) -> Plan:
    return Plan(
        nodeid=f"test_{number}", path="t.py", line=1, dataset="d", dataset_sha256="d", planned=n, selected=n,
        groups=None, repeats=1, arms=ARMS, metrics=(FACTS[kind],), targets=(),
        contrasts=(Contrast(metric="score", baseline="v1"),), open_metrics=False,
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
    )  # fmt: skip


def drawn(rng: np.random.Generator, kind: str, n: int, drop: float) -> tuple[np.ndarray, np.ndarray, list[str | None]]:
    """Candidate, baseline, and each sample's group. A drop is the share of right answers that the candidate loses."""
    groups: list[str | None] = [None] * n
    chance, shift = rng.beta(1.4, 0.6, n), np.zeros(n)
    if kind == "groups":
        of = rng.integers(0, n // 5, n)
        groups = [f"passage {k}" for k in of]
        chance = rng.beta(1.4, 0.6, n // 5)[of]
        shift = rng.normal(0, 0.1, n // 5)[of]  # a passage suits one arm better than the other, by chance
    chances = np.clip(chance + shift, 0, 1), np.clip(chance - shift, 0, 1)
    if kind == "shares":
        ours, theirs = (np.round(rng.beta(1 + 4 * chance, 1 + 4 * (1 - chance)), 2) for chance in chances)
    else:
        ours, theirs = ((rng.random(n) < chance).astype(float) for chance in chances)
    return np.where(rng.random(n) < drop, 0.0, ours), theirs, groups


def answers(values: np.ndarray, lost: np.ndarray, *, bits: bool) -> ArmOutcomes:
    positions = np.flatnonzero(~lost).tolist()
    zeros = [0] * len(positions)
    column = ScoreColumns(
        positions=positions, repeats=zeros, values=values[~lost].tolist(), is_bool=[bits] * len(positions)
    )
    return ArmOutcomes(
        positions=positions,
        repeats=zeros,
        failures=[None] * len(positions),
        skipped=[False] * len(positions),
        scores={"score": column},
        lost=[Lost(Unit(k, 0, 0, 0), None, "error") for k in np.flatnonzero(lost).tolist()],
    )


# -- runs with looks ------------------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """A session: its verdicts, and the share of its samples that it needed."""

    verdicts: tuple[Verdict, ...]
    needed: float


def session(rng: np.random.Generator, *, lost: float = 0.0) -> Ended:
    """Ten experiments with one comparison each, of an arm that is as good as the baseline."""
    plans = [plan(k, kind, int(rng.integers(100, 301))) for k, kind in enumerate(KINDS)]
    alpha = look_alpha(plans, ALPHA)
    ended = [
        _run(rng, replace(plan, look_alpha=alpha), kind, lost=lost) for plan, kind in zip(plans, KINDS, strict=True)
    ]
    needed = float(np.mean([share for _, share in ended]))
    return Ended(_decide([analysis for analysis, _ in ended]), needed)


def one_claim(
    rng: np.random.Generator, kind: str, n: int, *, drop: float = 0.0, target: float | None = None
) -> tuple[State, bool, float]:
    """A session with one claim: its state, whether it is proven, and the share of the samples that it needed."""
    look_plan = replace(plan(0, kind, n), look_alpha=ALPHA)
    if target is not None:
        look_plan = replace(look_plan, targets=(parse_target(f"score >= {target!r}"),), contrasts=())
    analysis, share = _run(rng, look_plan, kind, drop=drop)
    (verdict,) = _decide([analysis])
    return verdict.state, verdict.proven, share


def fixed_claim(rng: np.random.Generator, kind: str, n: int, *, drop: float = 0.0) -> tuple[State, bool]:
    """The same comparison in a run without looks: its state, and whether it is proven."""
    *arms, groups = drawn(rng, kind, n, drop)
    inputs = _inputs(plan(0, kind, n), arms, [np.zeros(n, dtype=bool)] * 2, groups, kind)
    (verdict,) = _decide([analyse(inputs, score_table(inputs), alpha=ALPHA, family_size=1)])
    return verdict.state, verdict.proven


def _run(
    rng: np.random.Generator, look_plan: Plan, kind: str, *, drop: float = 0.0, lost: float = 0.0
) -> tuple[Analysis, float]:
    """Return the analysis at the end of one experiment, and the share of the samples that it needed."""
    n, alpha = look_plan.planned, look_plan.look_alpha or ALPHA
    *arms, groups = drawn(rng, kind, n, drop)
    gone = [rng.random(n) < lost for _ in arms]
    inputs = _inputs(look_plan, arms, gone, groups, kind)
    ids = [str(number) for number in rng.integers(2**60, size=n)]
    ended = stop_early(inputs, look_order(ids, groups), alpha)
    looked_at = ended.looked_at or []
    table = in_order(score_table(ended), looked_at, alpha)
    return analyse(ended, table, alpha=ALPHA, family_size=QUESTIONS), len(looked_at) / n


def _inputs(
    look_plan: Plan, arms: Sequence[np.ndarray], gone: Sequence[np.ndarray], groups: Sequence[str | None], kind: str
) -> AnalysisInputs:
    return AnalysisInputs(
        plan=look_plan,
        answers=tuple(answers(values, flags, bits=kind != "shares") for values, flags in zip(arms, gone, strict=True)),
        groups=groups,
        finished=True,
        known_kinds={},
    )


def _decide(analyses: list[Analysis]) -> tuple[Verdict, ...]:
    size = len(analyses)
    return decide_verdicts(adjust_p_values(analyses, family_size=size), alpha=ALPHA, strict=True, family_size=size)


def mean_score(kind: str) -> float:
    """The true mean of an experiment's scores."""
    rng = np.random.default_rng(0)
    return float(np.mean(drawn(rng, kind, 400_000, 0.0)[0]))
