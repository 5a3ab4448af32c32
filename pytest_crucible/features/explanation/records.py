"""Records of explanations that a run stores beside replies and scores."""

from __future__ import annotations

from pytest_crucible.features.explanation.segments import Segment
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.attribution.sets import SetPlan

VARIANT = "parts left out"
"""The name of the variant with all versions of a sample but the whole prompt, which is the sample itself."""


def subject_of(nodeid: str) -> str:
    """Return the subject under which a run keeps the explanations of an experiment, by the positions of samples."""
    return f"explanation of {nodeid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The versions of one sample."""

    sample: str
    kind: str
    """The option `--crucible-segments`."""
    segments: tuple[tuple[Segment, ...], ...]
    """By arm: where the segments are in its first request."""
    lengths: tuple[int, ...]
    """Of the texts of the messages in the candidate's first request; 0 for one without a text."""
    sets: SetPlan
    """What is requested. Sets that followed from scores come last."""
    planned: int
    """The number of sets that were planned before any score was known."""
    calls: int
    """The option `--crucible-explain-calls`."""

    def place(self, number: int, draw: int) -> tuple[int, int]:
        """Return (twin, repeat) of a request of a set: the first set is the sample itself, all others have one table."""
        return (1, (number - 1) * self.sets.repeats + draw) if number else (0, draw)

    def set_at(self, twin: int, repeat: int) -> tuple[int, int]:
        """Return (number of the set, draw) of a unit, the inverse of `place`."""
        number, draw = divmod(repeat, self.sets.repeats)
        return (number + 1, draw) if twin else (0, repeat)

    def left_out(self, number: int) -> tuple[int, ...]:
        """Return the segments that are not in a set, counted from 1."""
        mask = self.sets.masks[number]
        return tuple(segment + 1 for segment in range(self.sets.segments) if not mask >> segment & 1)
