"""Series of sessions that compare one candidate with one baseline, with a known truth: each alone, and with memory.

Answers are right or wrong; each sample has its own chance to be right, 75 % on average, and each session draws new replies.
With memory, sessions are rounds of a random factor, which a stored baseline does not share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from answer_builders import score_column

from pytest_crucible.analyse.comparisons import compare_pair
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric
from pytest_crucible.measures.row import Difference
from pytest_crucible.records import Contrast, Look, MetricFacts
from pytest_crucible.stats import CrossedMean, crossed_bounds, crossed_difference, crossed_p_value

ALPHA, SESSIONS = 0.05, 20
OK = MetricFacts(name="ok", kind="binary", low=0.0, high=1.0)
Red = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Reruns:
    """Sessions of n samples, in which the candidate is right in so many more points than the baseline."""

    n: int
    truth: float = 0.0
    stored: bool = True
    """Whether all sessions reuse the baseline's replies of the first one."""
    sessions: int = SESSIONS
    day: float = 0.0
    """Standard deviation of each arm's rate from day to day."""
    shared_day: float = 0.0
    """That of both arms' rates together."""

    def simulate_red(self, replicates: int, seed: int) -> tuple[Red, Red]:
        """Return series x sessions: whether a regression is proven by the session alone, and with memory."""
        series = [self._series(np.random.default_rng([seed, k])) for k in range(replicates)]
        alone, pooled = zip(*series, strict=True)
        return np.array(alone), np.array(pooled)

    def exclude_true_difference(self, replicates: int, seed: int) -> tuple[Red, Red]:
        """Return the same of the proof that the candidate is not worse by the true difference: a relevant one of that size."""
        pairs = [self._exclude_true_difference(np.random.default_rng([seed, k])) for k in range(replicates)]
        alone, pooled = zip(*pairs, strict=True)
        return np.array(alone), np.array(pooled)

    def _exclude_true_difference(self, rng: np.random.Generator) -> tuple[list[bool], list[bool]]:
        candidate, baseline = self._replies(rng)
        alone = [_lower(*pair, alpha=ALPHA) > self.truth for pair in zip(candidate * 1.0, baseline * 1.0, strict=True)]
        pooled = [_lower(candidate[0] * 1.0, baseline[0] * 1.0, alpha=_look(1).alpha(ALPHA)) > self.truth]
        pooled += [
            crossed_bounds(mean, alpha=_look(k).alpha(ALPHA), bounds=(-1.0, 1.0)).low > self.truth
            for k, mean in self._pools(candidate, baseline)
        ]
        return alone, pooled

    def _pools(self, candidate: Red, baseline: Red) -> Iterator[tuple[int, CrossedMean]]:
        """Yield the difference of the replies of the first sessions, from the second on."""
        for k in range(2, self.sessions + 1):
            ours, theirs = candidate[:k].T * 1.0, baseline[:k].T * 1.0
            if self.stored:
                names = ("rounds of the candidate", "rounds of v1")
                yield k, crossed_difference(ours, theirs[:, :1], [], trainings=names, ends=(0.0, 1.0))
            else:
                yield k, crossed_difference(ours, theirs, ["rounds"])

    def _replies(self, rng: np.random.Generator) -> tuple[Red, Red]:
        """Return whether candidate and baseline are right, sessions x samples."""
        chances = rng.beta(3, 1, self.n)
        shape, days = (self.sessions, self.n), (self.sessions, 1)
        both = rng.normal(0, self.shared_day, days) if self.shared_day else 0.0
        ours, theirs = (both + (rng.normal(0, self.day, days) if self.day else 0.0) for _ in range(2))
        candidate = rng.random(shape) < np.clip(chances + self.truth + ours, 0, 1)
        baseline = rng.random(shape) < np.clip(chances + theirs, 0, 1)
        if self.stored:
            baseline[:] = baseline[0]
        return candidate, baseline

    def _series(self, rng: np.random.Generator) -> tuple[list[bool], list[bool]]:
        candidate, baseline = self._replies(rng)
        alone = [_is_red(*pair, alpha=ALPHA) for pair in zip(candidate * 1.0, baseline * 1.0, strict=True)]
        pooled = [alone[0]]
        for k, mean in self._pools(candidate, baseline):
            is_red = mean.estimate < 0 and crossed_p_value(mean, bounds=(-1.0, 1.0)) <= 2 * _look(k).alpha(ALPHA)
            pooled.append(pooled[-1] or is_red)
        return alone, pooled


