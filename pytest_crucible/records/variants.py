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


SAME_ANSWER = "same_answer"
"""The metric that a reply to a twin has: whether it gives the same answer as the reply to the original."""
LATE = "late"
"""A fact of a twin whose text is written or found while the experiment runs: its input is the sample's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantGroup:
    """Variants that a term names together, such as the draws of one attack, or all attacked variants."""

    name: str
    """The name that targets write in brackets."""
    variants: tuple[str, ...]
    is_worst: bool = False
    """The values of a sample are their worst, not their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRules:
    """The facts of a stored plan's variants that their feature knows."""

    normalise: str = "text"
    """What makes two replies one answer, for `same_answer`."""
    kept: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    """Variant -> sample -> whether the expected answer is still right, by a person's label."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that stand for several variants together."""
    attacked: tuple[str, ...] = ()
    """The variants in which somebody tries to change the reply."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Terms of a metric that only one variant has, which therefore needs no brackets."""
