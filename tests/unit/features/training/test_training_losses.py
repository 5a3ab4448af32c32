"""Trainings that their service loses: resumed from a state, given up after some losses, or failed with one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_training_interruptions import compare
from test_training_recipes import ROWS, engine, make_recipe, trained  # noqa: F401 - engine is a fixture

from pytest_crucible.features.training.log import TrainingLost
from pytest_crucible.features.training.recipe import Recipe
from pytest_crucible.features.training.trainer import EmbeddedBase
from pytest_crucible.records.errors import SpecError


class LostBase(EmbeddedBase):
    """A base whose service was lost, and comes back or does not."""

    comes_back, has_states = True, True

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
def recipe(engine) -> Recipe:  # noqa: F811
    LOST_AT.clear()
    return replace(make_recipe(engine, train), base=LostBase(engine, "tiny"), save_every=2, on_lost="resume")


def run(recipe: Recipe, folder: Path, *lost_at: int):
    LOST_AT[:] = lost_at
    displayed: list[object] = []
    adapter, _ = trained(recipe, folder, resume=displayed.append, lose=displayed.append)
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


def test_a_service_without_its_states_trains_from_the_start(recipe, tmp_path, monkeypatch):
    LOST_AT[:] = [5]
    with pytest.raises(SpecError):
        trained(replace(recipe, on_lost="fail"), tmp_path)
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
def test_a_training_that_fails_says_how_it_goes_on(recipe, tmp_path, policy, lost_at, sentence):
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
