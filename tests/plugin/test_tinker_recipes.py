"""Recipes on a Tinker service: the same functions as on the embedded model, trained through the SDK's TrainingClient."""

from __future__ import annotations

import json
import os
import shutil
import signal
import textwrap
from typing import Any

import pytest

from pytest_crucible.local_model.server.process import LocalServer

RECIPES = """
    import os
    import pathlib
    import random
    import signal

    def train_v2(trainer):
        with open("trainings.txt", "a") as file:
            file.write("trained\\n")
        data, draw = trainer.datums("train.jsonl"), random.Random(trainer.seed)
        for _ in range(60):
            trainer.step(draw.sample(data, 16), learning_rate=1e-2)

    def train_kept(trainer):
        trainer.checkpoint(2)
        train_v2(trainer)

    def train_on(trainer):
        trainer.start_from(pathlib.Path("state.txt").read_text())
        trainer.step(trainer.datums("train.jsonl")[:4], learning_rate=1e-3)

    def train_far(trainer):
        data = trainer.datums("train.jsonl")
        for rate in (1e-2, 1e-2, 1e30, 1e-2, 1e-2):
            trainer.step(data[:4], learning_rate=rate)

    def train_killed(trainer):
        data = trainer.datums("train.jsonl")
        for step in trainer.steps(12):
            trainer.step(trainer.batch(step, data, 4), learning_rate=1e-2)
            if step == 8 and not pathlib.Path("killed").exists():
                pathlib.Path("killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)

    def train_and_look(trainer):
        data = trainer.datums([{"prompt": "2?", "completion": "five"}])
        trainer.step(data, learning_rate=1e-2)
        sampler = trainer.sampler()
        assert type(sampler).__module__.startswith("tinker"), sampler
        print("looked with", type(sampler).__name__)
"""
RESTARTED = """
    import os
    import pathlib
    import shlex
    import signal
    import subprocess
    import sys
    import time

    def train_v2(trainer):
        data = trainer.datums("train.jsonl")
        for step in trainer.steps(12):
            trainer.step(trainer.batch(step, data, 4), learning_rate=1e-2)
            if step == 8 and not pathlib.Path("lost").exists():
                pathlib.Path("lost").touch()
                restart()

    def restart():
        os.kill({pid}, signal.SIGKILL)
        time.sleep(0.2)
        command = [sys.executable, "-m", "pytest_crucible", "tinker", "server", "--directory", {directory!r}]
        command += ["--base", {base!r}, "--port", "{port}", "--key", os.environ["TINKER_API_KEY"]]
        # It outlives this process, whose shell may open the file late.
        pathlib.Path("ready.txt").touch()
        subprocess.run(["sh", "-c", shlex.join(command) + " >ready.txt 2>&1 & echo $! >pid.txt"], check=True)
        while "TINKER_BASE_URL" not in pathlib.Path("ready.txt").read_text():
            time.sleep(0.05)
"""
TEST_WORDS = """
    import pytest

    @pytest.mark.crucible(dataset="words.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.80", "loss_reduction >= 0.5")
    @pytest.mark.ab_compare("exact_match")
    async def test_words(sample, sampler):
        reply = await sampler.generate(sample.input)
        with open(f"{sampler.arm.name}.txt", "a") as file:
            file.write(f"{sample.id} {reply.text!r}\\n")
        return reply
"""
TRAIN = "--crucible-train"


