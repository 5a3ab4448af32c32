"""How often the answers of `stats` are wrong where the truth is known: false alarms, coverage, power, one-sided errors.

    python -m benchmarks.calibration [--replicates 800] [--seed 0]

Prints four tables in markdown, from the evaluations of `tests/truth/evals.py`. A cell is liberal, and bold, when even the
lower 99.5 % bound of an error rate is above its limit, or the upper one of a coverage below; then the exit status is 1.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from tabulate import tabulate

from pytest_crucible import stats
from tests.truth.evals import EVALS, GATES, TRUTHS, Array, Drawn, Eval, Truth

REPLICATES = 800
ALPHA = 0.05
SIZES, GATED_SIZES = (10, 30, 100, 1000), (20, 50, 100, 200, 500)
ERRORS, COVERAGE = 0.06, 0.93
"""Most false alarms and errors of one-sided bounds at a nominal .05, and least coverage at a nominal .95."""
SHOWN = 0.88
"""Least coverage of one arm's interval, by which nothing is decided: ten skewed values do not show their tail."""
ROUNDING = 1e-9
"""A bound this near to the truth is not beyond it."""


@dataclass(frozen=True, slots=True)
class Share:
    """How often something happened among so many. Over its limit (or under it) by more than chance it is liberal."""

    count: int = 0
    of: int = 0
    most: float = 1.0
    least: float = 0.0

    @property
    def value(self) -> float:
        return self.count / self.of if self.of else math.nan

    @property
    def liberal(self) -> bool:
        if not self.of:
            return False
        interval = stats.wilson_interval(self.count, self.of, level=0.99)
        return interval.low > self.most or interval.high < self.least

    def __str__(self) -> str:
        shown = f"{self.value:.3f}".removeprefix("0") if self.of else ""
        return f"**{shown}**" if self.liberal else shown


@dataclass(frozen=True, slots=True)
class Line:
    """What one method does to one evaluation of n samples."""

    method: str
    shares: tuple[Share, ...]
    microseconds: float | None = None

    def cells(self, evaluation: str, n: int) -> list[str]:
        liberal = "liberal" if any(share.liberal for share in self.shares) else ""
        took = [] if self.microseconds is None else [f"{self.microseconds:,.0f}"]
        return [evaluation, f"{n:,}", self.method, *map(str, self.shares), *took, liberal]


@dataclass(frozen=True, slots=True)
class Task:
    """A line that is still to be found."""

    table: str
    evaluation: str
    n: int
    replicates: int
    seed: int

    def drawn(self, known: Eval, truth: Truth, *, paired: bool = True) -> Drawn:
        """The same numbers wherever the same is asked again."""
        rng = np.random.default_rng([self.seed, crc32(self.evaluation.encode()), self.n, TRUTHS.index(truth)])
        return known.draw(rng, self.replicates, self.n, truth, paired=paired)


# -- comparisons ---------------------------------------------------------------------------------------------------


def pairs(task: Task) -> Line:
    return _compared(task, paired=True)


def two_arms(task: Task) -> Line:
    return _compared(task, paired=False)


def _compared(task: Task, *, paired: bool) -> Line:
    known, answers, spent = EVALS[task.evaluation], [], 0.0
    drawings = [task.drawn(known, truth, paired=paired) for truth in TRUTHS]
    for drawn in drawings:
        facts = {**known.declared, "clusters": _labels(drawn, paired), "estimand": known.estimand}
        started = time.process_time()
        answers.append([stats.compare(candidate, baseline, paired, **facts) for candidate, baseline in _runs(drawn)])
        spent += time.process_time() - started
    null, shaped, effect = map(_significant, answers)
    coverages = [_covered(each, drawn.truth) for each, drawn in zip(answers, drawings, strict=True)]
    every = [answer for each in answers for answer in each]
    shares = (
        Share(*null, most=ERRORS),
        Share(*shaped, most=ERRORS),
        min(coverages, key=lambda share: share.value),
        Share(*effect),
        Share(sum(answer.p_value is None for answer in every), len(every)),
        Share(sum(map(_contradicts, every)), len(every), most=0.0),
    )
    return Line(every[0].method, shares, 1e6 * spent / len(every))


def _runs(drawn: Drawn) -> Iterable[tuple[Array, Array]]:
    return zip(drawn.candidate, drawn.baseline, strict=True)


def _labels(drawn: Drawn, paired: bool) -> Any:
    """Arms that are not paired saw other passages."""
    if drawn.clusters is None or paired:
        return drawn.clusters
    return drawn.clusters + drawn.clusters.size, drawn.clusters


def _significant(answers: Sequence[stats.ComparisonResult]) -> tuple[int, int]:
    return sum(answer.significant for answer in answers), sum(answer.p_value is not None for answer in answers)


def _covered(
    answers: Sequence[stats.ComparisonResult | stats.EstimateResult], truth: float, least: float = COVERAGE
) -> Share:
    intervals = [answer.interval for answer in answers if answer.interval is not None]
    covered = sum(interval.low - ROUNDING <= truth <= interval.high + ROUNDING for interval in intervals)
    return Share(covered, len(intervals), least=least)


def _contradicts(answer: stats.ComparisonResult) -> bool:
    """An interval that has "no difference" in it beside a small p, or the other way round."""
    if answer.interval is None or answer.p_value is None:
        return False
    return answer.significant == (answer.interval.low <= answer.no_difference <= answer.interval.high)


