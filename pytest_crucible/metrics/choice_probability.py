"""The expected score of a multiple-choice question: the probability that the model gives the right choice."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_crucible.metrics.definition import NotApplicable, metric
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.records import Reply, Sample

_NO_PROBABILITIES = NotApplicable(
    "the reply has no probabilities of choices: return await sampler.choose(prompt, choices) from the test"
)


@metric(kind="bounded", bounds=(0, 1), version="1")
def expected_score(reply: Reply, sample: Sample) -> float | NotApplicable:
    """The probability of the expected choice among all, of a reply of `sampler.choose` (Miller 2024, section 3.2).

    It has the same mean as right or wrong of sampled replies, without the noise of sampling. Choices are compared without the
    blanks around them; an expected answer that is not a choice scores 0.
    """
    if sample.expected is None:
        return NO_EXPECTED
    if not isinstance(reply.value, Mapping) or not reply.value:
        return _NO_PROBABILITIES
    expected = str(sample.expected).strip()
    return min(1.0, sum(float(p) for choice, p in reply.value.items() if str(choice).strip() == expected))