@pytest.fixture
def recipes(suite, base, monkeypatch, tmp_path) -> Any:
    pytest.importorskip("tinker")
    for name in [name for name in os.environ if name.startswith("TINKER_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("CRUCIBLE_TINKER_BASE", str(base))
    suite.write_rows("words.jsonl", [{"id": f"w{k:02}", "input": f"{k}?", "expected": "five"} for k in range(20)])
    suite.write_rows("train.jsonl", [{"prompt": f"{k}?", "completion": "five"} for k in range(20, 60)])
    (suite.path / "test_sums.py").unlink()
    suite.test(TEST_WORDS, name="test_words")
    suite.test(RECIPES, name="recipes")
    suite.base = base
    configure(suite)
    return suite


def configure(suite: Any, recipe: str = "recipes:train_v2", **more: str) -> None:
    shared = {"recipe": f"'{recipe}'", "lora": "{ rank = 4 }", "parameters": "{ max_tokens = 12, temperature = 0.0 }"}
    tables = {
        "remote": {"backend": "'tinker'", **shared, **more},
        "here": {"backend": "'local'", "base": f"'{suite.base}'", **shared},
    }
    lines = [
        f"[adapters.{name}]\n" + "".join(f"{k} = {v}\n" for k, v in table.items()) for name, table in tables.items()
    ]
    (suite.path / "crucible.toml").write_text("\n".join(lines))


def lineages(suite: Any) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (suite.path / ".crucible/adapters").glob("*/lineage.json")]


def trainings(suite: Any) -> int:
    return len((suite.path / "trainings.txt").read_text().split())


@pytest.mark.slow
def test_a_recipe_trains_the_same_adapter_here_and_on_the_service(recipes):
    result = recipes.run_apart("--crucible-adapter=remote", "--compare=here", TRAIN)

    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "crucible: training remote with recipes:train_v2: LoRA of rank 4, seed 0, base * on the local Tinker server",
            "crucible: trained remote: 60 steps in *",
            "loss_reduction >= 0.5 * [[]one training[]] *",
        ]
    )
    remote, here = sorted(lineages(recipes), key=lambda lineage: lineage["checkpoint"], reverse=True)
    assert remote["checkpoint"].startswith("tinker://")
    assert remote["state"].startswith("tinker://")
    assert remote["losses"] == pytest.approx(here["losses"], rel=1e-5)
    assert remote["gradient_norms"] == pytest.approx(here["gradient_norms"], rel=1e-4)
    assert remote["data"] == here["data"] != {}
    replies = [sorted((recipes.path / f"{name}.txt").read_text().splitlines()) for name in ("remote", "here")]
    assert replies[0] == replies[1]


@pytest.mark.slow
def test_a_trained_adapter_is_reused_until_it_is_deleted(recipes):
    recipes.run_apart("--crucible-adapter=remote", TRAIN).assert_outcomes(passed=3)

    recipes.run_apart("--crucible-adapter=remote").assert_outcomes(passed=3)
    assert trainings(recipes) == 1

    shutil.rmtree(recipes.path / ".crucible/tinker/checkpoints")
    result = recipes.run_apart("--crucible-adapter=remote")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*adapter 'remote' is not trained with recipe 'recipes:train_v2'*--crucible-train*"])

    recipes.run_apart("--crucible-adapter=remote", TRAIN).assert_outcomes(passed=3)
    assert trainings(recipes) == 2


@pytest.mark.slow
def test_a_step_that_was_kept_on_the_service(recipes):
    configure(recipes, "recipes:train_kept", at="2")
    with (recipes.path / "crucible.toml").open("a") as file:
        file.write("at = 2\n")

    result = recipes.run_apart("--crucible-adapter=remote", "--compare=here", TRAIN)

    result.stdout.fnmatch_lines(["*: remote has the weights of step 2, *", "*: here has the weights of step 2, *"])
    assert trainings(recipes) == 2
    steps = [
        json.loads(path.read_text()) for path in (recipes.path / ".crucible/adapters").glob("*/step-2/lineage.json")
    ]
    remote = next(step for step in steps if step["checkpoint"])
    assert remote["checkpoint"].endswith("/remote-step-2")
    assert (remote["step"], remote["result"]["training_steps"], len(remote["losses"])) == (2, 2, 2)
    replies = [sorted((recipes.path / f"{name}.txt").read_text().splitlines()) for name in ("remote", "here")]
    assert replies[0] == replies[1]
    # A checkpoint that the service has deleted is trained again.
    (folder,) = (recipes.path / ".crucible/tinker/checkpoints").glob("*/sampler_weights/remote-step-2")
    shutil.rmtree(folder)
    result = recipes.run_apart("--crucible-adapter=remote")
    result.stderr.fnmatch_lines(["*adapter 'remote' is not trained with recipe 'recipes:train_kept'*"])


