"""Run every benchmark but `calibration` and print one table. Exits 1 when something is over its limit."""

from __future__ import annotations

import sys

from benchmarks import (
    asking,
    attribution,
    cns3,
    data_checks,
    durable,
    engine,
    factors,
    first_use,
    hedging,
    history,
    imports,
    large_dataset,
    local_model,
    million,
    overlap,
    planned,
    redaction,
    registry,
    reports,
    rerun,
    run_checks,
    sandbox,
    sequential,
    servers,
    similarity,
    slices,
    startup,
    stats_speed,
    stopping,
    store_bytes,
    sweeps,
    telemetry,
    tinker,
    tinker_memory,
    training_sets,
    verdicts,
    writing,
)
from benchmarks.figures import Figure, show

BENCHMARKS = (
    engine,
    asking,
    telemetry,
    hedging,
    durable,
    overlap,
    planned,
    large_dataset,
    servers,
    startup,
    verdicts,
    rerun,
    run_checks,
    reports,
    million,
    imports,
    writing,
    redaction,
    history,
    registry,
    stats_speed,
    factors,
    stopping,
    sweeps,
    store_bytes,
    sequential,
    local_model,
    cns3,
    data_checks,
    first_use,
    tinker,
    tinker_memory,
    training_sets,
    sandbox,
    similarity,
    slices,
    attribution,
)


def main() -> int:
    found: list[Figure] = []
    for benchmark in BENCHMARKS:
        print(f"{benchmark.__name__} ...", file=sys.stderr, flush=True)
        found += benchmark.figures()
    return show(found)


raise SystemExit(main())
