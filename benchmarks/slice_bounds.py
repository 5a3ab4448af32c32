"""How often a gap or a ratio of two slices is falsely proven within its limit: exactly, over all counts.

    python -m benchmarks.slice_bounds
    python -m benchmarks.slice_bounds power

Prints a table in markdown: the worst of all true rates at the limit, and their mean, each the largest over a few limits. Exits 1
where slices of up to 200 samples exceed .0506. It takes some minutes. `power` prints how often equal slices are proven within a
limit by this bound and by others.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tabulate import tabulate

# The simulations' modules import each other by their names.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "truth"))

from exact_slices import CELLS, HELD, LARGER, LIMITS, RULES, false_met, power  # beside the simulations

HEADS = ("samples", "gap: worst", "gap: mean", "ratio: worst", "ratio: mean")


# Samples of each slice, their rate, and the limit.
EQUAL = [(20, 0.9, "gap", 0.30), (50, 0.8, "gap", 0.20), (200, 0.8, "gap", 0.10), (50, 0.9, "ratio", 0.80)]


def main() -> int:
    """Print the table; return 1 where small slices exceed the error rate."""
    with ProcessPoolExecutor() as processes:
        # The largest first, so that no process works alone in the end.
        order = sorted((*CELLS, *LARGER), key=lambda sizes: -sizes[0] * sizes[1])
        found = dict(zip(order, map(show_progress, order, processes.map(largest, order)), strict=True))
    rows = {sizes: found[sizes] for sizes in (*CELLS, *LARGER)}
    table = [[f"{sizes[0]}, {sizes[1]}", *(f"{share:.3f}"[1:] for share in shares)] for sizes, shares in rows.items()]
    print(tabulate(table, headers=HEADS, tablefmt="github", disable_numparse=True))
    return int(any(max(rows[sizes][0], rows[sizes][2]) > HELD for sizes in CELLS))


def show_progress(sizes: tuple[int, int], shares: tuple[float, ...]) -> tuple[float, ...]:
    """Return the shares; the table comes when all are there."""
    print(f"{sizes[0]} and {sizes[1]} samples: gap {shares[0]:.4f}, ratio {shares[2]:.4f}", file=sys.stderr, flush=True)
    return shares


def print_power() -> int:
    """Print the power of each rule."""
    table = [
        [
            f"{n}, {n}",
            f"{rate:g}"[1:],
            f"{kind} {limit:.2f}".replace("0.", "."),
            *(f"{power(rule, kind, (n, n), rate=rate, limit=limit):.3f}"[1:] for rule in RULES),
        ]
        for n, rate, kind, limit in EQUAL
    ]
    print(tabulate(table, headers=("samples", "rate", "limit", *RULES), tablefmt="github", disable_numparse=True))
    return 0


def largest(sizes: tuple[int, int]) -> tuple[float, ...]:
    """Return the worst and the mean chance of gaps and of ratios, each the largest over the limits."""
    chances = {kind: [false_met(kind, sizes, limit) for limit in limits] for kind, limits in LIMITS.items()}
    return tuple(max(summary(found) for found in of_kind) for of_kind in chances.values() for summary in (max, _mean))


def _mean(found: list[float]) -> float:
    return float(sum(found) / len(found))


if __name__ == "__main__":
    sys.exit(print_power() if sys.argv[1:] == ["power"] else main())
