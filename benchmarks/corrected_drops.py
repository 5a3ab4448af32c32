"""How often a drop that labels correct has the truth in its interval, with groups and with several replies to a sample.

    python -m benchmarks.corrected_drops [--runs 2000]

Prints a table in markdown, which is part of the page of error rates. A coverage that is below .93, beyond the noise of the
simulation, is bold, and then the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tabulate import tabulate

from benchmarks.shares import Share

# The simulations' modules import each other by their names.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "truth"))

from corrected_evals import EXPERIMENTS, Labelled, corrected_drops  # beside the simulations

HEADS = ("experiment", "samples", "labelled", "corrected", "the judge's own", "mean width")
Rows = Callable[[Labelled], list[str]]


def main() -> int:
    """Print the table; return 1 where an interval is too narrow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    shares = {known: count(known, runs) for known in EXPERIMENTS}
    rows = [[known.name, f"{known.n:,}", str(known.labels), *map(str, of)] for known, of in shares.items()]
    print(tabulate(rows, headers=HEADS, tablefmt="github", disable_numparse=True))
    return int(any(share.liberal for share, _, _ in shares.values()))


def count(known: Labelled, runs: int) -> tuple[Share, Share, str]:
    """Return both coverages, and the mean width of the corrected interval."""
    drops = np.array(list(corrected_drops(known, runs)), dtype=float)
    right, own = (int(column.sum()) for column in drops.T[:2])
    return Share(right, runs, least=0.93), Share(own, runs), f"{drops[:, 2].mean():.3f}"


if __name__ == "__main__":
    sys.exit(main())
