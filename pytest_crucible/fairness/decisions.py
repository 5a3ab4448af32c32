"""Metrics of a decision: whether it is right, favourable, and each with the samples that the parities are about."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_crucible.fairness.threshold_rules import Thresholds
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.function_source import sources

Read = Callable[[Reply], Any]
# Keys of an `expected` that has several, by which the expected decision is found.
_LABELS = ("label", "decision", "answer")
NOT_EXPECTED = NotApplicable("the favourable answer is not expected")
EXPECTED = NotApplicable("the favourable answer is expected")
NOT_SELECTED = NotApplicable("the decision is not the favourable one")


def decision(read: Read | Thresholds, *, favourable: Any, confidence: Read | None = None) -> tuple[Metric, ...]:
    """Return the metrics of a decision that `read` finds in a reply.

    `read` is called with the `Reply` and returns the decision, or None where it finds none: that is wrong, and not favourable. A
    decision is right if it equals the sample's `expected` (of several keys: `label`), capitals and spaces aside. `confidence`
    returns the stated probability of the favourable answer, from 0 to 1; it adds `overconfidence`: that probability minus the
    outcome. The metrics: `correct`, `selected`, `true_positive`, `false_positive`, `right_if_selected`. Raises SpecError.

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
    return (*metrics, *([] if confidence is None else [rule.overconfidence(confidence)]))


class _Rule:
    """One way to read decisions, and the favourable one."""

    def __init__(self, read: Read | Thresholds, favourable: Any, confidence: Read | None) -> None:
        self._read = read
        self._favourable = favourable
        self._confidence = confidence
        self._version = _version(read, favourable)

    def _selects(self, reply: Reply, sample: Sample) -> bool:
        if isinstance(self._read, Thresholds):
            stated = None if self._confidence is None else self._confidence(reply)
            return stated is not None and self._read.selects(float(stated), sample)
        return _same(self._read(reply), self._favourable)

    def _is_right(self, reply: Reply, sample: Sample) -> bool:
        if isinstance(self._read, Thresholds):
            return self._selects(reply, sample) == self._deserves(sample)
        return _same(self._read(reply), expected_decision(sample.expected))

    def _deserves(self, sample: Sample) -> bool:
        return _same(expected_decision(sample.expected), self._favourable)

    def _metric(self, name: str, score: Callable[[Reply, Sample], Any], **declared: Any) -> Metric:
        declared_metric = metric(name=name, version=self._version, **{"kind": "binary", **declared})(score)
        fitted = self._read.sample_ids if isinstance(self._read, Thresholds) else ()
        return declared_metric.with_check(self._check).with_fitted_samples(fitted)

    def _check(self, samples: Sequence[Sample]) -> str:
        """Explain a favourable answer that no sample expects; empty if some sample does."""
        answers = {_plain(expected_decision(sample.expected)): expected_decision(sample.expected) for sample in samples}
        answers.pop(_plain(None), None)
        if not answers:
            return f"favourable={_quote(self._favourable)} cannot be compared: no sample has an expected answer"
        if _plain(self._favourable) in answers:
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

        return self._metric("true_positive", score)

    def false_positive(self) -> Metric:
        def score(reply: Reply, sample: Sample) -> bool | NotApplicable:
            return EXPECTED if self._deserves(sample) else self._selects(reply, sample)

        return self._metric("false_positive", score, direction="lower")

    def right_if_selected(self) -> Metric:
        def score(reply: Reply, sample: Sample) -> bool | NotApplicable:
            return self._deserves(sample) if self._selects(reply, sample) else NOT_SELECTED

        return self._metric("right_if_selected", score)

    def overconfidence(self, confidence: Read) -> Metric:
        def score(reply: Reply, sample: Sample) -> float | NotApplicable:
            stated = confidence(reply)
            if stated is None:
                return NotApplicable("the reply states no confidence")
            if not 0 <= float(stated) <= 1:
                raise ValueError(f"confidence returned {stated!r}: return a probability from 0 to 1")
            return float(stated) - self._deserves(sample)

        self._version = f"{self._version}:{_version(confidence, None)}"
        return self._metric("overconfidence", score, kind="bounded", bounds=(-1, 1), direction="lower")


def expected_decision(expected: Any) -> Any:
    """Return the decision that a sample expects: its `expected`, or its label where that has several keys.

    >>> expected_decision({"label": "approve", "sex": "male"}), expected_decision("deny")
    ('approve', 'deny')
    """
    if not isinstance(expected, Mapping):
        return expected
    return next((expected[key] for key in _LABELS if key in expected), None)


def _same(found: Any, wanted: Any) -> bool:
    return found is not None and wanted is not None and _plain(found) == _plain(wanted)


def _plain(value: Any) -> str:
    return str(value).strip().casefold()


def _quote(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _version(function: Read | Thresholds, favourable: Any) -> str:
    """Return a hash of what the function reads, so that scores by another rule are never reused."""
    parts = [repr(function.rules)] if isinstance(function, Thresholds) else list(sources(function))
    text = "\n".join([*parts, repr(favourable)])
    return f"1:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