# -- one arm, and one-sided bounds ---------------------------------------------------------------------------------


def one_arm(task: Task) -> Line:
    """The means of the arms that differ in shape alone."""
    known, answers, shares, spent = EVALS[task.evaluation], [], [], 0.0
    for truth in TRUTHS[:2]:
        drawn = task.drawn(known, truth)
        started = time.process_time()
        answers = [stats.estimate(row, **known.declared, clusters=drawn.clusters) for row in drawn.candidate]
        spent += time.process_time() - started
        shares.append(_covered(answers, known.candidates[truth].law.mean, SHOWN))
    return Line(answers[0].method, tuple(shares), 1e6 * spent / task.replicates / 2)


def bounds(task: Task) -> Line:
    """How often a lower bound passes what is only just not good enough: a margin of pairs, of two arms, a target."""
    known = GATES[task.evaluation]
    drawn, apart = task.drawn(known, "an effect"), task.drawn(known, "an effect", paired=False)
    mean = known.candidates["an effect"].law.mean
    facts = {**known.declared, "clusters": drawn.clusters}
    of_pairs = _passes(drawn, drawn.truth, _low_of_pairs, facts)
    of_arms = _passes(apart, apart.truth, _low_of_two_arms, {**facts, "clusters": _labels(apart, False)})
    of_one = _passes(drawn, mean, _low_of_one_arm, facts)
    shares = [of_pairs[0], of_arms[0], of_one[0], Share(), Share()]
    if not known.clustered:  # no method guarantees bounds under clusters
        guaranteed = {**facts, "validity": "guaranteed"}
        shares[3] = _passes(drawn, drawn.truth, _low_of_pairs, guaranteed)[0]
        shares[4] = _passes(drawn, mean, _low_of_one_arm, guaranteed)[0]
    return Line("; ".join((of_pairs[1], of_arms[1], of_one[1])), tuple(shares))


def _low_of_pairs(candidate: Array, baseline: Array, facts: dict[str, Any]) -> tuple[float | None, str]:
    found = stats.difference_bounds(candidate, baseline, **facts)
    return found.low, found.method


def _low_of_two_arms(candidate: Array, baseline: Array, facts: dict[str, Any]) -> tuple[float | None, str]:
    found = stats.difference_bounds(candidate, baseline, False, **facts)
    return found.low, found.method


def _low_of_one_arm(candidate: Array, _: Array, facts: dict[str, Any]) -> tuple[float | None, str]:
    found = stats.mean_bound(candidate, **facts)
    return found.value, found.method


def _passes(
    drawn: Drawn, truth: float, low: Callable[..., tuple[float | None, str]], facts: dict[str, Any]
) -> tuple[Share, str]:
    """How often the bound is above the truth, and the method that gave it."""
    answers = [low(*arms, facts) for arms in _runs(drawn)]
    known = [value for value, _ in answers if value is not None]
    return Share(sum(value > truth + ROUNDING for value in known), len(known), most=ERRORS), answers[0][1]


# -- all of it -----------------------------------------------------------------------------------------------------

COMPARED = ("exchangeable", "other shape", "coverage", "power", "refused", "contradictions", "us")
DIFFERENCES = [name for name, known in EVALS.items() if known.estimand == "difference"]
TABLES: dict[str, tuple[Callable[[Task], Line], Sequence[str], Sequence[int], Sequence[str]]] = {
    "Pairs": (pairs, list(EVALS), SIZES, COMPARED),
    "Independent arms": (two_arms, list(EVALS), SIZES, COMPARED),
    "One arm, coverage": (one_arm, DIFFERENCES, SIZES, ("coverage", "other shape", "us")),
    "One-sided bounds beyond the truth": (
        bounds,
        list(GATES),
        GATED_SIZES,
        ("pairs", "two arms", "one arm", "pairs, guaranteed", "one arm, guaranteed"),
    ),
}
"""Under each heading what finds a line, of which evaluations, of how many samples, and what its columns are."""


def tasks(replicates: int, seed: int) -> list[Task]:
    return [
        Task(table, evaluation, n, replicates, seed)
        for table, (_, evaluations, sizes, _) in TABLES.items()
        for evaluation in evaluations
        for n in sizes
    ]


def found(task: Task) -> Line:
    return TABLES[task.table][0](task)


def main() -> int:
    parser = argparse.ArgumentParser(description=next(iter(__doc__.splitlines())))
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    todo = sorted(tasks(asked.replicates, asked.seed), key=lambda task: -task.n)  # the long ones first
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        lines = dict(zip(todo, workers.map(found, todo), strict=True))
    error = math.sqrt(ALPHA * (1 - ALPHA) / asked.replicates)
    print(f"{asked.replicates:,} replicates, seed {asked.seed}; standard error of a rate of .05: {error:.4f}")
    for table, (*_, columns) in TABLES.items():
        rows = [
            lines[task].cells(task.evaluation, task.n)
            for task in tasks(asked.replicates, asked.seed)
            if task.table == table
        ]
        headers = ("evaluation", "n", "method", *columns, "")
        align = ("left", "right", "left", *("right" for _ in columns), "left")
        print(f"\n### {table}\n")
        print(tabulate(rows, headers=headers, tablefmt="github", colalign=align, disable_numparse=True))
    return int(any(share.liberal for line in lines.values() for share in line.shares))


if __name__ == "__main__":
    raise SystemExit(main())
