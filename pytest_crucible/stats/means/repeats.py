"""Repeats of the same questions: how much of the noise is theirs, and what more repeats or questions would bring.

Score of question q in repeat k = mean + question_q + noise_qk (Miller 2024, sec. 3). The question is the unit: repeats
treated as questions raise false positives to 15 % (five) and 25 % (ten).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted, number
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.means.one_way import OneWay, one_way
from pytest_crucible.stats.observations import Array, Codes, finite, is_constant

Repeats = Sequence[Sequence[float]] | npt.NDArray[np.float64]
"""The repeats of each question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceComponents:
    """Where the noise of a mean over questions comes from. None where one repeat per question cannot tell."""

    mean: float
    """Mean of the questions' means."""
    between: float | None
    """Variance of the questions' true means. Negative when they differ less than their noise explains."""
    within: float | None
    """Variance of the repeats of one question."""
    icc: float | None
    """between / (between + within): the share of a single answer's variance that the question explains."""
    se: float
    """Standard error of the mean, from the questions' means; 0 when they are all equal."""
    se_single: float | None
    """Expected with one repeat per question."""
    se_repeats_doubled: float | None
    """Expected with twice the repeats; never below sqrt(between / questions)."""
    se_questions_doubled: float
    """Expected with twice the questions."""
    questions: int
    repeats: int

    def __str__(self) -> str:
        variances = f"between {number(self.between)}, within {number(self.within)}, icc {number(self.icc)}"
        size = f"questions={self.questions:,}, repeats={self.repeats:,}"
        return f"{number(self.mean)}, se {number(self.se)}; variance {variances}, {size}"


def variance_components(groups: Repeats) -> VarianceComponents:
    """Between and within variance of repeats grouped by question: a list of repeats for each question.

    Moment estimates, which are REML (R: lme4::lmer(v ~ 1 + (1|q))) when all questions have equally many repeats and
    `between` is not negative. Unequal numbers are allowed. Raises ValueError for a question without repeats or with
    NaN, and NotEnoughData below two questions.

    >>> parts = variance_components([[1, 0], [1, 1], [0, 0], [1, 1]])
    >>> round(parts.between, 4), parts.within, round(parts.se, 4), round(parts.se_questions_doubled, 4)
    (0.1667, 0.125, 0.2394, 0.1693)
    """
    values, codes, sizes = _flattened(groups)
    means = np.bincount(codes, weights=values) / sizes
    split, se = one_way(values, codes), 0.0 if is_constant(means) else standard_error(means)
    single, doubled = _expected(split, sizes)
    return VarianceComponents(
        mean=float(means.mean()),
        between=split.between,
        within=split.within,
        icc=split.icc,
        se=se,
        se_single=single,
        se_repeats_doubled=doubled,
        se_questions_doubled=se / math.sqrt(2),
        questions=split.groups,
        repeats=values.size,
    )


def _expected(split: OneWay, sizes: Codes) -> tuple[float | None, float | None]:
    """Standard errors of the mean with one repeat per question, and with twice the repeats of each."""
    if split.within is None or split.between is None:
        return None, None
    kept = float((0.5 / sizes).mean()) * split.within
    doubled = max(split.between, 0.0) + kept  # a negative variance would promise more than repeats can keep
    return math.sqrt((split.between + split.within) / split.groups), math.sqrt(doubled / split.groups)


def _flattened(groups: Repeats) -> tuple[Array, Codes, Codes]:
    """All values, the question of each, and the number of repeats of each question."""
    rows: Sequence[Sequence[float]] = groups.tolist() if isinstance(groups, np.ndarray) else groups
    sizes = np.array([len(row) for row in rows], dtype=np.intp)
    if sizes.size and sizes.min() == 0:
        raise ValueError(f"{int((sizes == 0).sum())} of {sizes.size} questions have no repeats")
    if sizes.size < 2:
        raise NotEnoughData(f"{counted(sizes.size, 'question')}: the variance between questions needs at least 2")
    values = finite(list(chain.from_iterable(rows)))
    return values, np.repeat(np.arange(sizes.size), sizes), sizes
