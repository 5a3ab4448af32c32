"""Run every benchmark but `calibration` and print one table. Exits 1 when something is over its limit."""

from __future__ import annotations

import sys

from benchmarks import (
    durable,
    embedded,
    engine,
    million,
    overlap,
    rerun,
    resampling,
    sequential,
    startup,
    stats_speed,
    verdicts,
)
from benchmarks.figures import Figure, show

BENCHMARKS = (
    engine,
    durable,
    overlap,
    startup,
    verdicts,
    rerun,
    million,
    stats_speed,
    resampling,
    sequential,
    embedded,
)


def main() -> int:
    found: list[Figure] = []
    for benchmark in BENCHMARKS:
        print(f"{benchmark.__name__} ...", file=sys.stderr, flush=True)
        found += benchmark.figures()
    return show(found)


raise SystemExit(main())
