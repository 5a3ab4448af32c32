"""Sessions of several comparisons with a known truth, decided by the gate: false claims, and the power of a true one.

Estimates are drawn as normal, so that p-values and bounds are exact and only the family is tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.records import (
    Analysis,
    Arm,
    BoundedValue,
    Comparison,
    Contrast,
    Evidence,
    Fingerprint,
    Plan,
    Verdict,
)
from pytest_crucible.stats.interval import Interval

ALPHA, MARGIN = 0.05, 0.05
ONE_SIDED = 1.6448536269514722
ERROR = 0.0313
"""Standard error of each difference: a true -9 points has a power of .82 alone."""
REGRESSION = Contrast(metric="a", baseline="v1")
MARGINAL = Contrast(metric="a", baseline="v1", alternative="non-inferior", margin=MARGIN)
RELEVANT = Contrast(metric="a", baseline="v1", relevant=0.04)
SUPERIOR = Contrast(metric="a", baseline="v1", alternative="superior")


@dataclass(frozen=True, slots=True)
class Question:
    """Comparisons of one metric, all of them read from the same estimate."""

    contrasts: tuple[Contrast, ...]
    truth: float = 0.0


@dataclass(frozen=True, slots=True)
class Family:
    """The questions of one session, and which share of such sessions is looked for."""

    questions: tuple[Question, ...]
    looked_for: str
    """"a false claim", "the first is proven", or "the first is missed"."""

    def share(self, replicates: int, seed: int) -> float:
        """Return the share of sessions in which it happens."""
        rng = np.random.default_rng(seed)
        truths = np.array([question.truth for question in self.questions])
        draws = truths + ERROR * rng.standard_normal((replicates, truths.size))
        return float(np.mean([self._happens(draw) for draw in draws]))

    def _happens(self, draw: Sequence[float]) -> bool:
        verdicts = list(_decide(self.questions, draw))
        if self.looked_for == "the first is proven":
            return verdicts[0][1].proven
        if self.looked_for == "the first is missed":
            return verdicts[0][1].state == "missed"
        return any(_is_false(contrast, truth, verdict) for contrast, verdict, truth in _with_truths(self, verdicts))


NOTHING_DIFFERS = Family((Question((REGRESSION,)),) * 10, "a false claim")
FAMILIES = {
    "10 comparisons, nothing differs": NOTHING_DIFFERS,
    "the same beside 9 margins": Family(
        NOTHING_DIFFERS.questions + (Question((MARGINAL,), 0.05),) * 9, "a false claim"
    ),
    "the same with relevant differences": Family((Question((RELEVANT,)),) * 10, "a false claim"),
    "10 metrics, not worse and then better, all equal": Family((Question((MARGINAL, SUPERIOR)),) * 10, "a false claim"),
    "better, and it is equal": Family((Question((SUPERIOR,)),), "the first is proven"),
    "-9 points, alone": Family((Question((REGRESSION,), -0.09),), "the first is proven"),
    "-9 points beside 9 margins": Family(
        (Question((REGRESSION,), -0.09), *(Question((MARGINAL,)),) * 9), "the first is proven"
    ),
    "-9 points, relevant 4, alone": Family((Question((RELEVANT,), -0.09),), "the first is missed"),
    "+9 points, better": Family((Question((SUPERIOR,), 0.09),), "the first is proven"),
    "+9 points, better and before it not worse": Family((Question((SUPERIOR, MARGINAL), 0.09),), "the first is proven"),
}


def _decide(questions: Sequence[Question], draw: Sequence[float]) -> Iterator[tuple[Contrast, Verdict]]:
    contrasts = [contrast for question in questions for contrast in question.contrasts]
    compared = [
        _compare(contrast, float(value))
        for question, value in zip(questions, draw, strict=True)
        for contrast in question.contrasts
    ]
    family_size = sum(contrast.shares_alpha for contrast in contrasts)
    adjusted = adjust_p_values([_analysis(compared)], family_size=family_size)
    verdicts = decide_verdicts(adjusted, alpha=ALPHA, strict=False, family_size=family_size)
    return zip(contrasts, verdicts, strict=True)


def _with_truths(
    family: Family, verdicts: Sequence[tuple[Contrast, Verdict]]
) -> Iterator[tuple[Contrast, Verdict, float]]:
    truths = [question.truth for question in family.questions for _ in question.contrasts]
    for (contrast, verdict), truth in zip(verdicts, truths, strict=True):
        yield contrast, verdict, truth


def _is_false(contrast: Contrast, truth: float, verdict: Verdict) -> bool:
    """Return whether a difference is claimed where there is none. A margin is a gate, and claims no difference.

    Beside a relevant difference, "met, proven" claims that there is no large one, which is true. A claim of superiority is decided
    by its bound as a margin is, without a correction: what fails a session is that it is missed.
    """
    is_missed = truth == 0 and verdict.state == "missed"
    if contrast.decided_by_bounds:
        return contrast.shares_alpha and is_missed
    return contrast.shares_alpha and (is_missed or (truth == 0 and verdict.proven))


def _compare(contrast: Contrast, value: float) -> Comparison:
    p_value = float(2 * ndtr(-abs(value) / ERROR))
    reading = BoundedValue(
        value=value,
        lower=value - ONE_SIDED * ERROR,
        upper=value + ONE_SIDED * ERROR,
        p_value=p_value,
        proof_p=p_value,
    )
    return Comparison(
        contrast=contrast,
        candidate="v2",
        pairs=400,
        lost=0,
        clusters=None,
        difference=value,
        interval=Interval(low=value - 1.96 * ERROR, high=value + 1.96 * ERROR, level=0.95, method="normal"),
        p_value=p_value,
        proof_p=p_value,
        p_exact=None,
        method="normal",
        evidence=Evidence(observed=reading, worst=reading, best=reading, method="normal"),
        detectable=None,
        needed=None,
    )


def _analysis(comparisons: Sequence[Comparison]) -> Analysis:
    plan = Plan(
        nodeid="t.py::t",
        path="t.py",
        line=1,
        dataset="d",
        dataset_sha256="",
        planned=400,
        selected=400,
        groups=None,
        repeats=1,
        metrics=(),
        open_metrics=True,
        arms=(Arm(name="v2", role="candidate", adapter="v2", identity="2"),),
        targets=(),
        contrasts=tuple(comparison.contrast for comparison in comparisons),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
    )
    return Analysis(
        plan=plan, estimates=(), targets=(), comparisons=tuple(comparisons), kinds={"a": "bounded"}, finished=True
    )
