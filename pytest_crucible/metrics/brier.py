"""The Brier score of each reply's confidence, which a session can gate and compare."""

from __future__ import annotations

from pytest_crucible.metrics.confidence import confidence_of
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError

NO_CONFIDENCE = NotApplicable("the backend gives no logprobs: ask for them in the adapter's parameters")


def brier(right: Metric, *, name: str = "brier") -> Metric:
    """Return a metric of (confidence - right)^2.

    0 is sure and right, 1 is sure and wrong, 0.25 is a confidence of one half.

    `right` decides what is right; the confidence is `confidence_of` the reply. The mean over samples is the Brier score (1950).
    Raises SpecError unless `right` is declared as binary.

    >>> from pytest_crucible.metrics import exact_match
    >>> reply = Reply(text="4", logprobs=(-0.6931471805599453,))
    >>> brier(exact_match)(reply, Sample(id="1", input="2 + 2", expected="4"))
    0.25
    """
    if right.facts.kind != "binary":
        raise SpecError(
            f"brier({right.name}) needs a binary metric: declare it with kind='binary', or give another one"
        )

    @metric(
        name=name,
        bounds=(0, 1),
        direction="lower",
        version=f"1:{right.name}:{right.facts.version}",
        applies=right.facts.applies,
    )
    def score(reply: Reply, sample: Sample) -> float | NotApplicable:
        """The squared distance of the reply's confidence from being right."""
        confidence, outcome = confidence_of(reply), right(reply, sample)
        if outcome is None or isinstance(outcome, NotApplicable):
            return NotApplicable(f"{right.name} does not apply") if outcome is None else outcome
        return NO_CONFIDENCE if confidence is None else (confidence - float(outcome)) ** 2

    return score
