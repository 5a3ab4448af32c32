"""Rules that decide by the slice of a sample on a stated probability."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_crucible.measures.fields import slice_samples
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.slices import By


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
