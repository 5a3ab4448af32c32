"""How well waiting overlaps: 1,000 samples of 50 ms each, 64 at a time, against the arithmetic ideal.

The ideal is 1,000 x 50 ms / 64 = 0.78 s, counted from the first reply to the last. Counted from the first request, 1,000
samples need 16 rounds of 50 ms, so that no engine can be below 0.80 s.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import Suite

SAMPLES, LATENCY_S, CONCURRENCY = 1_000, 0.05, 64
REPEATS = 5


def figures() -> list[Figure]:
    ideal = SAMPLES * LATENCY_S / CONCURRENCY
    with tempfile.TemporaryDirectory() as directory:
        suite = Suite(directory=Path(directory), samples=SAMPLES, latency_s=LATENCY_S).write()
        runs = [_waited(suite) for _ in range(REPEATS)]
    from_request, from_reply = (statistics.median(column) for column in zip(*runs, strict=True))
    return [
        Figure(name="overlap: first to last reply", measured=from_reply, unit="s", limit=1.05 * ideal, digits=3),
        Figure(name="- first request to last reply", measured=from_request, unit="s", digits=3),
    ]


def _waited(suite: Suite) -> tuple[float, float]:
    suite.run("--crucible-adapter=v2", f"--crucible-concurrency={CONCURRENCY}")
    seen = suite.last_replies()
    return seen.last_reply - seen.first_question, seen.last_reply - seen.first_reply


if __name__ == "__main__":
    raise SystemExit(show(figures()))
