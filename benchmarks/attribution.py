"""What attribution costs beside the requests, and how wide its intervals are for the requests that it gets.

Prints the time of planning, attributing and judging, for each request, and a table: requests and mean width of the joint 95 %
intervals, in units of the score, for 4, 8, 12 and 20 segments. The scripted model scores between 0 and 1: a third of its score
needs the first three segments together, the rest is additive; random replies are yes or no.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from benchmarks.figures import Figure, show
from pytest_crucible.stats.attribution.deletion import judge_deletion, plan_deletion
from pytest_crucible.stats.attribution.interactions import plan_interactions
from pytest_crucible.stats.attribution.sets import SetPlan, extend_plan, plan_sets
from pytest_crucible.stats.attribution.values import attribute

REQUEST_US = 100.0
SEGMENTS, CALLS = (4, 8, 12, 20), (200, 400, 800)
REPEATS, SEEDS = 20, 10


def figures() -> Iterator[Figure]:
    for segments in SEGMENTS:
        for is_random in (False, True):
            name = f"{segments} segments, {CALLS[0]} requests at most{', random' if is_random else ''}"
            yield Figure(name=name, measured=_least_us(segments, is_random), unit="us", limit=REQUEST_US)


def _least_us(segments: int, is_random: bool) -> float:
    """Return CPU time for each request, the least of several, since whatever else the machine does only adds."""
    runs = [explain(segments, CALLS[0], is_random, seed=0) for _ in range(REPEATS)]
    return min(1e6 * run.seconds / run.requests for run in runs)


@dataclass(frozen=True, slots=True)
class Run:
    """The cost and the precision of an explanation."""

    requests: int
    width: float
    """Mean width of the intervals."""
    seconds: float
    """CPU time without that of the model."""


def explain(segments: int, calls: int, is_random: bool, seed: int) -> Run:
    """Return what one explanation costs, from its plan to its deletion curve."""
    rng = np.random.default_rng(seed)
    start = time.process_time()
    plan = plan_sets(segments, calls, is_random=is_random, seed=seed)
    asking = time.process_time()
    scores = score(plan, is_random, rng)
    asking -= time.process_time()
    first = attribute(plan, scores)
    deletion = plan_deletion(plan, scores, calls)
    longer = extend_plan(plan, deletion.masks)
    longer = extend_plan(longer, plan_interactions(longer, first.shapley, calls))
    asking += time.process_time()
    scores = np.vstack([scores, score(longer, is_random, rng)[len(scores) :]])
    asking -= time.process_time()
    result = attribute(longer, scores)
    judge_deletion(longer, deletion, scores)
    seconds = time.process_time() - start + asking
    return Run(result.requested, float(np.mean(result.high - result.low)), seconds)


def score(plan: SetPlan, is_random: bool, rng: np.random.Generator) -> np.ndarray:
    """Return sets x draws scores of the scripted model."""
    stays = np.array([[mask >> segment & 1 for segment in range(plan.segments)] for mask in plan.masks])
    means = 0.1 + 0.3 * stays[:, :3].prod(axis=1) + 0.5 * stays.mean(axis=1)
    table = np.repeat(means[:, None], plan.repeats, axis=1)
    return (rng.random(table.shape) < table).astype(float) if is_random else table


def width_rows() -> Iterator[tuple[str, ...]]:
    """Yield segments, limit, requests with fixed and random replies, and the widths of both."""
    for segments in SEGMENTS:
        for calls in CALLS:
            cells = [_describe(segments, calls, is_random) for is_random in (False, True)]
            yield str(segments), str(calls), *(cell for pair in cells for cell in pair)


def _describe(segments: int, calls: int, is_random: bool) -> tuple[str, str]:
    try:
        runs = [explain(segments, calls, is_random, seed) for seed in range(SEEDS)]
    except ValueError as error:
        return str(error), ""
    requests, width = np.mean([run.requests for run in runs]), np.mean([run.width for run in runs])
    return f"{requests:.0f}", "none" if np.isnan(width) else "exact" if width == 0 else f"{width:.2f}"


if __name__ == "__main__":
    headers = ("segments", "at most", "requests, fixed", "width", "requests, random", "width")
    status = show(figures())
    print("\n" + tabulate(width_rows(), headers=headers, tablefmt="github"))
    sys.exit(status)
