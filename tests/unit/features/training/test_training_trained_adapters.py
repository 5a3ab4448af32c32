"""Adapters that recipes have trained: the steps that they keep, and the events of a training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from training_builders import make_lineage, make_recipe, steps, train_recipe

from pytest_crucible.backends.lineages import TrainedAdapter
from pytest_crucible.features.training.adapters import find_step, with_checkpoint
from pytest_crucible.features.training.log import OpenStep, TrainingLog
from pytest_crucible.features.training.losses import row_advantages
from pytest_crucible.features.training.recipe import emit_checkpoint, emit_step, find_damaged, find_trained
from pytest_crucible.local_model.checkpoints import load_sampler
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.local_model.losses import AdamParams
from pytest_crucible.records import Adapter, Event
from pytest_crucible.records.errors import SpecError


def keep_two_and_four(trainer):
    trainer.checkpoint(2)
    steps(trainer, 4)
    trainer.checkpoint(4)
    steps(trainer, 1)


def keep_nothing(trainer):
    steps(trainer, 2)


def stop_after_keeping(trainer):
    trainer.checkpoint(1)
    steps(trainer, 1)
    trainer.step(trainer.datums([{"prompt": "2?", "completion": "five"}]), learning_rate=1e300)


def weights(engine: Engine, place: Path) -> dict[str, np.ndarray]:
    return dict(load_sampler(place, engine.shape, engine.base_sha256).factors)


def test_the_weights_of_a_step_are_those_of_a_training_that_ends_there(engine, tmp_path):
    whole, _ = train_recipe(make_recipe(engine, keep_two_and_four), tmp_path)
    short, _ = train_recipe(make_recipe(engine, keep_nothing), tmp_path)

    remaining, last = weights(engine, whole.path / "step-2"), weights(engine, short.path)
    assert whole.lineage.kept == (2, 4)
    assert all(np.array_equal(remaining[name], last[name]) for name in last)
    assert not all(np.array_equal(remaining[name], values) for name, values in weights(engine, whole.path).items())


def test_adapters_that_differ_in_the_step_alone_share_one_training(engine, tmp_path):
    recipe = make_recipe(engine, keep_two_and_four)
    early, late = replace(recipe, at=2), replace(recipe, adapter="v3", at=4)
    whole, _ = train_recipe(early, tmp_path)

    assert early.key == late.key == recipe.key
    assert len({recipe.identity, early.identity, late.identity}) == 3
    assert find_trained(late, tmp_path) == whole
    adapter = Adapter(name="v3", backend="local", options={"recipe": "recipes:train", "at": 4, "base": "tiny"})
    located = with_checkpoint(adapter, whole)
    assert located.options == {"base": "tiny", "checkpoint": str(whole.path / "step-4")}
    lineage = find_step(adapter, 4, whole).lineage
    assert (lineage.step, lineage.result.training_steps, lineage.losses) == (4, 4, whole.lineage.losses[:4])
    assert lineage.adapter_sha256 != whole.lineage.adapter_sha256
    # The last step needs no call.
    assert find_step(adapter, 5, whole) == whole


def test_a_damaged_step_is_trained_again_where_it_is_needed(engine, tmp_path):
    recipe = make_recipe(engine, keep_two_and_four)
    whole, _ = train_recipe(recipe, tmp_path)
    (whole.path / "step-2" / "adapter.safetensors").write_bytes(b"damaged")

    assert find_trained(replace(recipe, at=2), tmp_path) is None
    assert find_damaged(replace(recipe, at=2), tmp_path) == whole.path / "step-2"
    assert find_trained(replace(recipe, at=4), tmp_path) == whole
    with pytest.raises(SpecError, match=r"step 2 in '.*' is damaged: train it again with --crucible-train"):
        find_step(Adapter(name="v2", backend="local", options={"recipe": "recipes:train"}), 2, whole)
    _, is_new = train_recipe(replace(recipe, at=2), tmp_path)
    assert is_new


def test_steps_of_a_training_that_stopped_are_kept(engine, tmp_path):
    with pytest.raises(SpecError, match="stopped at step 2"):
        train_recipe(make_recipe(engine, stop_after_keeping), tmp_path)

    (folder,) = tmp_path.glob("*-stopped")
    assert weights(engine, folder / "step-1")


@pytest.mark.parametrize(
    ("function", "at", "sentence"),
    [
        (
            keep_two_and_four,
            3,
            "kept steps 2, 4 and its last, 5: use one of them, or call trainer.checkpoint(3) in it",
        ),
        (keep_two_and_four, 9, "kept steps 2, 4 and its last, 5: use one of them"),
        (keep_nothing, 1, "kept its last step, 2: use at = 2, or call trainer.checkpoint(1) in it"),
    ],
)
def test_a_step_that_was_not_kept(engine, tmp_path, function, at, sentence):
    whole, _ = train_recipe(make_recipe(engine, function), tmp_path)

    with pytest.raises(SpecError) as caught:
        find_step(Adapter(name="v2", backend="local", options={"recipe": "recipes:train"}), at, whole)

    assert str(caught.value) == f"adapter 'v2' has at = {at}, but recipe 'recipes:train' {sentence}"


def test_checkpoints_that_cannot_be_kept(trainer):
    for step in (0, "3", True):
        with pytest.raises(ValueError, match="is not a step: write a whole number from 1"):
            trainer.checkpoint(step)
    trainer.checkpoint(1)
    steps(trainer, 3)

    trainer.checkpoint(1)
    with pytest.raises(ValueError, match=r"checkpoint\(2\) comes after step 3: call it before step 3"):
        trainer.checkpoint(2)
    assert list(trainer.kept) == [1]


def test_each_step_is_emitted():
    reported: list[Event] = []
    log = TrainingLog([2.0, 1.0], [3.0, 3.0], [0.1, 0.1], [50, 100], [0.5, 0.25])
    emit_step(log, reported.append, "v2")

    [item] = reported
    assert (item.name, item.arm, item.experiment, item.seconds) == ("train.step", "v2", "", 0.25)
    assert item.facts == {
        "step": 2, "loss": 1.0, "gradient_norm": 3.0, "learning_rate": 0.1, "tokens": 100, "tokens_per_s": 400.0
    }  # fmt: skip


def test_a_step_of_a_policy_is_emitted_with_its_samples_and_their_advantage():
    reported: list[Event] = []
    log = TrainingLog()
    inputs = [{"advantages": [0.0, 0.5, 0.5]}, {"advantages": [0.0, -1.0]}, {"advantages": [0.0]}, {}]
    for rows in (inputs, inputs[3:]):
        step = OpenStep()
        step.add("digest", 1.0, 2.0, 5, row_advantages([Datum([1] * 3, row) for row in rows]))
        step.write(log, None, AdamParams())
        emit_step(log, reported.append, "v2")

    policy, other = (event.facts for event in reported)
    assert (policy["samples"], policy["advantage"]) == (3, -0.5 / 3)
    assert not {"samples", "advantage"} & set(other)


def test_a_recipe_that_stops_early_emits_how_many_steps_it_was_to_make(trainer):
    reported: list[Event] = []
    for step in trainer.steps(9):
        steps(trainer, 1)
        if step == 2:
            break
    trained = TrainedAdapter(Path("adapters/v2"), make_lineage(adapter_sha256="ab"))
    emit_checkpoint(reported.append, trained, "v2", trainer.log.planned_steps)

    assert len(trainer.log.losses) == 2
    assert (reported[0].facts["steps"], reported[0].facts["planned_steps"]) == (2, 9)


def test_a_new_adapter_emits_a_checkpoint():
    reported: list[Event] = []
    emit_checkpoint(reported.append, TrainedAdapter(Path("adapters/v2"), make_lineage(adapter_sha256="ab")), "v2")

    [item] = reported
    assert (item.name, item.arm, item.seconds) == ("checkpoint", "v2", 1.5)
    assert item.facts == {
        "path": "adapters/v2", "sha256": "ab", "recipe": "recipes:train", "steps": 2, "final_loss": 1.0
    }  # fmt: skip
