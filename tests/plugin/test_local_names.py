"""Checkpoints of local adapters by name: what the configuration, a training or the local Tinker calls them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tinker_archive import save_on_tinker

RECIPES = """
    def train(trainer):
        for _ in range(2):
            trainer.step(trainer.datums([{"prompt": "2?", "completion": "two"}]), learning_rate=0.01)
"""
TEST_REPLIES = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.quality_target("length >= 0")
    async def test_replies(sample, sampler, score):
        score(length=len((await sampler.generate(sample.input, max_tokens=3)).text))
"""
TRAINED = {"backend": "local", "recipe": "recipes:train"}


def train(suite: Any) -> None:
    suite.pytester.makepyfile(recipes=RECIPES)
    suite.test(TEST_REPLIES, name="test_replies")
    (suite.path / "test_sums.py").unlink()
    suite.adapters({"v2": TRAINED})
    suite.run("--crucible-adapter=v2", "--crucible-train").assert_outcomes(passed=2)


@pytest.fixture
def project(suite) -> Any:
    """A suite with a recipe, and the adapter v2 trained by it."""
    suite.prepare_once(train)
    return suite


def identity(suite: Any, *arguments: str, arm: int = 0) -> str:
    arms = suite.json(*arguments)["experiments"][0]["arms"]
    result: str = arms[arm]["identity"]
    return result


@pytest.mark.slow
def test_a_name_in_the_configuration_is_that_adapter_with_its_settings(project):
    plain = identity(project, "--crucible-adapter=v2")

    assert identity(project, "--crucible-adapter=local:v2") == plain
    project.refuses(
        project.run("--crucible-adapter=v2", "--compare=local:v2"), "*v2* and *local:v2* are the same checkpoint*"
    )


def test_a_training_is_found_by_its_directory_and_by_what_its_adapter_was_called(project):
    expected = identity(project, "--crucible-adapter=v2")
    (folder,) = (project.path / ".crucible" / "adapters").glob("*-*[!k]")
    (project.path / "crucible.toml").write_text("[adapters]\nold = 'local:v2'\n")

    assert identity(project, f"--crucible-adapter=local:{folder.name}") == expected
    assert identity(project, "--crucible-adapter=local:v2") == expected
    assert identity(project, "--crucible-adapter=old") == expected


def test_weights_saved_on_the_local_tinker_are_found_by_their_name(project):
    for seed in range(2):
        save_on_tinker(project.path / ".crucible" / "tinker", "step20", seed)
    save_on_tinker(project.path / ".crucible" / "tinker", "over", 2, expires=time.time() - 1)

    newest = identity(project, "--crucible-adapter=local:step20")
    path = project.path / ".crucible/tinker/checkpoints"
    assert newest == identity(project, f"--crucible-adapter=local:{path / 'run-1/sampler_weights/step20'}")
    assert newest != identity(project, f"--crucible-adapter=local:{path / 'run-0/sampler_weights/step20'}")
    project.refuses(
        project.run("--crucible-adapter=local:over"), "*file 'over' does not exist, and no checkpoint has *"
    )


def test_in_the_configuration_a_checkpoint_may_be_a_name(project):
    save_on_tinker(project.path / ".crucible" / "tinker", "step20", 0)
    project.adapters({"v2": TRAINED, "saved": {"backend": "local", "checkpoint": "step20"}})

    assert identity(project, "--crucible-adapter=saved") != identity(project, "--crucible-adapter=v2")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "v3",
            "adapter 'local:v3' cannot be opened: file 'v3' does not exist, and no checkpoint has that name: did you mean 'v2'?",
        ),
        ("zzzz", "*file 'zzzz' does not exist, and no checkpoint has that name: there are *v2*"),
        (
            "gone/v2.safetensors",
            "adapter 'local:gone/v2.safetensors' cannot be opened: */gone/v2.safetensors does not exist: correct its path",
        ),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest(project, name, sentence):
    project.refuses(project.run(f"--crucible-adapter=local:{name}"), sentence)


def test_a_name_without_any_training_is_reported(suite):
    suite.refuses(
        suite.run("--crucible-adapter=local:v2"),
        "*file 'v2' does not exist, and no checkpoint has been trained or saved here",
    )
