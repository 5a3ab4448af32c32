"""Trainings that are interrupted, or that their service loses: they resume from a state, or fail with one sentence."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from training_builders import ROWS, make_recipe, steps, train_recipe

from pytest_crucible.backends.lineages import TrainedAdapter
from pytest_crucible.features.training.log import TrainingLost
from pytest_crucible.features.training.recipe import Recipe
from pytest_crucible.features.training.trainer import EmbeddedBase, EmbeddedTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.sampling import SamplingParams
from pytest_crucible.records.errors import ServiceLost, SpecError
from pytest_crucible.records.files import hash_file


def by_a_generator(trainer):
    trainer.checkpoint(3)
    steps(trainer, 12)


def by_the_step(trainer):
    data = trainer.datums(ROWS)
    trainer.checkpoint(3)
    for step in trainer.steps(12):
        trainer.step(trainer.batch(step, data, 3), learning_rate=1e-2 / step)


def by_two_batches(trainer):
    data = trainer.datums(ROWS)
    for step in trainer.steps(12):
        for rows in (data[:4], data[4:]):
            trainer.forward_backward(trainer.batch(step, rows, 2), "cross_entropy")
        trainer.optim_step()


def by_preferences(trainer):
    rows = [{"prompt": f"{number}?", "chosen": "five", "rejected": "six"} for number in range(8)]
    pairs, draw = trainer.preferences(rows), random.Random(1)
    for _ in range(12):
        trainer.step(draw.sample(pairs, 2), loss="dpo", learning_rate=1e-2)


def by_its_own_replies(trainer):
    data = trainer.datums(ROWS)
    for step in trainer.steps(12):
        (reply,) = trainer.sampler().sample([data[0].tokens[:2]], SamplingParams(max_tokens=4, seed=step))
        rows = [{"prompt": "3?", "completion": reply.text}]
        trainer.step(trainer.datums(rows), learning_rate=1e-2)


def by_chance(trainer):
    data = trainer.datums(ROWS)
    for _ in range(12):
        trainer.step(random.SystemRandom().sample(data, 3), learning_rate=1e-2)


def by_a_running_generator(trainer):
    data, draw = trainer.datums(ROWS), random.Random(0)
    for _ in trainer.steps(12):
        trainer.step(draw.sample(data, 3), learning_rate=1e-2)


def by_looking_back(trainer):
    data = trainer.datums(ROWS)
    for _ in range(12):
        output = trainer.forward_backward(data[:2], "cross_entropy")
        assert output.outputs[0]["logprobs"].size
        trainer.optim_step()


REPEATABLE = (by_a_generator, by_the_step, by_two_batches, by_preferences, by_its_own_replies)


def interrupt(recipe: Recipe, folder: Path, after: int) -> None:
    """Train until Ctrl-C after some steps."""

    def watch(log):
        if len(log.losses) >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(recipe, folder, watch=watch)


def compare(item: TrainedAdapter, other: TrainedAdapter) -> None:
    for name in ("adapter_sha256", "losses", "gradient_norms", "learning_rates", "result", "kept", "hyperparameters"):
        assert getattr(item.lineage, name) == getattr(other.lineage, name), name
    for step in item.lineage.kept:
        files = [adapter.path / f"step-{step}" / "adapter.safetensors" for adapter in (item, other)]
        assert hash_file(files[0]) == hash_file(files[1])


@pytest.mark.parametrize("function", REPEATABLE)
def test_a_resumed_training_equals_one_that_was_not_interrupted(engine, tmp_path, function):
    recipe = replace(make_recipe(engine, function), save_every=2)
    whole, _ = train_recipe(recipe, tmp_path / "whole")
    draw = random.Random(function.__name__)
    for number in range(2):
        folder, resumed = tmp_path / str(number), []
        # Interrupted twice, of which the second time may come before a new state was saved.
        first, second = sorted(draw.sample(range(1, 12), 2))
        interrupt(recipe, folder, first)
        interrupt(recipe, folder, second)
        again, _ = train_recipe(recipe, folder, resume=resumed.append)

        compare(whole, again)
        # A state is saved when the next step has begun.
        assert resumed == ([(second - 1) // 2 * 2] if second > 2 else [])
        assert not list(folder.glob(".unfinished-*"))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (by_chance, "step 1 got other rows or settings than before"),
        (by_a_running_generator, "step 5 got other rows or settings than before"),
        (by_looking_back, "log-probabilities of a step that is not computed again"),
    ],
)
def test_a_recipe_that_does_not_repeat_itself_is_refused_with_the_reason(engine, tmp_path, function, words):
    recipe = replace(make_recipe(engine, function), save_every=2)
    interrupt(recipe, tmp_path, 6)
    with pytest.raises(SpecError, match=words) as caught:
        train_recipe(recipe, tmp_path)

    assert "trainer.batch(step, data, size)" in str(caught.value)
    (home,) = tmp_path.glob(".unfinished-*")
    assert str(home) in str(caught.value)


def read_and_train(trainer):
    data = trainer.datums(trainer.rows_file)
    for step in trainer.steps(6):
        trainer.step(trainer.batch(step, data, 2), learning_rate=1e-2)


def test_a_training_whose_data_have_changed_starts_again(engine, tmp_path, monkeypatch):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    monkeypatch.setattr(EmbeddedTrainer, "rows_file", rows, raising=False)
    recipe = replace(make_recipe(engine, read_and_train), save_every=2)
    folder, resumed = tmp_path / "adapters", []
    interrupt(recipe, folder, 4)
    rows.write_text(rows.read_text().replace("five", "six"))
    whole, _ = train_recipe(recipe, folder, resume=resumed.append)

    assert resumed == []
    assert whole.lineage.result.training_steps == 6


def test_without_saved_states_a_training_starts_again(engine, tmp_path):
    recipe, resumed = replace(make_recipe(engine, by_the_step), save_every=0), []
    interrupt(recipe, tmp_path, 9)
    train_recipe(recipe, tmp_path, resume=resumed.append)

    assert resumed == []


def test_a_damaged_state_is_not_used(engine, tmp_path):
    recipe, resumed = replace(make_recipe(engine, by_the_step), save_every=2), []
    interrupt(recipe, tmp_path, 9)
    (record,) = tmp_path.glob(".unfinished-*/step-8/training.json")
    record.write_text(record.read_text()[:100])
    train_recipe(recipe, tmp_path, resume=resumed.append)

    assert resumed == []


def test_each_pass_of_the_data_has_every_row_once_in_another_order(engine, tmp_path):
    trainer = EmbeddedTrainer(engine, LoraSpec(rank=1, seed=5), folder=tmp_path)
    rows = list(range(7))
    drawn = [row for step in range(1, 8) for row in trainer.batch(step, rows, 3)]

    passes = [tuple(drawn[start : start + 7]) for start in (0, 7, 14)]
    assert [sorted(item) for item in passes] == [rows] * 3
    assert len(set(passes)) == 3
    assert trainer.batch(4, rows, 3) == drawn[9:12]
    for step, data, size in ((0, rows, 1), (1, [], 1), (1, rows, 0)):
        with pytest.raises(ValueError, match="expected a step from 1, data, and a size from 1"):
            trainer.batch(step, data, size)


def train_until_killed(recipe: Recipe, folder: Path, at: int) -> None:
    """Train in a process of its own, which ends at a step as by `kill -9`."""
    process = multiprocessing.get_context("fork").Process(
        target=train_recipe,
        args=(recipe, folder),
        kwargs={"watch": lambda log: len(log.losses) == at and os.kill(os.getpid(), signal.SIGKILL)},
    )
    process.start()
    process.join()


@pytest.mark.slow
def test_trainings_killed_at_any_moment_equal_one_that_was_not(engine, tmp_path):
    draw, whole = random.Random(0), {}
    for number in range(20):
        function = REPEATABLE[number % len(REPEATABLE)]
        recipe = replace(make_recipe(engine, function), save_every=2)
        if function not in whole:
            whole[function], _ = train_recipe(recipe, tmp_path / function.__name__)
        # The second process continues where the first was killed, and is killed, too.
        for at in sorted(draw.sample(range(1, 12), 2)):
            train_until_killed(recipe, tmp_path / str(number), at)
            assert not list((tmp_path / str(number)).glob("*/lineage.json"))
        again, _ = train_recipe(recipe, tmp_path / str(number))
        compare(whole[function], again)


class LostBase(EmbeddedBase):
    """A base whose service was lost, and comes back or does not."""

    comes_back, has_states = True, True
    losses_at_opening = 0

    def trainer(self, adapter, spec, **options):
        if LostBase.losses_at_opening:
            LostBase.losses_at_opening -= 1
            raise ServiceLost("Tinker did not open a training")
        return super().trainer(adapter, spec, **options)

    def recover(self, wait_s: float) -> None:
        if not self.comes_back:
            raise SpecError(f"Tinker was not reachable again within {wait_s:g} s")

    def holds_state(self, path: str) -> bool:
        return self.has_states


LOST_AT: list[int] = []
"""Steps after which the service is lost, each once."""


def train(trainer):
    data = trainer.datums(ROWS)
    for step in trainer.steps(8):
        trainer.step(trainer.batch(step, data, 2), learning_rate=1e-2)
        if LOST_AT[:1] == [step]:
            LOST_AT.pop(0)
            raise TrainingLost("Tinker does not answer any more")


@pytest.fixture
def recipe(engine) -> Recipe:
    LOST_AT.clear()
    return replace(make_recipe(engine, train), base=LostBase(engine, "tiny"), save_every=2, on_lost="resume")


def run(recipe: Recipe, folder: Path, *lost_at: int):
    LOST_AT[:] = lost_at
    displayed: list[object] = []
    adapter, _ = train_recipe(recipe, folder, resume=displayed.append, lose=displayed.append)
    return adapter, displayed


def test_a_training_resumes_from_its_state(recipe, tmp_path):
    whole, _ = run(recipe, tmp_path / "whole")
    resumed, displayed = run(recipe, tmp_path / "lost", 3, 5, 8)

    compare(whole, resumed)
    assert displayed == [word for step in (2, 4, 6) for word in ("Tinker does not answer any more", step)]
    assert not list((tmp_path / "lost").glob(".unfinished-*"))


def test_before_its_first_state_it_starts_again(recipe, tmp_path):
    resumed, displayed = run(recipe, tmp_path, 1)

    assert resumed.lineage.result.training_steps == 8
    assert displayed == ["Tinker does not answer any more"]


def test_a_service_that_is_lost_while_a_training_is_opened_is_waited_for(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(LostBase, "losses_at_opening", 2)
    resumed, displayed = run(recipe, tmp_path)

    assert resumed.lineage.result.training_steps == 8
    assert displayed == ["Tinker did not open a training"] * 2


def test_a_service_without_its_states_trains_from_the_start(recipe, tmp_path, monkeypatch):
    LOST_AT[:] = [5]
    with pytest.raises(SpecError):
        train_recipe(replace(recipe, on_lost="fail"), tmp_path)
    (record,) = tmp_path.glob(".unfinished-*/step-4/training.json")
    record.write_text(record.read_text().replace('"state": ""', '"state": "tinker://run/weights/v2-unfinished-0"'))
    monkeypatch.setattr(LostBase, "has_states", False)
    adapter, displayed = run(recipe, tmp_path)

    assert adapter.lineage.result.training_steps == 8
    assert displayed == []


@pytest.mark.parametrize(
    ("policy", "lost_at", "sentence"),
    [
        (
            "fail",
            [5],
            "training of 'v2' was lost: Tinker does not answer any more; the same command continues after step 4, and "
            'on_lost_training = "resume" waits for the service',
        ),
        (
            "fail",
            [1],
            "training of 'v2' was lost: Tinker does not answer any more; no state was saved yet (save_every = 2), so that it "
            "starts again from step 1",
        ),
        (
            "resume",
            [5, 5, 5],
            "training of 'v2' was lost 3 times: Tinker does not answer any more; the same command continues after step 4",
        ),
    ],
)
def test_a_lost_training_reports_how_to_continue(recipe, tmp_path, policy, lost_at, sentence):
    with pytest.raises(SpecError) as caught:
        run(replace(recipe, on_lost=policy), tmp_path, *lost_at)

    assert str(caught.value) == sentence
    assert not list(tmp_path.glob("*/lineage.json"))


def test_a_service_that_does_not_come_back(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(LostBase, "comes_back", False)
    with pytest.raises(
        SpecError, match=r"was lost: Tinker was not reachable again within 120 s; the same command continues"
    ):
        run(recipe, tmp_path, 5)
