"""Results of comparing samples with the rows that a model was trained on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

How = Literal["exact", "long", "near", "group"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A sample that a training row matches, by the strongest of its matches."""

    position: int
    """The sample's place in its dataset."""
    sample: str
    how: How
    row: int
    """The line or number of the training row."""
    similarity: float
    """Jaccard similarity for a near match, the share of the sample's word sequences for a long one, otherwise 1."""
    other_answer: bool = False
    """True when every matching row has another answer than the sample expects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The samples of a dataset compared with one training file."""

    file: str
    sha256: str = ""
    problem: str = ""
    """Why the file cannot be checked; empty if it was. An unchecked file is not a clean one."""
    rows: int = 0
    samples: int = 0
    matches: tuple[Match, ...] = ()
    similar: int = 0
    """Samples with a training row of a Jaccard similarity of at least 0.5."""
    similar_near: int = 0
    """Samples with a training row of a Jaccard similarity of at least `near`."""
    shared: int = 0
    """Samples that share a sequence of 8 words with a training row."""
    too_short: int = 0
    """Samples of fewer than 8 words, which can share none."""
    near: float = 0.8
    """The Jaccard similarity from which on a match is near."""

    def with_name(self, file: str) -> Overlap:
        """Return the same result under another name of the file."""
        return replace(self, file=file)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmOverlap:
    """An arm's samples compared with all files that it was trained on."""

    arm: str
    files: tuple[Overlap, ...]

    @property
    def positions(self) -> frozenset[int]:
        """The positions of all matched samples."""
        return frozenset(match.position for file in self.files for match in file.matches)