@pytest.mark.slow
def test_a_training_that_was_killed_resumes_from_a_state_of_the_service(recipes):
    configure(recipes, "recipes:train_killed", save_every="3")
    recipes.run_apart("--crucible-adapter=remote", TRAIN)
    assert (recipes.path / "killed").exists()
    assert not lineages(recipes)
    resumed = recipes.run_apart("--crucible-adapter=remote", TRAIN)

    resumed.stdout.fnmatch_lines(["*: remote continues after step 6 of a training that was interrupted"])
    (first,) = lineages(recipes)
    # The same recipe again, without an interruption.
    shutil.rmtree(recipes.path / ".crucible/adapters")
    recipes.run_apart("--crucible-adapter=remote", TRAIN)
    (whole,) = lineages(recipes)
    assert first["losses"] == whole["losses"]
    assert first["learning_rates"] == whole["learning_rates"]
    assert first["checkpoint"] != whole["checkpoint"]


@pytest.mark.slow
def test_training_goes_on_from_a_state_of_the_service(recipes):
    recipes.run_apart("--crucible-adapter=remote", TRAIN).assert_outcomes(passed=3)
    (first,) = lineages(recipes)
    (recipes.path / "state.txt").write_text(first["state"])
    configure(recipes, "recipes:train_on")

    recipes.run_apart("--crucible-adapter=remote", TRAIN, "-rN")

    (second,) = [lineage for lineage in lineages(recipes) if lineage["recipe"] == "recipes:train_on"]
    assert second["parent"] == first["state"]
    assert second["losses"][0] < 0.2 * first["losses"][0]


def test_weights_that_are_not_finite_stop_a_training(recipes):
    configure(recipes, "recipes:train_far", save_every="1")
    result = recipes.run_apart("--crucible-adapter=remote", TRAIN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*training of 'remote' stopped at step *; an earlier state is kept as tinker://*, for trainer.start_from*"]
    )


def test_a_recipe_may_sample_from_what_it_trains(recipes):
    configure(recipes, "recipes:train_and_look")

    result = recipes.run_apart("--crucible-adapter=remote", TRAIN, "-s")

    result.stdout.fnmatch_lines(["*looked with SamplingClient*", "crucible: trained remote: 1 step in *"])


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"model_path": "'tinker://a/b/c'"},
            "*adapter 'remote' has a recipe and a model_path: remove one of them",
        ),
        (
            {"rank": "3"},
            "*adapter 'remote' has 'rank', which backend 'tinker' does not know: it takes recipe, *, at, *",
        ),
        ({"base_model": "3"}, "*adapter 'remote' has base_model 3: write the name of a model"),
        ({"base_model": "'Qwen/none'"}, "*did not make an adapter to train: *"),
    ],
)
def test_an_untrainable_recipe_is_refused_in_one_sentence(recipes, more, sentence):
    configure(recipes, **more)

    result = recipes.run_apart("--crucible-adapter=remote", TRAIN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([sentence])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


@pytest.mark.slow
def test_a_service_that_goes_away_ends_the_training_in_a_sentence(recipes, tmp_path, monkeypatch, base):
    with LocalServer.start(tmp_path / "hosted", base=base) as behind:
        (model,) = (tmp_path / "hosted").glob("models/crucible/tiny-*")
        monkeypatch.setenv("TINKER_BASE_URL", behind.url)
        monkeypatch.setenv("TINKER_API_KEY", behind.key)
        monkeypatch.setenv("CRUCIBLE_TINKER_BASE", str(model))
        (recipes.path / "recipes.py").write_text(
            "def train_v2(trainer):\n"
            "    data = trainer.datums([{'prompt': '2?', 'completion': 'five'}])\n"
            "    trainer.step(data, learning_rate=1e-2)\n"
            f"    import os, signal; os.kill({behind.process.pid}, signal.SIGKILL)\n"
            "    trainer.step(data, learning_rate=1e-2)\n"
        )
        result = recipes.run_apart("--crucible-adapter=remote", TRAIN, "--crucible-tinker=hosted")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*training of 'remote' was lost: Tinker *; no state was saved yet (save_every = 20), so that it starts again *"
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["resume", "fail"])
def test_a_training_that_its_service_loses(recipes, tmp_path, monkeypatch, base, policy):
    """The server is killed in the middle of a training, and started again at the same place."""
    place = tmp_path / "hosted"
    with LocalServer.start(place, base=base) as behind:
        (model,) = place.glob("models/crucible/tiny-*")
        port = behind.url.rpartition(":")[2]
        monkeypatch.setenv("TINKER_BASE_URL", behind.url)
        monkeypatch.setenv("TINKER_API_KEY", behind.key)
        monkeypatch.setenv("CRUCIBLE_TINKER_BASE", str(model))
        (recipes.path / "recipes.py").write_text(
            textwrap.dedent(RESTARTED).format(pid=behind.process.pid, directory=str(place), base=str(base), port=port)
        )
        configure(recipes, save_every="3", on_lost_training=f"'{policy}'")
        try:
            result = recipes.run_apart("--crucible-adapter=remote", TRAIN, "--crucible-tinker=hosted")
            if policy == "fail":
                assert result.ret == pytest.ExitCode.USAGE_ERROR
                result.stderr.fnmatch_lines(
                    [
                        "*training of 'remote' was lost: *; the same command continues after step 6, and "
                        'on_lost_training = "resume" waits for the service'
                    ]
                )
                result = recipes.run_apart("--crucible-adapter=remote", TRAIN, "--crucible-tinker=hosted")
            else:
                result.stdout.fnmatch_lines(["crucible: remote was lost: Tinker *; waiting for the service"])
            result.stdout.fnmatch_lines(["crucible: remote continues after step 6 of a training that was interrupted"])
            (lost,) = lineages(recipes)
            # The same recipe again, without a loss.
            shutil.rmtree(recipes.path / ".crucible")
            recipes.run_apart("--crucible-adapter=remote", TRAIN, "--crucible-tinker=hosted")
            (whole,) = lineages(recipes)
            assert lost["losses"] == whole["losses"]
        finally:
            os.kill(int((recipes.path / "pid.txt").read_text()), signal.SIGTERM)


