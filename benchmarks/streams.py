"""Statistics larger than memory: rows a second of each stream beside numpy's plain sum, and 10^8 pairs decided by two processes.

Times of streams are CPU time of one process. The 10^8 pairs are made as they are read, in the same processes; what making them
alone takes is a row of its own. Peaks are the largest resident memory of a process since its start.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from benchmarks.figures import Figure, show
from benchmarks.memory import peak_mib
from pytest_crucible.measures.row import Prepared
from pytest_crucible.measures.streams import PairStream, open_arm, open_pair
from pytest_crucible.records import Contrast, Measure, MetricFacts
from pytest_crucible.stats.resampling.draws import resolve_for

ROWS, ALL, BATCH, PROCESSES = 2_000_000, 100_000_000, 2**17, 2
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


def read_part(stream: PairStream, kind: str, numbers: range) -> tuple[PairStream, float, float]:
    """Return the stream after some batches, the peak memory of this process in MiB, and its CPU time."""
    started = time.process_time()
    for number in numbers:
        stream.add(*make_batch(kind, False, number))
    return stream, peak(), time.process_time() - started


def peak() -> float:
    return peak_mib()


def decide(kind: str, rows: int) -> tuple[float, float, float, int]:
    """Return wall time, CPU time one after the other, the sum of all processes' peaks in MiB, and the number of passes.

    The CPU time is that of the slower process of each pass and of this one: the wall time on cores that do nothing else.
    """
    stream, batches, passes, largest, busy = stream_of(kind), rows // BATCH, 0, 0.0, 0.0
    started, own = time.perf_counter(), time.process_time()
    with ProcessPoolExecutor(PROCESSES) as workers:
        while not stream.is_done:
            parts = [range(part, batches, PROCESSES) for part in range(PROCESSES)]
            peaks, seconds = [], []
            for part, memory, spent in workers.map(partial(read_part, stream, kind), parts):
                stream.merge(part)
                peaks.append(memory)
                seconds.append(spent)
            stream.end_pass()
            passes, largest, busy = passes + 1, max(largest, sum(peaks)), busy + max(seconds)
        difference = stream.difference(0.05)
    assert difference is not None, "it is decided"
    return time.perf_counter() - started, busy + time.process_time() - own, largest + peak(), passes


def seconds_to_make(kind: str, rows: int) -> float:
    """Return the CPU time of one of the processes for the pairs alone, from a twentieth of them."""
    batches = rows // BATCH // PROCESSES
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
        seconds, busy, memory, passes = decide(kind, rows)
        label = f"{rows:,} {name}, {PROCESSES} processes, {passes} passes"
        yield Figure(name=f"{label}: CPU time", measured=busy, unit="s", limit=SECONDS)
        yield Figure(name="- wall time, which other processes lengthen", measured=seconds, unit="s")
        yield Figure(name="- CPU time of making the pairs", measured=seconds_to_make(kind, rows) * passes, unit="s")
        yield Figure(name="- peak memory of all processes", measured=memory, unit="MiB", limit=MEBIBYTES, digits=0)


if __name__ == "__main__":
    raise SystemExit(show(figures()))
