"""Series of sessions that compare one candidate with one baseline, with a known truth: each alone, and with memory.

Answers are right or wrong; each sample has its own chance to be right, 75 % on average, and each session draws new replies.
With memory, sessions are rounds of a random factor, which a stored baseline does not share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.statistics import compare_prepared, row_of
from pytest_crucible.measures.row import Column, Difference, Observations
from pytest_crucible.records import Look, Measure, MetricFacts
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


def _look(number: int) -> Look:
    return Look(number=number, replies=(), since="")


def worst_share(red: Red, worst: float = 0.05) -> float:
    """Return the share of red sessions beside the worst of the stored baselines: by luck they look better than they are."""
    shares = np.sort(red.mean(axis=1))[::-1]
    return float(shares[: max(round(worst * shares.size), 1)].mean())


def _compare(
    candidate: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64], *, alpha: float
) -> Difference | None:
    measure, none_lost = Measure(metric="ok"), np.zeros(len(candidate), dtype=bool)
    pair = [
        row_of(measure).prepare(
            Observations(measure=measure, facts=(OK,), columns=(Column(arm, arm, arm),), lost=none_lost), "observed"
        )
        for arm in (candidate, baseline)
    ]
    return compare_prepared(measure, OK, pair[0], pair[1], alpha=alpha)


def _is_red(candidate: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64], *, alpha: float) -> bool:
    difference = _compare(candidate, baseline, alpha=alpha)
    return (
        difference is not None
        and difference.p_value is not None
        and difference.p_value <= alpha
        and difference.value < 0
    )


def _lower(candidate: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64], *, alpha: float) -> float:
    difference = _compare(candidate, baseline, alpha=alpha)
    return -1.0 if difference is None or difference.lower is None else difference.lower
