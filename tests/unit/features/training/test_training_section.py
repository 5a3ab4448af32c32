"""The training of arms, and a warning where a target rests on one training."""

from __future__ import annotations

import dataclasses

import pytest
from answer_builders import arm, inputs_of

from pytest_crucible.features.training import numbers as training
from pytest_crucible.features.training.log import summarise_training
from pytest_crucible.records.serialize import to_plain

RESULT = summarise_training([2.0, 1.0, 1.0], [3.0, 1.0, 1.0])


def inputs_with_target(target: str):
    """Inputs of an experiment whose candidate was trained, with one target."""
    inputs = inputs_of(arm(a=[1.0, 0.0]), arm(a=[1.0, 0.0]), targets=[target])
    candidate, baseline = inputs.plan.arms
    arms = (dataclasses.replace(candidate, training=RESULT), baseline)
    return dataclasses.replace(inputs, plan=dataclasses.replace(inputs.plan, arms=arms))


def test_without_a_known_training_there_is_nothing_to_show():
    assert training.compute(inputs_of(arm(a=[1.0]))) is None


@pytest.mark.parametrize(("target", "notes"), [("loss_reduction >= 0.4", 1), ("a >= 0.4", 0)])
def test_a_target_on_a_training_is_called_one_of_many(target, notes):
    result = training.compute(inputs_with_target(target))
    view = training.view(result, ())

    assert [note.text for note in view.notes] == notes * [
        "v2 was trained once, in 3 steps: another seed may give other numbers"
    ]
    assert to_plain(view.document) == {"v2": {
        "training_steps": 3, "first_loss": 2.0, "final_loss": 1.0, "loss_reduction": 0.5, "convergence_steps": 2,
        "largest_gradient_norm": 3.0, "gradient_norms_finite": True,
    }}  # fmt: skip
