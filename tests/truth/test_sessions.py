"""How often whole sessions are wrong when the truth is known: from answers through the analysis to the verdicts.

A session asks ten questions: six of bits, two of graded scores, two of bits in groups. Where nothing differs, both arms
draw from one law, which every sample has for itself. The promise is that such a session stays green with probability
0.95 at least; its limit here is 0.06, as 1,000 sessions leave a standard error of 0.007.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.records import (
    Arm,
    ArmOutcomes,
    Contrast,
    Fingerprint,
    Lost,
    MetricFacts,
    Plan,
    ScoreColumns,
    Unit,
    Verdict,
)

pytestmark = pytest.mark.slow

ALPHA = 0.05
SESSIONS = 1000
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
        ours, theirs = (np.round(rng.beta(1 + 4 * one, 1 + 4 * (1 - one)), 2) for one in chances)
    else:
        ours, theirs = ((rng.random(n) < one).astype(float) for one in chances)
    return np.where(rng.random(n) < drop, 0.0, ours), theirs, groups


def answers(values: np.ndarray, lost: np.ndarray, *, bits: bool) -> ArmOutcomes:
    kept = np.flatnonzero(~lost).tolist()
    zeros = [0] * len(kept)
    column = ScoreColumns(positions=kept, repeats=zeros, values=values[~lost].tolist(), is_bool=[bits] * len(kept))
    return ArmOutcomes(
        positions=kept,
        repeats=zeros,
        failures=[None] * len(kept),
        skipped=[False] * len(kept),
        scores={"score": column},
        lost=[Lost(Unit(k, 0, 0, 0), None, "error") for k in np.flatnonzero(lost).tolist()],
    )


def session(rng: np.random.Generator, *, drop: float = 0.0, lost: float = 0.0) -> tuple[Verdict, ...]:
    """Verdicts of ten experiments, of which the first has a true regression where `drop` is not 0."""
    analyses = []
    for number, kind in enumerate(KINDS):
        n = 300 if drop and not number else int(rng.integers(100, 301))
        *arms, groups = drawn(rng, kind, n, 0.0 if number else drop)
        given = AnalysisInputs(
            plan=plan(number, kind, n),
            answers=tuple(answers(one, rng.random(n) < lost, bits=kind != "shares") for one in arms),
            groups=groups,
            finished=True,
            known_kinds={},
        )
        analyses.append(analyse(given, score_table(given), alpha=ALPHA, family_size=QUESTIONS))
    return decide_verdicts(
        adjust_p_values(analyses, family_size=QUESTIONS), alpha=ALPHA, strict=False, family_size=QUESTIONS
    )


def sessions(seed: int, number: int, **facts: float) -> Iterator[tuple[Verdict, ...]]:
    rng = np.random.default_rng(seed)
    return (session(rng, **facts) for _ in range(number))


def missed(verdicts: tuple[Verdict, ...]) -> set[str]:
    return {one.nodeid for one in verdicts if one.state == "missed"}


def told(what: str, hits: int, runs: int) -> float:
    share = hits / runs
    print(f"{what}: {share:.4f} +- {math.sqrt(share * (1 - share) / runs):.4f} (standard error; of {runs})")
    return share


def test_where_nothing_differs_a_session_stays_green():
    """Both ends of the promise: no regression is claimed, and no difference at all."""
    judged = list(sessions(1, SESSIONS))
    red = told("false regressions", sum(bool(missed(one)) for one in judged), SESSIONS)
    claimed = told("false claims", sum(any(verdict.proven for verdict in one) for one in judged), SESSIONS)

    assert red <= 0.06
    assert claimed <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / SESSIONS)
    assert all(verdict.state != "undecided" for one in judged for verdict in one)


def test_one_true_regression_among_ten_is_found():
    """A fifth of the replies of one candidate turn wrong on 300 samples: 14 points, of which 12.6 can be seen."""
    number = 300
    judged = list(sessions(2, number, drop=0.2))
    found = told("found", sum("test_0" in missed(one) for one in judged), number)
    red = told("false regressions beside it", sum(bool(missed(one) - {"test_0"}) for one in judged), number)

    assert found >= 0.8
    assert red <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / number)


def test_lost_samples_raise_no_alarm():
    """3 % lost in each arm: what they might have been can take a verdict back, and never make one."""
    judged = list(sessions(3, SESSIONS, lost=0.03))
    red = told("false regressions with losses", sum(bool(missed(one)) for one in judged), SESSIONS)
    undecided = [verdict.state == "undecided" for one in judged for verdict in one]
    told("undecided comparisons", sum(undecided), len(undecided))

    assert red <= 0.06


def test_lost_samples_hide_no_large_regression():
    number = 200
    judged = list(sessions(4, number, drop=0.3, lost=0.03))

    assert told("found in spite of losses", sum("test_0" in missed(one) for one in judged), number) >= 0.8
