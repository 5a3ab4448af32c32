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
from run_sizes import FULL, choose_runs
from session_evals import ALPHA, KINDS, QUESTIONS, answers, drawn, plan

from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.records import (
    Verdict,
)

pytestmark = pytest.mark.slow

SESSIONS = choose_runs(1000)


def most_red(number: int) -> float:
    return 0.06 if FULL else ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / number)


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

    assert red <= most_red(SESSIONS)
    assert claimed <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / SESSIONS)
    assert all(verdict.state != "undecided" for one in judged for verdict in one)


def test_one_true_regression_among_ten_is_found():
    """A fifth of the replies of one candidate turn wrong on 300 samples: 14 points, of which 12.6 can be seen."""
    number = choose_runs(600)
    judged = list(sessions(2, number, drop=0.2))
    found = told("found", sum("test_0" in missed(one) for one in judged), number)
    red = told("false regressions beside it", sum(bool(missed(one) - {"test_0"}) for one in judged), number)

    assert found >= 0.8
    assert red <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / number)


def test_lost_samples_raise_no_alarm():
    """3 % lost in each arm: what they might have been can take a verdict back, and never make one."""
    # Each takes three times as long, because the lost values are counted at both ends of their range too.
    number = SESSIONS if FULL else SESSIONS // 2
    judged = list(sessions(3, number, lost=0.03))
    red = told("false regressions with losses", sum(bool(missed(one)) for one in judged), number)
    undecided = [verdict.state == "undecided" for one in judged for verdict in one]
    told("undecided comparisons", sum(undecided), len(undecided))

    assert red <= most_red(number)


def test_lost_samples_hide_no_large_regression():
    number = choose_runs(400)
    judged = list(sessions(4, number, drop=0.3, lost=0.03))

    assert told("found in spite of losses", sum("test_0" in missed(one) for one in judged), number) >= 0.8
