"""How often the interval of a drop, its upper bound and the interval of a difference of two drops have the truth.

    python -m benchmarks.drops [--runs 2000] [--only "100 samples, groups of 4"] [--seed 0]

Prints a table in markdown. `--only` runs the experiments whose name contains a text, with as many runs as a doubt needs. A
share that is below .94, beyond the noise of the simulation, is bold, and then the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tabulate import tabulate

from benchmarks.shares import Share

# The simulations' modules import each other by their names.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "truth"))

from drop_evals import EXPERIMENTS, Drops, count_covered  # beside the simulations

HEADS = ("experiment", "runs", "drop covered", "bound holds", "difference covered")
PART = 250
"""Runs of one process at a time."""


def main() -> int:
    """Print the table; return 1 where a share is too low."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chosen = [known for known in EXPERIMENTS if options.only in known.name]
    if not chosen:
        parser.error(
            f"no experiment has {options.only!r} in its name: {'; '.join(known.name for known in EXPERIMENTS)}"
        )
    with ProcessPoolExecutor() as processes:
        rows = {known: _shares(known, options.runs, options.seed, processes) for known in chosen}
    table = [[known.name, f"{shares[0].of:,}", *map(str, shares)] for known, shares in rows.items()]
    print(tabulate(table, headers=HEADS, tablefmt="github", disable_numparse=True))
    return int(any(share.liberal for shares in rows.values() for share in shares))


def _shares(known: Drops, runs: int, seed: int, processes: ProcessPoolExecutor) -> Sequence[Share]:
    parts = range(max(1, runs // PART))
    counts = processes.map(count_covered, [known] * len(parts), [PART] * len(parts), [1000 * seed + k for k in parts])
    return [Share(sum(column), PART * len(parts), least=0.94) for column in zip(*counts, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
