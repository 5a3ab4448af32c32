"""What a sweep saves by dropping members, and how often whole sweeps are wrong.

    python -m benchmarks.sweeps [--runs 400]

Prints two tables in markdown: the replies of eight members, of which seven are 20 points worse, on 300 choosing samples; and for
members no better than the baseline, claims, the winner's estimate, and lost best members.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tabulate import tabulate

from benchmarks.figures import Figure

# The simulations' modules import each other by their names.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "truth"))

from sweep_evals import SweepEval, equal, lift  # beside the simulations
from whole_sweeps import run_sweep

MEMBERS = 8
CHOOSING = 300
RATES = (0.95, 0.8, 0.7, 0.6)
EVALS = {
    "2 members, n=100": (SweepEval(100, equal(3)), SweepEval(100, lift(equal(3), 0.02))),
    "8 members, n=100": (SweepEval(100, equal(9)), SweepEval(100, lift(equal(9), 0.02))),
    "8 members near 1, n=200": (SweepEval(200, equal(9, 0.95)), SweepEval(200, lift(equal(9, 0.95), 0.02))),
    "8 members, scores, n=100": (
        SweepEval(100, equal(9), "scores"),
        SweepEval(100, lift(equal(9), 0.01), "scores"),
    ),
    "8 members, n=200 in passages of 5": (
        SweepEval(200, equal(9), clustered=True),
        SweepEval(200, lift(equal(9), 0.02), clustered=True),
    ),
    "32 members, n=100": (SweepEval(100, equal(33)), SweepEval(100, lift(equal(33), 0.02))),
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    runs = parser.parse_args().runs
    saved = [(f"{rate:.2f}", f"{100 * share_sent(rate, runs // 4):.0f} %") for rate in RATES]
    print(tabulate(saved, headers=("the best is right on", "replies sent"), tablefmt="github", disable_numparse=True))
    print()
    print(tabulate([_row(name, runs) for name in EVALS], headers=HEADS, tablefmt="github", disable_numparse=True))


HEADS = ("members", "any claim", "covers", "bias of the estimate", "bias of the naive one", "best member dropped")


def _row(name: str, runs: int) -> Sequence[str]:
    equals, best = EVALS[name]
    ended = [run_sweep(equals, values) for values in equals.draw(runs, seed=8)]
    lost = [0 not in run_sweep(best, values).live for values in best.draw(runs, seed=9)]
    truth = equals.means[0]
    return (
        name,
        f"{np.mean([one.claims for one in ended]):.3f}",
        f"{np.mean([one.covers for one in ended]):.3f}",
        f"{np.mean([one.confirmed for one in ended]) - truth:+.3f}",
        f"{np.mean([one.naive for one in ended]) - truth:+.3f}",
        f"{np.mean(lost):.3f}",
    )


def share_sent(rate: float, runs: int) -> float:
    """Return the share of the choosing half's replies that a sweep sends if all but one member are 20 points worse."""
    known = SweepEval(2 * CHOOSING, (rate, *equal(MEMBERS - 1, rate - 0.2), rate - 0.2))
    sent = [run_sweep(known, values).replies for values in known.draw(runs, seed=7)]
    return float(np.mean(sent)) / (MEMBERS * CHOOSING)


def figures() -> list[Figure]:
    """The share of the replies that a sweep sends."""
    return [
        Figure(
            name="replies of 8 members, seven of them 20 points worse, on 300 choosing samples",
            measured=100 * share_sent(0.8, 20),
            unit="%",
            limit=50.0,
        )
    ]


if __name__ == "__main__":
    main()