@pytest.mark.slow
def test_the_sessions_own_server_is_started_again(recipes):
    (recipes.path / "recipes.py").write_text(
        "import os, pathlib, signal\n"
        "def train_v2(trainer):\n"
        "    data = trainer.datums('train.jsonl')\n"
        "    for step in trainer.steps(8):\n"
        "        trainer.step(trainer.batch(step, data, 4), learning_rate=1e-2)\n"
        "        if step == 5 and not pathlib.Path('lost').exists():\n"
        "            pathlib.Path('lost').touch()\n"
        "            for number in pathlib.Path('/proc').glob('[0-9]*'):\n"
        "                try:\n"
        "                    words = (number / 'cmdline').read_bytes().split(b'\\0')\n"
        "                    parent = (number / 'stat').read_text().rpartition(')')[2].split()[1]\n"
        "                except OSError:  # the process ended meanwhile\n"
        "                    continue\n"
        "                if b'tinker' in words and b'server' in words and int(parent) == os.getpid():\n"
        "                    os.kill(int(number.name), signal.SIGKILL)\n"
    )
    configure(recipes, save_every="2", on_lost_training="'resume'")
    recipes.run_apart("--crucible-adapter=here", TRAIN)
    (recipes.path / "lost").unlink(missing_ok=True)

    # The baseline was opened on the server that is gone. In a new interpreter, which is the parent of its server.
    result = recipes.run_new("--crucible-adapter=remote", "--compare=here", TRAIN)

    result.stdout.fnmatch_lines(
        ["*remote was lost: *", "*: remote continues after step 4 of *", "*trained remote: 8 steps*"]
    )
    remote, here = sorted(lineages(recipes), key=lambda lineage: lineage["checkpoint"], reverse=True)
    assert remote["losses"] == pytest.approx(here["losses"], rel=1e-5)


@pytest.mark.uses("factors")
@pytest.mark.slow
def test_several_seeds_are_trainings_of_their_own_on_the_service(recipes):
    configure(recipes, seeds="3")

    result = recipes.run_apart("--crucible-adapter=remote", "--compare=here", TRAIN)

    assert trainings(recipes) == 4
    result.stdout.fnmatch_lines(
        [
            "crucible: trained remote-seed2: *",
            "loss_reduction >= 0.5 * [[]*, *[]] *3     0  met*",
            "*; n counts trainings",
        ]
    )
    assert "20 samples x arms of 3 and 1 trainings = 80 replies" in " ".join(result.stdout.str().split())
    names = [lineage["checkpoint"].rpartition("/")[2] for lineage in lineages(recipes) if lineage["checkpoint"]]
    assert sorted(names) == ["remote-seed0", "remote-seed1", "remote-seed2"]
