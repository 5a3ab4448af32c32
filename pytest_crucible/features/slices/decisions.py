"""Decisions: their metrics, thresholds by slice, and the parities by name as targets on these metrics."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_crucible.measures.fields import slice_samples
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.plan.grammar import parse_fields
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.datasets import AppliesTo, By, expected_decision, plain_decision, same_decision, shortest
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.function_source import sources


@dataclass(frozen=True, slots=True)
class Threshold:
    """The favourable decision for a probability above, or below, a limit."""

    limit: float
    is_above: bool = True

    def selects(self, confidence: float) -> bool:
        return confidence > self.limit if self.is_above else confidence < self.limit


@dataclass(frozen=True, slots=True)
class Rule:
    """Two thresholds, each taken with a probability, and a constant that replaces both with another one."""

    thresholds: tuple[tuple[float, Threshold], ...]
    """Probability -> threshold."""
    ignore: float = 0.0
    """How often the confidence is ignored, as equalized odds may need."""
    constant: float = 0.0
    """How often the decision is favourable then."""

    def chance(self, confidence: float) -> float:
        """Return how often a sample with this confidence is selected.

        >>> Rule(((1.0, Threshold(0.5)),)).chance(0.7)
        1.0
        """
        chosen = sum(share * threshold.selects(confidence) for share, threshold in self.thresholds)
        return self.ignore * self.constant + (1 - self.ignore) * chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Decisions by slice, fitted on a stored run: the `read` of `fairness.decision`."""

    by: By
    rules: Mapping[str, Rule]
    """Slice -> rule."""
    sample_ids: tuple[str, ...]
    """The samples that the rules were fitted on."""

    def selects(self, confidence: float, sample: Sample) -> bool:
        """Return whether a sample gets the favourable decision. A rule that is random draws by the sample's id.

        Raises ValueError for a sample of a slice that the rules were not fitted on.
        """
        names = slice_samples(self.by, [sample.expected], [sample.metadata]).names
        if not names or names[0] not in self.rules:
            slices = ", ".join(map(repr, self.rules))
            raise ValueError(
                f"sample {sample.id!r} is not in a slice of {self.by.title} that thresholds know: {slices}"
            )
        digest = hashlib.sha256(f"thresholds:{sample.id}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64 < self.rules[names[0]].chance(confidence)

    def __call__(self, reply: Reply) -> None:
        raise SpecError("thresholds need the sample: pass them as read to fairness.decision")


Read = Callable[[Reply], Any]
NOT_EXPECTED = NotApplicable("the favourable answer is not expected")
EXPECTED = NotApplicable("the favourable answer is expected")
NOT_SELECTED = NotApplicable("the decision is not the favourable one")
NO_PROBABILITY = NotApplicable("the reply states no confidence")


def decision(read: Read | Thresholds, *, favourable: Any, confidence: Read | None = None) -> tuple[Metric, ...]:
    """Return the metrics of a decision that `read` finds in a reply.

    `read` is called with the `Reply` and returns the decision, or None if it finds none: that is wrong, and not favourable. A
    decision is right if it equals the sample's `expected` (of several keys: `label`), capitals and spaces aside. `confidence`
    returns the stated probability of the favourable answer, from 0 to 1; it adds `overconfidence`: that probability minus the
    outcome, and `stated_probability`, the probability itself, of which the report shows the calibration. The other metrics:
    `correct`, `selected`, `true_positive`, `false_positive`, `right_if_selected`. Raises SpecError.

    >>> [each.name for each in decision(lambda reply: reply.text, favourable="approve")]
    ['correct', 'selected', 'true_positive', 'false_positive', 'right_if_selected']
    """
    for name, function in (("read", read), ("confidence", confidence)):
        if not callable(function) and not (name == "confidence" and function is None):
            raise SpecError(f"fairness.decision has {name}={function!r}: write a function of the reply")
    if isinstance(read, Thresholds) and confidence is None:
        raise SpecError("fairness.thresholds decides on the stated probability: pass decision(..., confidence=...) too")
    rule = _Rule(read, favourable, confidence)
    metrics = [rule.correct(), rule.selected(), rule.true_positive(), rule.false_positive(), rule.right_if_selected()]
    return (*metrics, *([] if confidence is None else [rule.overconfidence(), rule.stated_probability()]))


class _Rule:
    """One way to read decisions, and the favourable one."""

    def __init__(self, read: Read | Thresholds, favourable: Any, confidence: Read | None) -> None:
        self._read = read
        self._favourable = favourable
        self._version = _version(read, favourable)
        self._stated = partial(_stated_probability, confidence)
        self._stated_version = "" if confidence is None else f"{self._version}:{_version(confidence, None)}"

    def _selects(self, reply: Reply, sample: Sample) -> bool:
        if isinstance(self._read, Thresholds):
            stated = self._stated(reply)
            return stated is not None and self._read.selects(stated, sample)
        return same_decision(self._read(reply), self._favourable)

    def _is_right(self, reply: Reply, sample: Sample) -> bool:
        if isinstance(self._read, Thresholds):
            return self._selects(reply, sample) == self._deserves(sample)
        return same_decision(self._read(reply), expected_decision(sample.expected))

    def _deserves(self, sample: Sample) -> bool:
        return same_decision(expected_decision(sample.expected), self._favourable)

    def _metric(self, name: str, score: Callable[[Reply, Sample], Any], **declared: Any) -> Metric:
        declared_metric = metric(name=name, **{"kind": "binary", "version": self._version, **declared})(score)
        fitted = self._read.sample_ids if isinstance(self._read, Thresholds) else ()
        return declared_metric.with_check(self._check).with_fitted_samples(fitted)

    def _conditional(self, scored: Metric, *, is_expected: bool) -> Metric:
        condition = AppliesTo(plain_decision(self._favourable), is_expected)
        return replace(scored, facts=replace(scored.facts, applies_to=condition, applies="sample"))

    def _check(self, samples: Sequence[Sample]) -> str:
        answers = {
            plain_decision(expected_decision(sample.expected)): expected_decision(sample.expected) for sample in samples
        }
        answers.pop(plain_decision(None), None)
        if not answers:
            return f"favourable={_quote(self._favourable)} cannot be compared: no sample has an expected answer"
        if plain_decision(self._favourable) in answers:
            return ""
        choices = " or ".join(map(_quote, sorted(answers.values(), key=str)[:6]))
        return f"favourable={_quote(self._favourable)} is not an expected answer; choose {choices}"

    def correct(self) -> Metric:
        return self._metric("correct", self._is_right)

    def selected(self) -> Metric:
        return self._metric("selected", self._selects)

    def true_positive(self) -> Metric:
        def score(reply: Reply, sample: Sample) -> bool | NotApplicable:
            return self._selects(reply, sample) if self._deserves(sample) else NOT_EXPECTED

        return self._conditional(self._metric("true_positive", score), is_expected=True)

    def false_positive(self) -> Metric:
        def score(reply: Reply, sample: Sample) -> bool | NotApplicable:
            return EXPECTED if self._deserves(sample) else self._selects(reply, sample)

        return self._conditional(self._metric("false_positive", score, direction="lower"), is_expected=False)

    def right_if_selected(self) -> Metric:
        def score(reply: Reply, sample: Sample) -> bool | NotApplicable:
            return self._deserves(sample) if self._selects(reply, sample) else NOT_SELECTED

        return self._metric("right_if_selected", score, applies="reply")

    def overconfidence(self) -> Metric:
        def score(reply: Reply, sample: Sample) -> float | NotApplicable:
            stated = self._stated(reply)
            return NO_PROBABILITY if stated is None else stated - self._deserves(sample)

        declared = {"kind": "bounded", "bounds": (-1, 1), "direction": "lower", "version": self._stated_version}
        return self._metric("overconfidence", score, **declared, applies="reply")

    def stated_probability(self) -> Metric:
        """Return the metric of the probability as it was stated.

        It cannot be found from overconfidence: (0.3 - 1) + 1 is not 0.3, which breaks ties in favour of the outcome.
        """

        def score(reply: Reply, sample: Sample) -> float | NotApplicable:
            stated = self._stated(reply)
            return NO_PROBABILITY if stated is None else stated

        # Without bounds, because a failed reply states no probability, also not the worst one.
        scored = self._metric(
            "stated_probability", score, kind="unbounded", version=self._stated_version, applies="reply"
        )
        return replace(scored, facts=replace(scored.facts, is_part=True, is_directed=False))


def _stated_probability(confidence: Read | None, reply: Reply) -> float | None:
    stated = None if confidence is None else confidence(reply)
    if stated is not None and not 0 <= float(stated) <= 1:
        raise ValueError(f"confidence returned {stated!r}: return a probability from 0 to 1")
    return None if stated is None else float(stated)


def _quote(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _version(function: Read | Thresholds, favourable: Any) -> str:
    """Return a hash of what the function reads, so that scores by another rule are never reused."""
    parts = [repr(function.rules)] if isinstance(function, Thresholds) else list(sources(function))
    text = "\n".join([*parts, repr(favourable)])
    return f"1:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def demographic_parity(*, by: str, limit: float = 0.10) -> str:
    """Return the target that slices are selected about equally often: `gap(selected by sex) <= 0.10`."""
    return _target("demographic_parity", "gap(selected by {}) <= {}", by, limit)


def disparate_impact(*, by: str, limit: float = 0.80) -> str:
    """Return the target that no slice is selected less than four fifths as often as another: `ratio(selected by sex) >= 0.80`."""
    return _target("disparate_impact", "ratio(selected by {}) >= {}", by, limit)


def equalized_odds(*, by: str, limit: float = 0.10) -> str:
    """Return the target that slices have about the same true-positive and the same false-positive rate."""
    return _target("equalized_odds", "gap(true_positive, false_positive by {}) <= {}", by, limit)


def equal_opportunity(*, by: str, limit: float = 0.10) -> str:
    """Return the target of equal true positive rates: samples that deserve the favourable answer get it about equally often."""
    return _target("equal_opportunity", "gap(true_positive by {}) <= {}", by, limit)


def predictive_parity(*, by: str, limit: float = 0.10) -> str:
    """Return the target that the favourable answer is right about equally often."""
    return _target("predictive_parity", "gap(right_if_selected by {}) <= {}", by, limit)


def calibration(*, by: str, limit: float = 0.10) -> str:
    """Return the target that stated probabilities are too high, or too low, by about as much in all slices."""
    return _target("calibration", "gap(overconfidence by {}) <= {}", by, limit)


def _target(function: str, text: str, by: str, limit: float) -> str:
    """Return the target as text. Raises SpecError for a field or a limit that no target could have."""
    if not isinstance(by, str):
        raise SpecError(f"fairness.{function} has by={by!r}: write a field of the samples as text, such as by='sex'")
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if not is_number or not 0 <= limit <= 1:
        raise SpecError(f"fairness.{function} has limit={limit!r}: write a number from 0 to 1, such as limit=0.05")
    parse_fields(by, f"fairness.{function} has by={by!r}, which")
    digits = f"{limit:.2f}"
    target = text.format(by, digits if float(digits) == limit else shortest(float(limit)))
    parse_target(target)
    return target
