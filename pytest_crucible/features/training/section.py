"""Training of the arms, and a warning where a target rests on a single training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_crucible.records import Arm, Claim, Note, TrainingResult, View
from pytest_crucible.records.statistics import known_numbers
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.number_format import quantity

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainings:
    """Training results by the arm's name, or by that of each of its trainings."""

    candidate: Arm
    results: Mapping[str, TrainingResult]
    has_target: bool
    """A quality target is about a number of the candidate's training."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """Arm -> the step of its training that it is, where the recipe kept it before the end."""


def compute(inputs: SectionInputs) -> Trainings | None:
    """Return the training of each arm where it is known; None if no arm's is."""
    arms = inputs.plan.arms
    results = {arm.name: arm.training for arm in arms if arm.training is not None}
    results |= {one.name: one.result for arm in arms for one in arm.trainings if one.result is not None}
    if not results:
        return None
    candidate = inputs.plan.candidate
    # A metric of the same name goes before the training's number.
    metrics = [target.metric for target in inputs.plan.targets if target.metric not in inputs.facts]
    numbers = [getattr(candidate.training, name, None) for name in metrics if name in known_numbers()]
    return Trainings(
        candidate=candidate,
        results=results,
        has_target=any(number is not None for number in numbers),
        steps={arm.name: arm.step for arm in arms if arm.step is not None},
    )


def claims(trainings: Trainings) -> Sequence[Claim]:
    """Return no claims."""
    return ()


def view(trainings: Trainings, claims: Sequence[Claim]) -> View:
    """Return a note on each arm that a recipe kept before its end, and one if a target is about the candidate's training."""
    notes = [
        Note(text=f"{arm} has the weights of step {step}, which its recipe kept before its end")
        for arm, step in trainings.steps.items()
    ]
    if trainings.has_target and trainings.candidate.training is not None:
        notes.append(_note(trainings.candidate, trainings.candidate.training))
    return View(title="Training", notes=tuple(notes), document=trainings.results)


def _note(candidate: Arm, training: TrainingResult) -> Note:
    steps = quantity(training.training_steps, "step")
    return Note(text=f"{candidate.name} was trained once, in {steps}: another seed may give other numbers")
