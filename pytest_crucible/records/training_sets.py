"""Training sets: the stored replies that they are made of, and their rows.

Records of single replies are named tuples: a frozen dataclass takes four times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

AttemptState = Literal["answered", "failed", "skipped", "lost"]
TrainingTask = Literal["sft", "dpo", "kto"]
TASKS: tuple[TrainingTask, ...] = ("sft", "dpo", "kto")


@dataclass(frozen=True, slots=True)
class AttemptSource:
    """The arm that replied, in one experiment of one run."""

    run: str
    experiment: str
    arm: str


class SampleFacts(NamedTuple):
    """A sample as a training set needs it. The dataset's SHA-256 and the position identify it."""

    dataset: str
    position: int
    id: str
    group: str | None
    expected: Any
    is_gate: bool
    """Whether a verdict depends on it, so that training on it would spoil the verdict."""


class Attempt(NamedTuple):
    """One reply of an arm to one sample, with the prompt as it was sent."""

    source: AttemptSource
    sample: SampleFacts
    variant: int
    repeat: int
    prompt: Any
    """A text or messages; None if it is neither, or where the test called the model several times."""
    template: int | None
    """The key of the prompt form that the test wrote around the sample's own texts; None if the whole prompt is the sample's."""
    own: str
    """The sample's own texts in the prompt."""
    reply: str | None
    """The reply to the call; None if it has none."""
    calls: int
    state: AttemptState
    value: float | None
    """The value of the metric that decides; None if it does not apply, or was not measured."""


class TrainingRow(NamedTuple):
    """One row of a training set, before it is written in a format."""

    prompt: Any
    """A text or messages."""
    template: int | None
    own: str
    completion: str
    """The reply to learn; of a preference, the chosen one."""
    rejected: str | None
    """The rejected reply of a preference."""
    label: bool | None
    """Whether the reply passed, in a KTO row."""
    group: str
    """Rows of one group are never divided between a file and its holdout."""
    origin: Mapping[str, Any]
    """Run, experiment, arm, sample, variant and repeat."""