SERIES = 600
WHEN = ("1 session", "3", "5", "10", "20")
HOW = ("alone", "memory")
RERUNS = {
    "40 samples, nothing differs, stored baseline": Reruns(40),
    "200 samples, nothing differs, stored baseline": Reruns(200),
    "200 samples, nothing differs, new baseline": Reruns(200, stored=False),
    "160 samples, -10 points, stored baseline": Reruns(160, truth=-0.10),
    "160 samples, -10 points, new baseline": Reruns(160, truth=-0.10, stored=False),
}

DAYS = {
    "no noise between days": Reruns(1000, stored=False),
    "1 point a day in each arm": Reruns(1000, stored=False, day=0.01),
    "2 points a day in each arm": Reruns(1000, stored=False, day=0.02),
    "2 points a day in both arms alike": Reruns(1000, stored=False, shared_day=0.02),
}
"""Nothing differs on an average day."""

EXCLUDED = Reruns(160, truth=-0.10)
"""The candidate is worse by exactly the relevant difference."""


def rerun_rows(seed: int, replicates: int = SERIES) -> list[list[str]]:
    """Return a line of each series: how often something wrong happened until a session, alone and with memory."""
    lines = [
        line for name, reruns in RERUNS.items() for line in _lines(name, reruns, *reruns.simulate_red(replicates, seed))
    ]
    shares = _until(EXCLUDED.exclude_true_difference(replicates, seed))
    return [*lines, ["160 samples, -10 points, stored baseline", "proven not worse by the relevant 0.1", *shares]]


def _lines(name: str, reruns: Reruns, alone: Red, pooled: Red) -> list[list[str]]:
    looked_for, happened = (
        ("green at least once", (~alone, ~pooled)) if reruns.truth else ("a regression is proven", (alone, pooled))
    )
    lines = [[name, looked_for, *_until(happened)]]
    if reruns.stored and not reruns.truth:
        worst = [_share(worst_share(alone)) if when == WHEN[-1] else "" for when in WHEN]
        lines.append([name, "red sessions, worst 5 % of baselines", *(cell for entry in worst for cell in (entry, ""))])
    return lines


def _until(happened: tuple[Red, Red]) -> list[str]:
    """Return the shares of series in which it happened until each number of sessions, alone and with memory."""
    return [_share(red[:, : int(when.split()[0])].any(axis=1).mean()) for when in WHEN for red in happened]


def _look(number: int) -> Look:
    return Look(number=number, replies=(), since="")


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def worst_share(red: Red, worst: float = 0.05) -> float:
    """Return the share of red sessions beside the worst of the stored baselines: by luck they look better than they are."""
    shares = np.sort(red.mean(axis=1))[::-1]
    return float(shares[: max(round(worst * shares.size), 1)].mean())


def _compare(candidate: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64], alpha: float) -> Difference | None:
    pair = tuple([ScoredMetric(OK, score_column(values, OK))] for values in (candidate, baseline))
    everything, ends = np.ones(len(candidate), dtype=bool), ("observed", "observed")
    return compare_pair(Contrast(metric="ok", baseline="v1"), pair, SampleAttributes(), everything, ends, alpha)


def _is_red(candidate: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64], *, alpha: float) -> bool:
    difference = _compare(candidate, baseline, alpha)
    return (
        difference is not None
        and difference.p_value is not None
        and difference.p_value <= alpha
        and difference.value < 0
    )


def _lower(candidate: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64], *, alpha: float) -> float:
    difference = _compare(candidate, baseline, alpha)
    return -1.0 if difference is None or difference.lower is None else difference.lower
