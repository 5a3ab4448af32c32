"""Comparisons over random factors: how often they are wrong where the truth is known, and what one costs.

    python -m benchmarks.factors [--replicates 2000]

Prints three tables in markdown: false alarms of three ways to test (the one that is used, Satterthwaite's degrees of freedom,
and prompts or rounds taken for repeats), the power of the first two, and what one comparison
costs. Exits 1 where an error rate of the first, at .05
or .005, is above it by more than chance.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.special import stdtr
from tabulate import tabulate

from benchmarks.figures import Figure, show
from benchmarks.shares import Share
from pytest_crucible import stats
from pytest_crucible.records import (
    Arm,
    Contrast,
    Fingerprint,
    MetricFacts,
    Observation,
    Outcome,
    Plan,
    PromptForm,
    Reply,
    Sample,
    Unit,
)
from pytest_crucible.runs.evaluate import analyse_run
from pytest_crucible.runs.plugins import installed_extensions
from pytest_crucible.stats.factors.crossed import CrossedMean
from pytest_crucible.store.runs import RunStore
from tests.truth.factor_evals import FACTOR_EVALS, FactorEval

REPLICATES = 2000
LIMIT_S = 0.3
"""A comparison with two random factors, 1,000 samples x 5 prompts x 3 rounds."""
KNOWN = FactorEval(
    n=1000, levels={"prompts": 5, "rounds": 3}, deviations={"prompts": 0.05, "rounds": 0.02}, suits_level=0.1
)
RUN = "factors"
LEVELS = (0.05, 0.005)
EFFECT = 2.8
"""In standard errors: a test with known variances finds it in 80 %."""


def banerjee(mean: CrossedMean) -> float:
    """The p-value that is used."""
    return stats.crossed_p_value(mean)


def satterthwaite(mean: CrossedMean) -> float:
    """That of the estimated variance, with Satterthwaite's degrees of freedom."""
    samples, *factors = mean.sources
    squares = samples.variance**2 / samples.dof + sum(one.variance**2 / one.dof for one in factors)
    total = mean.variance
    return float(2 * stdtr(total**2 / squares, -abs(mean.estimate) / total**0.5)) if total else 1.0


def ignored(mean: CrossedMean) -> float:
    """That of the samples alone: levels are repeats."""
    samples = mean.sources[0]
    return float(2 * stdtr(samples.dof, -abs(mean.estimate) / samples.variance**0.5)) if samples.variance else 1.0


TESTS: Mapping[str, Callable[[CrossedMean], float]] = {
    "crossed t": banerjee,
    "Satterthwaite": satterthwaite,
    "as repeats": ignored,
}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    replicates = parser.parse_args().replicates
    alarms = {name: _p_values(known, replicates) for name, known in FACTOR_EVALS.items()}
    rows = [[name, *_alarms(p_values, replicates)] for name, p_values in alarms.items()]
    heads = [f"{test}, {level:g}".replace("0.", ".") for test in TESTS for level in LEVELS]
    print(_table(rows, ["evaluation", *heads]))
    powers = [[name, *_powers(known, replicates)] for name, known in FACTOR_EVALS.items()]
    print(_table(powers, ["evaluation", *list(TESTS)[:2]]))
    print()
    show(figures())
    liberal = any(share.liberal for p_values in alarms.values() for share in _shares(p_values["crossed t"], replicates))
    sys.exit(liberal)


ALARM_HEADS = ("evaluation", "counted, alpha .05", "alpha .005", "as repeats, alpha .05", "alpha .005")


def alarm_rows(replicates: int) -> list[list[str]]:
    """Return the false alarms of the test that is used, and of prompts or rounds that are taken for repeats."""
    rows = []
    for name, known in FACTOR_EVALS.items():
        p_values = _p_values(known, replicates)
        rows.append(
            [
                name,
                *(str(share) for test in ("crossed t", "as repeats") for share in _shares(p_values[test], replicates)),
            ]
        )
    return rows


def figures() -> list[Figure]:
    """What one comparison costs, and the analysis of a stored run that has it."""
    return [_of_comparison(), _of_stored_run()]


def _of_comparison() -> Figure:
    """Interval, p-value, bounds and variance table."""
    candidate, baseline = next(KNOWN.draw(1))
    seconds = []
    for _ in range(7):
        started = time.process_time()
        mean = stats.crossed_difference(candidate, baseline, list(KNOWN.levels))
        stats.crossed_interval(mean)
        stats.crossed_p_value(mean)
        stats.crossed_bounds(mean, alpha=0.05, bounds=(-1.0, 1.0))
        stats.variances_of_mean(mean, list(KNOWN.levels))
        seconds.append(time.process_time() - started)
    name = "a comparison over 1,000 samples x 5 prompts x 3 rounds"
    return Figure(name=name, measured=min(seconds), unit="s", limit=LIMIT_S, digits=3)


