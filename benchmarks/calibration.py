"""How often the answers of `stats` are wrong where the truth is known: false alarms, coverage, power, one-sided errors.

    python -m benchmarks.calibration [--replicates 800] [--seed 0] [--sizes]

Prints fourteen tables in markdown, with the worst of all sizes, or with `--sizes` a row for each, from the
evaluations of `tests/truth/evals.py`, the replies of `tests/truth/reply_evals.py`, the prompts and rounds of
`tests/truth/factor_evals.py`, the sessions of `tests/truth/families.py`, the series of sessions of
`tests/truth/rerun_evals.py`, the arms of `tests/truth/sweep_evals.py`, the grids of `tests/truth/setting_evals.py`,
the plans of `tests/truth/printed_power.py` and the relevant differences of `tests/truth/relevance.py`.
A cell is liberal, and bold, when even the lower 99.5 % bound of an error rate is above its limit, or the upper one of a
coverage below; then the exit status is 1.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any
from zlib import crc32

import numpy as np
from tabulate import tabulate

from benchmarks.factors import ALARM_HEADS, alarm_rows
from benchmarks.many_arms import CHOSEN_HEADS, RANK_HEADS, SETTING_HEADS, chosen_rows, rank_rows, setting_rows
from benchmarks.shares import Pick, Share, largest, smallest, worst_of_sizes
from pytest_crucible import stats
from pytest_crucible.stats.comparing import compare_declared_arms
from pytest_crucible.stats.inputs import OPEN, Arms, declare_arms, declare_pairs
from pytest_crucible.stats.proportions.exact import two_exact_p_value
from pytest_crucible.stats.resampling.draws import MonteCarlo
from tests.truth import exact_rates
from tests.truth.evals import EVALS, GATES, TRUTHS, Array, Drawn, Eval, Truth
from tests.truth.families import FAMILIES
from tests.truth.printed_power import EVALUATIONS, power_at_the_printed_value
from tests.truth.relevance import RELEVANT, Shares, shares
from tests.truth.reply_evals import reply_rows
from tests.truth.rerun_evals import HOW, WHEN, rerun_rows
from tests.truth.session_evals import mean_score, one_claim

REPLICATES = 800
ALPHA = 0.05
SIZES, GATED_SIZES = (10, 30, 100, 1000), (20, 50, 100, 200, 500)
SESSIONS = 4000
"""Sessions of a family: cheap, because their estimates are drawn and not computed from samples."""
PRINTED = 2400
"""Runs that are planned again from what a first run says it can detect."""
REPLIES = 400
"""Runs with five replies to each sample: a bound of a percentile is searched for, and its p-value by bounds."""
ERRORS, COVERAGE = 0.06, 0.93
"""Most false alarms and errors of one-sided bounds at a nominal .05, and least coverage at a nominal .95."""
SHOWN = 0.88
"""Least coverage of one arm's interval, by which nothing is decided: ten skewed values do not show their tail."""
FEW_DRAWS = 999
"""Random arrangements of a permutation test: with the observed one 1,000, of which alpha is a whole number."""
ROUNDING = 1e-9
"""A bound this near to the truth is not beyond it."""


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
    # The melded bounds of two arms of scores take a tenth of a second.
    return _compared(replace(task, replicates=max(1, task.replicates // 8)), paired=False)


def _compared(task: Task, *, paired: bool) -> Line:
    known, answers, spent = EVALS[task.evaluation], [], 0.0
    drawings = [task.drawn(known, truth, paired=paired) for truth in TRUTHS]
    for drawn in drawings:
        arms = _declare(known, drawn, paired)
        started = time.process_time()
        answers.append([_compare(each, known) for each in arms])
        spent += time.process_time() - started
    null, _, effect = map(_significant, answers)
    shaped = _proven(answers[1])
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


def _declare(known: Eval, drawn: Drawn, paired: bool) -> list[Arms]:
    """Return the arms of each run; permutation tests have a seed of their own, and few draws."""
    declare = declare_pairs if paired else declare_arms
    facts = {
        "kind": known.kind,
        "bounds": OPEN if known.bounds is None else known.bounds,
        "clusters": _labels(drawn, paired),
    }
    return [
        replace(
            declare(*map(_average, arms), **facts),
            monte_carlo=MonteCarlo(seed=seed, draws=FEW_DRAWS, finest=1 / (FEW_DRAWS + 1)),
        )
        for seed, arms in enumerate(_runs(drawn))
    ]


def _average(scores: Array) -> Array:
    """Return the means over the repeats of each sample, where there are some."""
    return scores.mean(axis=1) if scores.ndim == 2 else scores


def _compare(arms: Arms, known: Eval) -> stats.ComparisonResult:
    return compare_declared_arms(arms, alternative="two-sided", alpha=ALPHA, estimand=known.estimand)


def _runs(drawn: Drawn) -> Iterable[tuple[Array, Array]]:
    return zip(drawn.candidate, drawn.baseline, strict=True)


def _labels(drawn: Drawn, paired: bool) -> Any:
    """Arms that are not paired saw other passages."""
    if drawn.clusters is None or paired:
        return drawn.clusters
    return drawn.clusters + drawn.clusters.size, drawn.clusters


def _significant(answers: Sequence[stats.ComparisonResult]) -> tuple[int, int]:
    return sum(answer.significant for answer in answers), sum(answer.p_value is not None for answer in answers)


def _proof_p(answer: stats.ComparisonResult) -> float | None:
    """Return the p-value of the interval's own method, which claims that the means differ."""
    return answer.p_value if answer.alikeness is None else answer.proof_p


def _proven(answers: Sequence[stats.ComparisonResult]) -> tuple[int, int]:
    p_values = [p_value for p_value in map(_proof_p, answers) if p_value is not None]
    return sum(p_value <= ALPHA for p_value in p_values), len(p_values)


def _covered(
    answers: Sequence[stats.ComparisonResult | stats.EstimateResult], truth: float, least: float = COVERAGE
) -> Share:
    intervals = [answer.interval for answer in answers if answer.interval is not None]
    covered = sum(interval.low - ROUNDING <= truth <= interval.high + ROUNDING for interval in intervals)
    return Share(covered, len(intervals), least=least)


def _contradicts(answer: stats.ComparisonResult) -> bool:
    """An interval that has "no difference" in it beside a small p of its own method, or the other way round."""
    proof_p = _proof_p(answer)
    if answer.interval is None or proof_p is None:
        return False
    return (proof_p <= ALPHA) == (answer.interval.low <= answer.no_difference <= answer.interval.high)


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
    guaranteed = {**facts, "validity": "guaranteed"}
    shares = [
        of_pairs[0],
        of_arms[0],
        of_one[0],
        _passes(drawn, drawn.truth, _low_of_pairs, guaranteed)[0],
        _passes(drawn, mean, _low_of_one_arm, guaranteed)[0],
    ]
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

COMPARED = ("exchangeable", "proven, other shape", "coverage", "power", "refused", "contradictions", "us")
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
AT_100: Pick = itemgetter(SIZES.index(100))
ERRORS_OF_PAIRS = {3: largest, 4: largest, 5: smallest, 6: AT_100}
WORST: dict[str, dict[int, Pick]] = {
    "Pairs": ERRORS_OF_PAIRS,
    "Independent arms": ERRORS_OF_PAIRS,
    "One arm, coverage": {3: smallest, 4: smallest},
    "One-sided bounds beyond the truth": dict.fromkeys(range(3, 8), largest),
}
"""Columns of a line that its table shows of all sizes: the largest error, the least coverage, the power of 100 samples."""


def tasks(replicates: int, seed: int) -> list[Task]:
    return [
        Task(table, evaluation, n, replicates, seed)
        for table, (_, evaluations, sizes, _) in TABLES.items()
        for evaluation in evaluations
        for n in sizes
    ]


def found(task: Task) -> Line:
    return TABLES[task.table][0](task)


def _family_rows(seed: int) -> list[list[str]]:
    """Return a line of each family of `tests/truth/families.py`, each from draws of its own."""
    lines = ((name, family, family.share(SESSIONS, seed + crc32(name.encode()))) for name, family in FAMILIES.items())
    return [[name, family.looked_for, f"{share:.3f}".removeprefix("0")] for name, family, share in lines]


def _power_rows(seed: int) -> list[list[str]]:
    """Return a line of each evaluation of `tests/truth/printed_power.py`."""
    lines = ((name, power_at_the_printed_value(name, PRINTED, seed + crc32(name.encode()))) for name in EVALUATIONS)
    return [[name, *(f"{share:.3f}".removeprefix("0") for share in shares)] for name, shares in lines]


RELEVANT_HEADS = (
    "evaluation", "n", "not worse, at -relevant", "equivalent, at -relevant", "equivalent, at +relevant",
    "missed without, equal", "missed, equal", "equivalent, equal", "missed without, at -1/5", "missed, at -1/5",
    "missed without, at -2", "missed, at -2",
)  # fmt: skip
"""What is decided, and the true difference as a multiple of the relevant one."""


def _relevance_rows(replicates: int, seed: int) -> list[list[str]]:
    """Return a line of each evaluation and size of `tests/truth/relevance.py`."""
    return [
        [name, str(n), *(f"{share:.3f}".removeprefix("0") for share in _relevance_cells(name, n, replicates, seed))]
        for name in RELEVANT
        for n in (50, 200, 500)
    ]


def _relevance_cells(name: str, n: int, replicates: int, seed: int) -> list[float]:
    def at(truth: float) -> Shares:
        return shares(RELEVANT[name], n, truth, replicates, seed + crc32(f"{name} {truth}".encode()))

    worse, better, equal, fifth, twice = map(at, (-1.0, 1.0, 0.0, -0.2, -2.0))
    cells = [worse.not_worse, worse.equivalent, better.equivalent, equal.missed_without, equal.missed, equal.equivalent]
    return [*cells, fifth.missed_without, fifth.missed, twice.missed_without, twice.missed]


EXACT_ALPHAS = (0.05, 0.01, 0.005)


def _exact_rows() -> list[list[str]]:
    """Return the largest error rates over all true rates, by enumeration: nothing is drawn."""
    cases: list[tuple[str, str, Callable[[Any, exact_rates.Alphas], list[float]], Sequence[Any]]] = [
        ("equal pairs told apart", "exact unconditional", _told_apart(stats.paired_exact_p_value), (4, 10, 30, 60)),
        ("the same, for comparison", "tango", _told_apart(stats.tango_p_value), (4, 10, 30, 60)),
        ("bound of pairs beyond the truth", "exact unconditional", exact_rates.pairs_beyond_the_truth, (4, 10, 30, 60)),
        ("equal arms told apart", "exact unconditional", _arms_told_apart, ((4, 4), (10, 30), (60, 60))),
        (
            "bound of two arms beyond the truth",
            "exact unconditional",
            exact_rates.arms_beyond_the_truth,
            ((4, 4), (10, 30)),
        ),
        (
            "bound of one rate beyond the truth",
            "clopper-pearson",
            exact_rates.targets_beyond_the_truth,
            (4, 10, 30, 60),
        ),
    ]
    return [
        [
            what,
            " + ".join(map(str, np.ravel(size))),
            method,
            *(f"{share:.4f}"[1:] for share in worst(size, EXACT_ALPHAS)),
        ]
        for what, method, worst, sizes in cases
        for size in sizes
    ]


def _told_apart(p_value: Callable[[int, int, int], float]) -> Callable[[int, exact_rates.Alphas], list[float]]:
    return lambda n, alphas: exact_rates.false_alarms_of_pairs(n, alphas, p_value)


def _arms_told_apart(sizes: tuple[int, int], alphas: exact_rates.Alphas) -> list[float]:
    return exact_rates.false_alarms_of_arms(sizes, alphas, two_exact_p_value)


def main() -> int:
    parser = argparse.ArgumentParser(description=next(iter(__doc__.splitlines())))
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sizes", action="store_true", help="a row for each number of samples, with all columns")
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
        headers = ["evaluation", "n", "method", *columns, ""]
        if not asked.sizes:
            rows = worst_of_sizes(rows, (0, 2), WORST[table])
            headers = ["evaluation", "method", *(headers[column] for column in WORST[table])]
        print(f"\n### {table}\n")
        print(tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True))
    print("\n### Yes or no, exactly: the worst of all true rates\n")
    headers = ("error", "n", "method", *(f"alpha {alpha:g}" for alpha in EXACT_ALPHAS))
    _print_worst(_exact_rows(), headers, (0, 2), dict.fromkeys((3, 4, 5), largest), sizes=asked.sizes)
    print("\n### Rates, percentiles and counts of five replies to each sample\n")
    headers = (
        "evaluation",
        "samples",
        "lower bound",
        "upper bound",
        "p at most .05",
        "bound of a difference",
        "bounded",
    )
    rows = reply_rows(REPLIES, asked.seed, lambda count, of: f"{count / of:.3f}"[1:])
    _print_worst(rows, headers, (0,), dict.fromkeys((2, 3, 4, 5), largest), sizes=asked.sizes)
    print("\n### Several comparisons in a session\n")
    print(
        tabulate(
            _family_rows(asked.seed),
            headers=("session", "looked for", "share"),
            tablefmt="github",
            disable_numparse=True,
        )
    )
    print("\n### The same comparison in 20 sessions\n")
    print(
        tabulate(
            rerun_rows(asked.seed),
            headers=("series", "looked for", *(f"{when}, {how}" for when in WHEN for how in HOW)),
            tablefmt="github",
            disable_numparse=True,
        )
    )
    print("\n### Prompts, trainings and rounds\n")
    print(tabulate(alarm_rows(asked.replicates), headers=ALARM_HEADS, tablefmt="github", disable_numparse=True))
    print("\n### Looks after every sample\n")
    rows = [_look_row(kind, asked.replicates // 2, asked.seed) for kind in LOOKED_AT]
    print(tabulate(rows, headers=LOOK_HEADS, tablefmt="github", disable_numparse=True))
    print("\n### Many arms\n")
    print(
        tabulate(
            rank_rows(asked.replicates // 2, asked.seed), headers=RANK_HEADS, tablefmt="github", disable_numparse=True
        )
    )
    print("\n### The winner on the samples that chose it\n")
    rows = chosen_rows(asked.replicates // 2, asked.seed)
    print(tabulate(rows, headers=CHOSEN_HEADS, tablefmt="github", disable_numparse=True))
    print("\n### Settings\n")
    rows = setting_rows(asked.replicates // 2, asked.seed)
    print(tabulate(rows, headers=SETTING_HEADS, tablefmt="github", disable_numparse=True))
    print("\n### Relevant differences\n")
    rows = _relevance_rows(asked.replicates, asked.seed)
    _print_worst(rows, RELEVANT_HEADS, (0,), dict.fromkeys((2, 3, 4, 5, 6, 8, 9), largest), sizes=asked.sizes)
    print("\n### Power at the printed difference\n")
    headers = ("evaluation", "runs that print one", "power of a new run")
    print(tabulate(_power_rows(asked.seed), headers=headers, tablefmt="github", disable_numparse=True))
    return int(any(share.liberal for line in lines.values() for share in line.shares))


def _print_worst(
    rows: Iterable[Sequence[str]], heads: Sequence[str], name: Sequence[int], picks: dict[int, Pick], *, sizes: bool
) -> None:
    """Print a table with the worst of all sizes, or with a row for each."""
    if not sizes:
        rows, heads = worst_of_sizes(rows, name, picks), [heads[column] for column in (*name, *picks)]
    print(tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True))


LOOKED_AT = {"bits": "yes or no", "shares": "scores", "groups": "yes or no, groups of about 5"}
LOOK_HEADS = ("evaluation", "n", "target met", "target missed", "difference proven", "samples needed at -0.2")


def _look_row(kind: str, runs: int, seed: int, n: int = 200) -> list[str]:
    """Sessions with --crucible-stop and one claim: a target at the true mean, equal arms, and a clear regression."""
    rng, truth = np.random.default_rng([seed, n]), mean_score(kind)
    targets = [one_claim(rng, kind, n, target=truth)[0] for _ in range(runs)]
    proven = sum(one_claim(rng, kind, n)[1] for _ in range(runs))
    needed = np.mean([one_claim(rng, kind, n, drop=0.2 / truth)[2] for _ in range(runs // 4)])
    shares = [Share(count, runs, most=ALPHA) for count in (targets.count("met"), targets.count("missed"), proven)]
    return [LOOKED_AT[kind], f"{n:,}", *map(str, shares), f"{100 * needed:.0f} %"]


if __name__ == "__main__":
    raise SystemExit(main())
