"""Variants: named forms of the samples of an experiment, such as an attacked prompt or one with a swapped pronoun.

A variant gives each sample a twin, which shares its id, its group and its metadata and has an input of its own. An experiment
sends each original sample, and then its twin in each variant: to all arms, interleaved, with the same repeats. Targets and
comparisons use the original samples, unless they name a variant: `exact_match[she] >= 0.9`.

A dataset brings variants along with its samples:

    Sample(id="s1", input="He is late.", variants={"she": Twin(input="She is late."), "they": NoTwin("no plural verb")})

Samples without a twin of some name do not have that variant. A variant is not part of a dataset's hash: stored replies to the
original samples stay in use when a variant is added.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


class _Unchanged(enum.Enum):
    """An enumeration, so that it is the same object in every process."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = _Unchanged.UNCHANGED
"""The twin has the sample's own `expected`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A sample as a variant sends it. The sample's id, group and metadata stay."""

    input: Any
    expected: Any = UNCHANGED
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the change, as JSON, which the run store keeps: which words were edited, for example."""


@dataclass(frozen=True, slots=True)
class NoTwin:
    """Marks a variant that does not apply to a sample: nothing is sent, and no metric applies."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A named variant of the samples of an experiment."""

    name: str
    """The name that targets write in brackets: `homoglyph`, or with a number, `homoglyph 0.1`."""
    twins: Mapping[str, Twin | NoTwin]
    """Sample's id -> its twin. The variant does not apply to samples without an entry."""
    key: str = ""
    """What replies depend on besides the twins: the version of the code that makes a text while a test runs, for example."""

    def twin(self, sample_id: str) -> Twin | NoTwin:
        """Return the twin of a sample, or why it has none."""
        return self.twins.get(sample_id, NO_TWIN)


NO_TWIN = NoTwin("the dataset has no twin")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVariant:
    """A variant in the plan of an experiment."""

    name: str
    sha256: str
    """The hash of its twins, in the order of the samples."""
    samples: int
    """How many samples it applies to."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why it does not apply to the others: reason -> samples."""