def _of_stored_run() -> Figure:
    """The analysis of its 30,000 replies in a run store, from the first read to the views of all sections."""
    seconds = []
    with tempfile.TemporaryDirectory() as directory:
        store = RunStore(str(Path(directory) / "store.db"))
        _fill(store)
        for _ in range(7):
            started = time.process_time()
            analyses, _ = analyse_run(store, RUN, installed_extensions(), alpha=0.05, interrupted=False)
            seconds.append(time.process_time() - started)
        store.close()
    [analysis] = analyses.values()
    assert analysis.comparisons[0].method == "crossed t"
    name = "the same, and all sections, from the 30,000 replies of a stored run"
    return Figure(name=name, measured=min(seconds), unit="s", limit=LIMIT_S, digits=3)


def _fill(store: RunStore) -> None:
    plan = Plan(
        nodeid="test_f.py::test_f", path="test_f.py", line=0, dataset="f", dataset_sha256="f", planned=KNOWN.n,
        selected=KNOWN.n, groups=None, repeats=3, rounds=3, metrics=(MetricFacts(name="ok", kind="binary", low=0.0, high=1.0),),
        arms=tuple(
            Arm(name=name, role=role, adapter=name, identity=name)
            for name, role in (("v2", "candidate"), ("v1", "baseline"))
        ),
        prompts=tuple(PromptForm(name=f"{k}.txt", sha256=str(k)) for k in range(5)),
        targets=(), contrasts=(Contrast(metric="ok", baseline="v1"),), open_metrics=False,
        fingerprint=Fingerprint(dataset="f", function="", metrics="", sampling=""),
    )  # fmt: skip
    store.begin_run(RUN, started="", seed=0, alpha=0.05, correction="holm", git={}, environment={})
    key = store.add_experiment(RUN, plan, [Sample(id=f"s{k}", input="") for k in range(KNOWN.n)])
    writer = store.writer()
    for arm, cells in enumerate(next(KNOWN.draw(1))):
        original = store.add_arm(key, arm, plan.arms[arm].name, f"{arm}")
        keys = [original] + [
            store.add_arm(key, arm + 2 * k, plan.arms[arm].name, f"{arm} {k}", variant=k, original=original)
            for k in range(1, 5)
        ]
        for (position, prompt, repeat), value in np.ndenumerate(cells):
            unit = Unit(position, prompt, arm, repeat)
            outcome = Outcome(unit, reply=Reply(text="yes"), started=0.0)
            writer.add(outcome, keys[prompt], [Observation(unit, "ok", bool(value))], ())
            while writer.behind():
                time.sleep(0.01)
    writer.close()
    store.finish_experiment(key)


def _p_values(known: FactorEval, replicates: int, seed: int = 0) -> dict[str, list[float]]:
    means = [
        stats.crossed_difference(candidate, baseline, list(known.levels), known.clusters())
        for candidate, baseline in known.draw(replicates, seed)
    ]
    return {name: [test(mean) for mean in means] for name, test in TESTS.items()}


def _powers(known: FactorEval, replicates: int) -> list[Share]:
    """Of an effect that suits the design's own standard error."""
    null = known.draw(replicates // 4, seed=1)
    estimates = [stats.crossed_difference(*arms, list(known.levels), known.clusters()).estimate for arms in null]
    shifted = replace(known, effect=EFFECT * statistics.stdev(estimates))
    p_values = _p_values(shifted, replicates, seed=2)
    return [Share(_count(p_values[test], 0.05), replicates) for test in list(TESTS)[:2]]


def _alarms(p_values: Mapping[str, Sequence[float]], replicates: int) -> list[Share]:
    return [share for test in TESTS for share in _shares(p_values[test], replicates)]


def _shares(p_values: Sequence[float], replicates: int) -> list[Share]:
    return [Share(_count(p_values, level), replicates, most=level) for level in LEVELS]


def _count(p_values: Sequence[float], level: float) -> int:
    return int((np.array(p_values) <= level).sum())


def _table(rows: Sequence[Sequence[object]], heads: Sequence[str]) -> str:
    aligned = ("left", *("right" for _ in heads[1:]))
    return "\n" + tabulate(
        [list(map(str, row)) for row in rows],
        headers=list(heads),
        tablefmt="github",
        colalign=aligned,
        disable_numparse=True,
    )


if __name__ == "__main__":
    main()
