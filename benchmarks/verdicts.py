"""How long a user waits between the last reply and the verdicts: a real session, two arms, two metrics, wall time.

Everything is in it: the last commit, reading both arms back, estimates, targets, comparisons, verdicts as test reports.
It takes about three minutes, of which the sessions of 100,000 samples take nearly all; a line is shown for each session.

    python -m benchmarks.verdicts
    python -m benchmarks.verdicts --former DIRECTORY

The second command runs each session also with the checkout of a former build, in turn, and prints the ratios to it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT, Suite

SMALL, LARGE = 1_319, 100_000
METRICS = ("'exact_match'", "length")
MARKS = (
    "@pytest.mark.quality_target('exact_match >= 0.5', 'mean(length) <= 3')",
    "@pytest.mark.ab_compare('exact_match', 'length')",
)
AMOUNTS = {"metrics": ("seconds",), "marks": ("@pytest.mark.ab_compare('seconds')",)}

COMPARE = ("--crucible-adapter=v2", "--compare=v1", "--crucible-fresh")
ALONE = ("--crucible-adapter=v2",)


@dataclass(frozen=True, slots=True)
class Cost:
    """What the verdicts of one session took."""

    waited_s: float
    cpu_s: float
    peak_bytes: float


def figures(former: Path | None = None) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        for samples, repeats, limit_s in ((SMALL, 5, 0.5), (LARGE, 3, 5.0)):
            suite = Suite(directory=Path(directory) / str(samples), samples=samples, metrics=METRICS, marks=MARKS)
            now, before = _costs(suite.write(), COMPARE, repeats, former)
            name = f"last reply to verdicts, n={samples:,} x 2 arms x 2 metrics"
            yield Figure(name=name, measured=now.waited_s, unit="s", limit=limit_s, digits=2)
            if before is not None:
                yield from _ratios(now, before)
        alone = Suite(directory=Path(directory) / "alone", samples=SMALL, metrics=METRICS, marks=MARKS[:1]).write()
        waited = _costs(alone, ALONE, 5, None)[0].waited_s
        yield Figure(name=f"- n={SMALL:,}, one arm, targets only", measured=waited, unit="s", digits=2)
        yield _growth_of_amounts(Path(directory))


def _ratios(now: Cost, before: Cost) -> Iterator[Figure]:
    times = {"wall time": now.waited_s / before.waited_s, "CPU": now.cpu_s / before.cpu_s}
    for name, ratio in times.items():
        yield Figure(name=f"- {name}, of the former build's", measured=ratio, unit="x", digits=2)
    peak = now.peak_bytes / before.peak_bytes
    yield Figure(name="- peak memory, of the former build's", measured=peak, unit="x", limit=1.0, digits=2)


def _growth_of_amounts(directory: Path) -> Figure:
    """Return the exponent with which the CPU time of a comparison of amounts grows with the samples."""
    # Slices are searched for up to 10,000 samples.
    sizes, cpu = (20_000, LARGE), []
    for samples in sizes:
        suite = Suite(directory=directory / f"amounts-{samples}", samples=samples, **AMOUNTS).write()
        cpu.append(_costs(suite, COMPARE, 1, None)[0].cpu_s)
    exponent = math.log(cpu[1] / cpu[0]) / math.log(sizes[1] / sizes[0])
    name = f"a positive metric, n={sizes[0]:,} to {sizes[1]:,}: exponent of the CPU time"
    return Figure(name=name, measured=exponent, unit="", limit=1.1, digits=2)


def _costs(suite: Suite, arguments: tuple[str, ...], repeats: int, former: Path | None) -> tuple[Cost, Cost | None]:
    """Return the medians of this build and of the former one, whose sessions alternate."""
    builds = [suite] if former is None else [suite, replace(suite, build=former)]
    costs: list[list[Cost]] = [[] for _ in builds]
    for _ in range(repeats):
        for k, build in enumerate(builds):
            costs[k].append(_cost(build, arguments))
    medians = [_median(sessions) for sessions in costs]
    return medians[0], medians[1] if former is not None else None


def _cost(suite: Suite, arguments: tuple[str, ...]) -> Cost:
    suite.store.unlink(missing_ok=True)  # builds need not read each other's stores
    seen = suite.run(*arguments)
    waited = seen["judged_at"] - suite.last_replies().last_reply
    # The table comes when all sessions have ended.
    build = "" if suite.build == ROOT else " of the former build"
    print(f"a session of {suite.samples:,} samples{build}: {waited:.2f} s", file=sys.stderr, flush=True)
    return Cost(waited, seen["judging_cpu_s"], seen["peak_bytes"])


def _median(sessions: list[Cost]) -> Cost:
    return Cost(
        statistics.median(one.waited_s for one in sessions),
        statistics.median(one.cpu_s for one in sessions),
        statistics.median(one.peak_bytes for one in sessions),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--former", type=Path, metavar="DIRECTORY", help="the checkout of a former build")
    raise SystemExit(show(figures(parser.parse_args().former)))
