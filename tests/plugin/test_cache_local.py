"""Adapters of the embedded model are replayed where their weights are not, and not where they are other weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tiny_base import write_tiny_base

import pytest_crucible.features.training.adapters  # noqa: F401  loaded once: numpy refuses to be loaded twice
from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training.trainer import EmbeddedTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec

CONFIGURATION = """
[adapters.made]
backend = "local"
base = "base"
recipe = "recipes:make"
lora = { rank = 4 }
parameters = { max_tokens = 6, temperature = 1.0 }

[adapters.given]
backend = "local"
base = "base"
checkpoint = "given.safetensors"
parameters = { max_tokens = 6, temperature = 1.0 }
"""
RECIPE = """
    def make(trainer):
        trainer.step(trainer.datums("train.jsonl"), learning_rate=0.1)
"""
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl")
    async def test_replies(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(length=len(reply.text), latency_s=reply.latency_s)
"""
ONLY = "--crucible-cache=only"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, and a checkpoint on it."""
    folder = tmp_path_factory.mktemp("made")
    write_tiny_base(folder / "base")
    checkpoint(folder / "base", "two").save_sampler(folder / "given.safetensors")
    return folder


def checkpoint(base: Path, answer: str) -> EmbeddedTrainer:
    trainer = EmbeddedTrainer(open_engine(base), LoraSpec(rank=4), folder=base)
    trainer.step(trainer.datums([{"prompt": "2?", "completion": answer}]), learning_rate=0.1)
    return trainer


def pay(suite):
    (suite.path / "crucible.toml").write_text(CONFIGURATION)
    suite.write_rows("train.jsonl", [{"prompt": "1?", "completion": "one"}])
    suite.test(RECIPE, name="recipes")
    suite.test(TEST)
    for name in ("made", "given"):
        suite.run(f"--crucible-adapter={name}", "--crucible-train", f"--crucible-json={name}.json")


@pytest.fixture
def paid(suite, models):
    """The suite after both adapters were asked."""
    shutil.copytree(models, suite.path, dirs_exist_ok=True)
    suite.prepare_once(pay)
    return suite


def estimates(suite, name: str) -> dict[str, float]:
    [experiment] = json.loads((suite.path / f"{name}.json").read_text())["experiments"]
    return {estimate["metric"]: estimate["value"] for estimate in experiment["estimates"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["made", "given"])
@pytest.mark.parametrize("cache", ["auto", "only"])
def test_a_rerun_has_the_same_replies_and_latencies(paid, name, cache):
    before = estimates(paid, name)
    result = paid.run(f"--crucible-adapter={name}", f"--crucible-cache={cache}", f"--crucible-json={name}.json")

    assert estimates(paid, name) == before
    result.stdout.fnmatch_lines([f"test_replies: {name}: 20 of 20 replies from the reply cache*"])


def test_an_adapter_that_was_trained_elsewhere_is_replayed_here_without_training(paid):
    shutil.rmtree(paid.path / ".crucible/adapters")
    (paid.path / "given.safetensors").unlink()

    assert paid.run("--crucible-adapter=made", ONLY).ret == 0
    assert paid.run("--crucible-adapter=given", ONLY).ret == 0
    assert not (paid.path / ".crucible/adapters").exists()


def test_other_training_data_make_another_adapter(paid):
    shutil.rmtree(paid.path / ".crucible/adapters")
    paid.write_rows("train.jsonl", [{"prompt": "1?", "completion": "uno"}])

    paid.refuses(
        paid.run("--crucible-adapter=made", ONLY),
        "train.jsonl has changed since replies of adapter 'made' were cached: run once without --crucible-cache=only",
    )


def test_another_checkpoint_of_the_same_name_is_another_adapter(paid, models):
    (paid.path / "given.safetensors").unlink()
    checkpoint(models / "base", "deux").save_sampler(paid.path / "given.safetensors")

    paid.refuses(
        paid.run("--crucible-adapter=given", ONLY),
        "given.safetensors has changed since replies of adapter 'given' were cached: *",
    )


def test_another_recipe_is_another_adapter(paid):
    paid.test(RECIPE.replace("0.1", "0.2"), name="recipes")

    paid.refuses(
        paid.run_apart("--crucible-adapter=made", ONLY),
        "the run store has no replies of adapter 'made' as it is configured now: *",
    )


def test_another_seed_is_another_draw(paid):
    result = paid.run("--crucible-adapter=made", ONLY, "--crucible-seed=1")

    result.stdout.fnmatch_lines(["*20 of 20 replies are not in the reply cache, *"])
