"""Error rates of whole sessions with a known truth, from replies through the analysis to the verdicts.

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
        analysis_inputs = AnalysisInputs(
            plan=plan(number, kind, n),
            answers=tuple(answers(arm, rng.random(n) < lost, bits=kind != "shares") for arm in arms),
            groups=groups,
            finished=True,
            known_kinds={},
        )
        analyses.append(analyse(analysis_inputs, score_table(analysis_inputs), alpha=ALPHA, family_size=QUESTIONS))
    return decide_verdicts(
        adjust_p_values(analyses, family_size=QUESTIONS), alpha=ALPHA, strict=False, family_size=QUESTIONS
    )


def sessions(seed: int, number: int, **facts: float) -> Iterator[tuple[Verdict, ...]]:
    rng = np.random.default_rng(seed)
    return (session(rng, **facts) for _ in range(number))


def missed_tests(verdicts: tuple[Verdict, ...]) -> set[str]:
    return {verdict.nodeid for verdict in verdicts if verdict.state == "missed"}


def print_share(what: str, hits: int, runs: int) -> float:
    share = hits / runs
    print(f"{what}: {share:.4f} +- {math.sqrt(share * (1 - share) / runs):.4f} (standard error; of {runs})")
    return share


def test_where_nothing_differs_a_session_stays_green():
    """Both ends of the promise: no regression is claimed, and no difference at all."""
    judged = list(sessions(1, SESSIONS))
    red = print_share("false regressions", sum(bool(missed_tests(entry)) for entry in judged), SESSIONS)
    claimed = print_share("false claims", sum(any(verdict.proven for verdict in entry) for entry in judged), SESSIONS)

    assert red <= most_red(SESSIONS)
    assert claimed <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / SESSIONS)
    assert all(verdict.state != "undecided" for entry in judged for verdict in entry)


def test_one_true_regression_among_ten_is_found():
    """A fifth of the replies of one candidate turn wrong on 300 samples: 14 points, of which 12.6 can be seen."""
    number = choose_runs(600)
    judged = list(sessions(2, number, drop=0.2))
    share = print_share("found", sum("test_0" in missed_tests(entry) for entry in judged), number)
    red = print_share(
        "false regressions beside it", sum(bool(missed_tests(entry) - {"test_0"}) for entry in judged), number
    )

    assert share >= 0.8
    assert red <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / number)


def test_lost_samples_raise_no_alarm():
    """3 % lost in each arm: what they might have been can take a verdict back, and never make one."""
    # Each takes three times as long, because the lost values are counted at both ends of their range too.
    number = SESSIONS if FULL else SESSIONS // 2
    judged = list(sessions(3, number, lost=0.03))
    red = print_share("false regressions with losses", sum(bool(missed_tests(entry)) for entry in judged), number)
    undecided = [verdict.state == "undecided" for entry in judged for verdict in entry]
    print_share("undecided comparisons", sum(undecided), len(undecided))

    assert red <= most_red(number)


def test_lost_samples_hide_no_large_regression():
    number = choose_runs(400)
    judged = list(sessions(4, number, drop=0.3, lost=0.03))

    assert (
        print_share("found in spite of losses", sum("test_0" in missed_tests(entry) for entry in judged), number) >= 0.8
    )
