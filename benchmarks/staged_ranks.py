"""How often ranks and differences of many arms are right in sessions that end at a stage.

    python -m benchmarks.staged_ranks [--runs 400]

Prints a table in markdown, which is part of the page of error rates. A share below .93 is bold.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tabulate import tabulate

from benchmarks.shares import Share

# The simulations' modules import each other by their names.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "truth"))

from staged_rank_evals import STAGED, count_right_sessions  # beside the simulations

HEADS = (
    "arms",
    "samples",
    "all ranks inside",
    "the best not excluded",
    "all differences from the best inside",
    "ended before the last sample",
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    runs = parser.parse_args().runs
    print(tabulate([_row(name, runs) for name in STAGED], headers=HEADS, tablefmt="github", disable_numparse=True))


def _row(name: str, runs: int) -> list[str]:
    *right, ended = count_right_sessions(STAGED[name], runs, seed=5)
    shares = [str(Share(one, runs, least=0.93)) for one in right]
    return [name, f"{STAGED[name].known.n:,}", *shares, str(Share(ended, runs))]


if __name__ == "__main__":
    main()
