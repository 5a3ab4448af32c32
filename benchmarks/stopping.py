"""What --crucible-stop saves, what power it costs, and what its looks cost.

    python -m benchmarks.stopping [--runs 200]

Prints a table in markdown: for a yes-or-no metric of 200 samples and one comparison, how often a true difference is proven with all
samples and with looks, and the share of the samples that a run with looks needs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from tabulate import tabulate

from benchmarks.figures import Figure
from pytest_crucible.features.stages.looks import StopWhenSettled
from pytest_crucible.records import Lost, Outcome, Sample, Unit
from pytest_crucible.records.outcomes import Observation
from pytest_crucible.runs.looks import Looks
from tests.answer_builders import analysis_inputs, arm
from tests.truth.session_evals import fixed_claim, one_claim

DROPS = (0.0, 0.1, 0.2, 0.3, 0.4)
CLEAR = 0.4
"""A true difference of 28 points where 70 % are right."""
LOOK_LIMIT_US = 300.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    print(tabulate([_row(drop, runs) for drop in DROPS], headers=HEADS, tablefmt="github", disable_numparse=True))


HEADS = ("true difference", "proven with all samples", "proven with looks", "samples needed with looks")


def _row(drop: float, runs: int) -> Sequence[str]:
    fixed = [fixed_claim(np.random.default_rng([1, run]), "bits", 200, drop=drop)[1] for run in range(runs)]
    looks = [one_claim(np.random.default_rng([1, run]), "bits", 200, drop=drop) for run in range(runs)]
    share = np.mean([needed for *_, needed in looks])
    proven = np.mean([one for _, one, _ in looks])
    return f"{-0.7 * drop:.2f}", f"{np.mean(fixed):.2f}", f"{proven:.2f}", f"{100 * share:.0f} %"


def figures() -> list[Figure]:
    """The share of samples for a clear difference, and the CPU time of looks a sample."""
    shares = [one_claim(np.random.default_rng([2, run]), "bits", 300, drop=CLEAR)[2] for run in range(40)]
    return [
        Figure(
            name=f"samples that --crucible-stop needs for a difference of {70 * CLEAR:.0f} points, of 300",
            measured=100 * float(np.mean(shares)),
            unit="%",
            limit=50.0,
        ),
        Figure(name="looks at 1,000 pairs, a sample", measured=_microseconds(), unit="us", limit=LOOK_LIMIT_US),
    ]


def _microseconds(n: int = 1000) -> float:
    """CPU time of following a comparison that is never settled, for each of its samples."""
    inputs = analysis_inputs(arm(a=[True] * n), arm(a=[True] * n), contrasts=())
    rng = np.random.default_rng(3)
    right = rng.random((2, n)) < 0.7
    samples = [Sample(id=str(k), input="") for k in range(n)]
    nothing: list[Lost] = []
    watch = Looks(StopWhenSettled(0.05), inputs.plan, samples, [arm(), arm()], {})
    outcomes = [Outcome(Unit(k, 0, number, 0)) for k in watch.order for number in range(2)]
    started = time.process_time()
    for outcome in outcomes:
        unit = outcome.unit
        watch.add(outcome, [Observation(unit, "a", bool(right[unit.arm, unit.position]))], nothing)
    return 1e6 * (time.process_time() - started) / n


if __name__ == "__main__":
    main()
