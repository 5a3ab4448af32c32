"""Statistics larger than memory: rows a second of each stream beside numpy's plain sum, and 10^8 pairs decided.

Times are CPU time of the process. The 10^8 pairs (or the number given) are made as they are read; what making them alone takes is a
row of its own. The peak is the largest resident memory of the process since its start. Verdicts on stored
observations are measured by `benchmarks.large_runs`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from benchmarks.figures import Figure, show
from benchmarks.memory import peak_mib
from pytest_crucible.measures.row import Prepared
from pytest_crucible.measures.streams import PairStream, open_arm, open_pair
from pytest_crucible.records import Contrast, Measure, MetricFacts
from pytest_crucible.stats.resampling.draws import resolve_for

ROWS, ALL, BATCH = 2_000_000, 100_000_000, 2**17
SECONDS, MEBIBYTES = 30.0, 512.0
GROUPS = 100_000

Pair = tuple[Prepared, Prepared]


@lru_cache(maxsize=2)
def pool(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values of both arms, and groups, of which batches are made."""
    rng = np.random.default_rng(7)
    groups = rng.integers(0, GROUPS, BATCH)
    if kind == "binary":
        return (rng.random(BATCH) < 0.7).astype(float), (rng.random(BATCH) < 0.69).astype(float), groups
    if kind == "rubric":
        return rng.integers(0, 21, BATCH) / 20, rng.integers(0, 21, BATCH) / 20, groups
    return rng.beta(4, 2, BATCH), rng.beta(4, 2.02, BATCH), groups


def make_batch(kind: str, grouped: bool, number: int) -> Pair:
    """Return a batch that differs from others: the values are turned around, and each sample has a key of its own."""
    ours, theirs, groups = pool(kind)
    shift = number * 7919 % BATCH
    ours = np.roll(ours, shift)
    if kind == "scores":
        # Other values in each batch, as measured scores have.
        ours = ours * (1 - 1e-3 * (number % 997) / 997)
    keys = np.random.default_rng(number).integers(0, 2**64, BATCH, dtype=np.uint64)
    shape = Prepared(
        values=ours,
        kind="binary" if kind == "binary" else "bounded",
        bounds=(0.0, 1.0),
        clusters=groups if grouped else None,
        keys=keys,
        monte_carlo=resolve_for(0.05, 1, seed=1),
    )
    return shape, replace(shape, values=theirs)


def stream_of(kind: str) -> PairStream:
    facts = MetricFacts(name="m", kind="binary" if kind == "binary" else "bounded", low=0.0, high=1.0)
    return open_pair(Contrast(metric="m", baseline="v1"), facts)


def decide(kind: str, rows: int) -> tuple[float, int]:
    """Return the CPU time and the number of passes."""
    stream, passes, started = stream_of(kind), 0, time.process_time()
    while not stream.is_done:
        for number in range(rows // BATCH):
            stream.add(*make_batch(kind, False, number))
        stream.end_pass()
        passes += 1
    assert stream.difference(0.05) is not None, "it is decided"
    return time.process_time() - started, passes


def seconds_to_make(kind: str, rows: int) -> float:
    """Return the CPU time for the pairs alone, from a twentieth of them."""
    batches = rows // BATCH
    few = max(1, batches // 20)
    started = time.process_time()
    for number in range(few):
        make_batch(kind, False, number)
    return (time.process_time() - started) * batches / few


def throughput(name: str, kind: str, grouped: bool) -> Iterator[Figure]:
    """Yield rows a second of one stream, in one process."""
    batches = [make_batch(kind, grouped, number) for number in range(-(-ROWS // BATCH))]
    stream, rows, passes = stream_of(kind), BATCH * len(batches), 0
    started = time.process_time()
    while not stream.is_done:
        for batch in batches:
            stream.add(*batch)
        stream.end_pass()
        passes += 1
    spent = time.process_time() - started
    plain = _cpu(lambda: [float(ours.values.sum()) + float(theirs.values.sum()) for ours, theirs in batches])
    yield Figure(name=f"{name}: rows, {passes} passes", measured=rows / spent / 1e6, unit="million/s", digits=2)
    yield Figure(name="- time over numpy's plain sums of both arms", measured=spent / plain, unit="", digits=0)


def arm_throughput() -> Figure:
    batches = [make_batch("scores", False, number)[0] for number in range(-(-ROWS // BATCH))]
    stream = open_arm(Measure(metric="m"))
    started = time.process_time()
    while not stream.is_done:
        for batch in batches:
            stream.add(batch)
        stream.end_pass()
    rate = BATCH * len(batches) / (time.process_time() - started)
    return Figure(name="a target on the mean of scores: rows", measured=rate / 1e6, unit="million/s", digits=2)


def _cpu(call: Callable[[], object]) -> float:
    spent = math.inf
    for _ in range(3):
        started = time.process_time()
        call()
        spent = min(spent, time.process_time() - started)
    return spent


def figures() -> Iterator[Figure]:
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else ALL
    yield from throughput("yes-or-no pairs", "binary", False)
    yield from throughput("pairs of rubric scores (21 values)", "rubric", False)
    yield from throughput("pairs of scores", "scores", False)
    yield from throughput(f"yes-or-no pairs in {GROUPS:,} groups", "binary", True)
    yield arm_throughput()
    for kind, name in (("binary", "yes-or-no pairs"), ("scores", "pairs of scores")):
        seconds, passes = decide(kind, rows)
        yield Figure(name=f"{rows:,} {name}, {passes} passes", measured=seconds, unit="s", limit=SECONDS)
        yield Figure(name="- of that: making the pairs", measured=seconds_to_make(kind, rows) * passes, unit="s")
        yield Figure(name="- peak memory", measured=peak_mib(), unit="MiB", limit=MEBIBYTES, digits=0)


if __name__ == "__main__":
    raise SystemExit(show(figures()))
