"""How long a user waits between the last reply and the verdicts: a real session, two arms, two metrics, wall time.

Everything is in it: the last commit, reading both arms back, estimates, targets, comparisons, verdicts as test reports.
It takes about three minutes, of which the three sessions of 100,000 samples take nearly all; a line is shown for each session.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import Suite

SIZES = ((1_319, 5, 0.5), (100_000, 3, 5.0))
"""Samples, repeats, limit in seconds."""
METRICS = ("'exact_match'", "length")
MARKS = (
    "@pytest.mark.quality_target('exact_match >= 0.5', 'mean(length) <= 3')",
    "@pytest.mark.ab_compare('exact_match', 'length')",
)


COMPARE = ("--crucible-adapter=v2", "--compare=v1", "--crucible-fresh")
ALONE = ("--crucible-adapter=v2",)


def figures() -> list[Figure]:
    found = []
    with tempfile.TemporaryDirectory() as directory:
        for samples, repeats, limit_s in SIZES:
            suite = Suite(
                directory=Path(directory) / str(samples), samples=samples, metrics=METRICS, marks=MARKS
            ).write()
            waited = statistics.median(_waited(suite, COMPARE) for _ in range(repeats))
            name = f"last reply to verdicts, n={samples:,} x 2 arms x 2 metrics"
            found.append(Figure(name=name, measured=waited, unit="s", limit=limit_s, digits=2))
        suite = Suite(
            directory=Path(directory) / "alone", samples=SIZES[0][0], metrics=METRICS, marks=MARKS[:1]
        ).write()
        waited = statistics.median(_waited(suite, ALONE) for _ in range(SIZES[0][1]))
    return [*found, Figure(name=f"- n={SIZES[0][0]:,}, one arm, targets only", measured=waited, unit="s", digits=2)]


def _waited(suite: Suite, arguments: tuple[str, ...]) -> float:
    seen = suite.run(*arguments)
    waited = seen["judged_at"] - suite.last_replies().last_reply
    # The table comes when all sessions have ended.
    print(f"a session of {suite.samples:,} samples: {waited:.2f} s", file=sys.stderr, flush=True)
    return waited


if __name__ == "__main__":
    raise SystemExit(show(figures()))
