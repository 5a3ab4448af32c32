"""The embedded model in a suite: a base and a checkpoint of the user's own are asked, plain and on two workers."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tiny_base import write_tiny_base

from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training.trainer import EmbeddedTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec

TEST_REPLIES = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", epochs=2)
    @pytest.mark.quality_target("length >= 0")
    @pytest.mark.ab_compare("length")
    async def test_replies(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(length=len(reply.text), said=reply.text)
        with open(f"said-{sampler.arm.name.replace(':', '-').replace('/', '-')}.txt", "a") as file:
            file.write(f"{sample.id} {reply.text!r} {reply.output_tokens}\\n")
"""

TEST_STREAMS = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.quality_target("same == 1", "pieces >= 2")
    async def test_streams(sample, sampler, score):
        stream = sampler.stream(sample.input, stop=None, max_tokens=9, temperature=0.0)
        pieces = [piece async for piece in stream]
        score(same="".join(pieces) == stream.reply.text, pieces=len(pieces))

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.quality_target("first == 1")
    def test_is_left_early(sample, sampler, score):
        for piece in sampler.stream(sample.input, stop=None, max_tokens=9, temperature=0.0, seed=1):
            score(first=True)
            break
"""


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, and a checkpoint on it."""
    folder = tmp_path_factory.mktemp("made")
    trainer = EmbeddedTrainer(open_engine(write_tiny_base(folder / "base")), LoraSpec(rank=4), folder=folder)
    trainer.step(trainer.datums([{"prompt": "2?", "completion": "two"}]), learning_rate=0.1)
    trainer.save_sampler(folder / "v2.safetensors")
    return folder


@pytest.fixture
def local(suite, model_folder):
    shutil.copytree(model_folder, suite.path, dirs_exist_ok=True)
    common = {"backend": "local", "base": "base"}
    suite.adapters({"bare": common, "v2": {**common, "checkpoint": "v2.safetensors"}, "packaged": {"backend": "local"}})
    config = (suite.path / "crucible.toml").read_text()
    (suite.path / "crucible.toml").write_text(config.replace("[adapters.", "[adapters.").strip() + "\n")
    for name in ("bare", "v2", "packaged"):
        add(suite, name, "parameters = { max_tokens = 6, stop = ['zzz'] }")
    suite.test(TEST_REPLIES)
    (suite.path / "test_sums.py").write_text((suite.path / "test_sums.py").read_text())
    return suite


def add(suite, name: str, line: str) -> None:
    """A line to an adapter's table."""
    path = suite.path / "crucible.toml"
    path.write_text(path.read_text().replace(f"[adapters.{name}]", f"[adapters.{name}]\n{line}"))


def reply_texts(suite, arm: str) -> list[str]:
    path = suite.path / f"said-{arm}.txt"
    lines = sorted(path.read_text().splitlines())
    path.unlink()
    return lines


def test_a_checkpoint_is_compared_with_its_base(local, run):
    result = run("--crucible-adapter=v2", "--compare=bare", "--crucible-json=run.json")

    result.stdout.fnmatch_lines(
        ["crucible: test_replies: v2 vs bare, 20 samples x 2 repeats x 2 arms = 80 replies*", "length: v2 vs bare *"]
    )
    result.stdout.no_fnmatch_line("*simulated*")
    assert len(reply_texts(local, "v2")) == len(reply_texts(local, "bare")) == 40


@pytest.mark.slow
def test_same_seed_same_replies(local):
    local.run("--crucible-adapter=v2", "--crucible-concurrency=1", "--crucible-cache=off")
    alone = reply_texts(local, "v2")
    for way in (local.run, local.run_n2):
        way("--crucible-adapter=v2", "--crucible-cache=off")
        assert reply_texts(local, "v2") == alone

    local.run("--crucible-adapter=v2", "--crucible-seed=1")
    assert reply_texts(local, "v2") != alone


def test_replies_are_read_as_they_come(local):
    local.test(TEST_STREAMS)
    result = local.run("--crucible-adapter=bare", "--crucible-store=runs.db")

    result.assert_outcomes(passed=5)
    with closing(sqlite3.connect(local.path / "runs.db")) as store:
        errors = [error for (error,) in store.execute("select error from calls where error != ''")]
        (count,) = store.execute("select count(*) from calls").fetchone()
        (streamed,) = store.execute("select count(first_token_s) from events where name = 'request.stop'").fetchone()
    assert count == 40
    assert streamed == 40 - len(errors)
    assert all(error.startswith("CancelledError: the test closed the stream after ") for error in errors)


def test_a_seed_among_the_parameters_wins(local):
    add(local, "bare", "")
    config = local.path / "crucible.toml"
    config.write_text(config.read_text().replace("max_tokens = 6", "max_tokens = 6, seed = 9"))
    local.run("--crucible-adapter=bare")
    first = reply_texts(local, "bare")
    local.run("--crucible-adapter=bare", "--crucible-seed=5", "--crucible-cache=off")

    assert reply_texts(local, "bare") == first


def test_a_checkpoint_may_be_typed(local):
    (local.path / "crucible.toml").write_text("")
    (local.path / "below").mkdir()
    shutil.copy(local.path / "v2.safetensors", local.path / "below")

    # Without a table the base is the packaged one, to which this checkpoint does not belong.
    local.refuses(
        local.run("--crucible-adapter=local:below/v2.safetensors"),
        "adapter 'local:below/v2.safetensors' cannot be opened: *v2.safetensors belongs to base model *, this one is *",
    )


@pytest.mark.uses("run_checks")
def test_an_adapter_whose_weights_are_zero_is_its_base_and_fails(local, model_folder):
    trainer = EmbeddedTrainer(open_engine(model_folder / "base"), LoraSpec(rank=4), folder=local.path)
    (local.path / "v2.safetensors").unlink()
    trainer.save_sampler(local.path / "v2.safetensors")
    local.test(TEST_REPLIES)

    document = local.json("--crucible-adapter=v2", "--compare=bare")

    verdicts = {verdict["subject"]: verdict for verdict in document["experiments"][0]["verdicts"]}
    assert verdicts["what was measured (equal replies)"]["state"] == "missed"
    assert verdicts["what was measured (equal replies)"]["reason"] == (
        "the weights of v2 change no reply of their base: one factor of each of its LoRA pairs is 0"
    )
    assert verdicts["length: v2 vs bare"]["state"] == "undecided"
