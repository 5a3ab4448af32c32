"""Adapters that recipes make: trained on demand, found again, compared; and every recipe that cannot be trained."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from run_documents import of_arms

import pytest_crucible.features.training.adapters  # noqa: F401  loaded once: numpy refuses to be loaded twice
from pytest_crucible.cli import main

RECIPES = """
    import random

    def train_v1(trainer):
        train(trainer, 2)

    def train_v2(trainer):
        train(trainer, 80)

    def train(trainer, steps):
        with open("trainings.txt", "a") as file:
            file.write(f"{steps}\\n")
        data, draw = trainer.datums("train.jsonl"), random.Random(trainer.seed)
        for _ in range(steps):
            trainer.step(draw.sample(data, 4), learning_rate=1e-2)
"""
TEST_WORDS = """
    import pytest

    @pytest.mark.crucible(dataset="words.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.80")
    @pytest.mark.ab_compare("exact_match")
    async def test_words(sample, sampler):
        return await sampler.generate(sample.input)
"""
WORDS = [{"id": f"w{k:02}", "input": f"{k}?", "expected": "five"} for k in range(20)]


@pytest.fixture
def recipes(suite, base):
    """Two adapters by recipe on a base of the user's own: v1 hardly trained, v2 well."""
    suite.write_rows("words.jsonl", WORDS)
    suite.write_rows("train.jsonl", [{"prompt": f"{k}?", "completion": "five"} for k in range(20, 60)])
    suite.base = base
    configure(suite)
    (suite.path / "test_sums.py").unlink()
    suite.test(TEST_WORDS, name="test_words")
    suite.test(RECIPES, name="recipes")
    return suite


def configure(suite, **changes: str) -> None:
    tables = []
    for name in ("v1", "v2"):
        settings = {"recipe": f"'recipes:train_{name}'", "lora": "{ rank = 4 }", **(changes if name == "v2" else {})}
        lines = [f"{key} = {value}" for key, value in settings.items()]
        tables += [f"[adapters.{name}]", "backend = 'local'", f"base = '{suite.base}'", *lines]
        tables += ["parameters = { max_tokens = 12 }"]
    (suite.path / "crucible.toml").write_text("\n".join(tables) + "\n")


def trainings(suite) -> list[str]:
    path = suite.path / "trainings.txt"
    return path.read_text().split() if path.exists() else []


def adapters(suite) -> list[Path]:
    return sorted(path for path in (suite.path / ".crucible/adapters").glob("*") if path.is_dir())


ARMS = ("--crucible-adapter=v2", "--compare=v1")


def test_two_adapters_are_trained_and_compared(recipes):
    result = recipes.run(*ARMS, "--crucible-train")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "crucible: training v2 with recipes:train_v2: LoRA of rank 4, seed 0, base of * parameters",
            "crucible: trained v2: 80 steps in * s, loss * to * (reduced by * %)",
            "crucible: training v1 with *",
            "crucible: trained v1: 2 steps *",
            "collected 1 item",
            "exact_match >= 0.80 *met*",
            "exact_match: v2 vs v1 *met, proven",
        ]
    )
    assert trainings(recipes) == ["80", "2"]
    lineages = [json.loads((adapter / "lineage.json").read_text()) for adapter in adapters(recipes)]
    (lineage,) = [lineage for lineage in lineages if lineage["recipe"] == "recipes:train_v2"]
    assert (list(lineage["data"]), lineage["base"]) == (["train.jsonl"], str(recipes.base))
    assert lineage["result"]["loss_reduction"] > 0.5


def test_nothing_is_trained_beside_a_store_that_cannot_be_used(recipes):
    (recipes.path / "runs.db").write_text("something else " * 100)

    result = recipes.run(*ARMS, "--crucible-train", "--crucible-store=runs.db")

    recipes.cannot_store(result, "is not a run store (*): move it away, or name another one")
    assert trainings(recipes) == []


def test_on_two_workers_each_adapter_is_trained_once(recipes):
    recipes.test(TEST_WORDS.replace("test_words", "test_others"), name="test_others")

    result = recipes.run_n2(*ARMS, "--crucible-train")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["exact_match: v2 vs v1 *met, proven"])
    assert sorted(trainings(recipes)) == ["2", "80"]
    assert len(adapters(recipes)) == 2


def test_a_trained_adapter_is_used_again_without_the_option(recipes, run):
    recipes.run(*ARMS, "--crucible-train")
    before = (recipes.path / "trainings.txt").read_text()

    for options in ((), ("--crucible-train",)):
        result = run(*ARMS, *options)
        assert result.ret == 0
        result.stdout.no_fnmatch_line("crucible: *training*")

    assert (recipes.path / "trainings.txt").read_text() == before


@pytest.mark.slow
def test_a_second_training_with_the_same_seed_gives_the_same_replies(recipes):
    def replies():
        document = recipes.json(*ARMS, "--crucible-train", "--crucible-fresh")
        (experiment,) = document["experiments"]
        return experiment["estimates"], [arm["identity"] for arm in experiment["arms"]]

    first = replies()
    for adapter in adapters(recipes):
        (adapter / "adapter.safetensors").unlink()

    assert replies() == first
    assert len(trainings(recipes)) == 4


def test_adapters_are_kept_beside_the_run_store(recipes):
    recipes.run("--crucible-adapter=v1", "--crucible-train", "--crucible-store=kept/runs.db")

    assert len(list((recipes.path / "kept/adapters").glob("*-*/lineage.json"))) == 1
    assert not adapters(recipes)
    assert trainings(recipes) == ["2"]


def test_a_missing_adapter_is_reported_without_the_option(recipes, run):
    recipes.refuses(
        run("--crucible-adapter=v2"),
        "adapter 'v2' is not trained with recipe 'recipes:train_v2', its data and its base as they are now: train it with "
        "--crucible-train",
    )
    recipes.refuses(
        run(*ARMS),
        "adapters 'v2' and 'v1' are not trained with recipes 'recipes:train_v2' and 'recipes:train_v1', their data and "
        "bases as they are now: train them with --crucible-train",
    )
    assert not trainings(recipes)


def test_all_errors_of_adapters_are_reported_at_once(recipes):
    result = recipes.run(*ARMS, "--compare=v3")

    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["ERROR: adapter 'v3' is not configured: *", "adapters 'v2' and 'v1' are not trained with *"]
    )


@pytest.mark.parametrize("mistake", ["target", "adapter", "sample"])
def test_mistakes_are_found_before_anything_is_trained(recipes, mistake):
    if mistake == "target":
        recipes.test(TEST_WORDS.replace("exact_match >=", "exact_mach >="), name="test_words")
    arguments = {"target": (), "adapter": ("--compare=v3",), "sample": ("--crucible-sample=w99",)}[mistake]

    assert recipes.run(*ARMS, "--crucible-train", *arguments).ret == 4
    assert not trainings(recipes)


def test_two_names_of_one_recipe_are_refused_before_it_is_trained(recipes):
    configure(recipes, recipe="'recipes:train_v1'")

    recipes.refuses(
        recipes.run(*ARMS, "--crucible-train"), "adapters 'v2' and 'v1' are the same checkpoint (????????????): *"
    )
    assert not trainings(recipes)


def test_training_can_be_requested_and_overruled_in_the_configuration(recipes, run):
    (recipes.path / "pytest.ini").unlink()
    (recipes.path / "pyproject.toml").write_text("[tool.pytest.ini_options]\ncrucible_train = true\n")
    recipes.refuses(recipes.run(*ARMS, "-o", "crucible_train=false"), "adapters 'v2' and 'v1' are not trained with *")

    assert run(*ARMS).ret == 0
    assert sorted(trainings(recipes)) == ["2", "80"]
    recipes.run(*ARMS).stdout.no_fnmatch_line("crucible: train*")


def test_a_comment_is_no_change_of_a_recipe(recipes):
    recipes.run("--crucible-adapter=v2", "--crucible-train")
    recipes.test(RECIPES.replace("trainer, 80)", "trainer,  80)  # a comment"), name="recipes")

    assert recipes.run("--crucible-adapter=v2").ret != pytest.ExitCode.USAGE_ERROR


def test_a_damaged_checkpoint_is_reported_as_damaged(recipes):
    recipes.run("--crucible-adapter=v2", "--crucible-train")
    [weights] = [path for path in (recipes.path / ".crucible/adapters").glob("*-*/*") if path.name != "lineage.json"]
    weights.write_bytes(weights.read_bytes()[:-100])

    recipes.refuses(
        recipes.run("--crucible-adapter=v2"),
        "adapter 'v2' cannot be loaded: its checkpoint '*' is damaged (its weights are not those that its lineage *",
    )


@pytest.mark.slow
def test_changed_helpers_and_data_of_a_recipe_need_a_training(recipes):
    recipes.run("--crucible-adapter=v2", "--crucible-train")
    recipes.test(RECIPES.replace("1e-2", "9e-3"), name="recipes")
    recipes.refuses(recipes.run("--crucible-adapter=v2"), "adapter 'v2' is not trained with *")

    recipes.test(RECIPES, name="recipes")
    recipes.write_rows("train.jsonl", [{"prompt": "9?", "completion": "nine"}] * 10)
    recipes.refuses(recipes.run("--crucible-adapter=v2"), "adapter 'v2' is not trained with *")


@pytest.mark.uses("ensembles")
@pytest.mark.slow
def test_the_members_of_an_ensemble_are_trained_each_once(recipes, run):
    config = recipes.path / "crucible.toml"
    config.write_text(f"{config.read_text()}\n[adapters.both]\nensemble = ['v1', 'v2']\n")
    recipes.refuses(recipes.run("--crucible-adapter=both"), "adapters 'v1' and 'v2' are not trained with recipes *")

    result = run("--crucible-adapter=both", "--compare=v1", "--crucible-train", "--crucible-json=run.json")

    assert sorted(trainings(recipes)) == ["2", "80"]
    [experiment] = json.loads((recipes.path / "run.json").read_text())["experiments"]
    assert [of_arm is None for of_arm in of_arms(experiment, "training")] == [True, False]
    result.stdout.fnmatch_lines(["exact_match: both vs v1 *"])


def test_collect_only_prints_the_trainings_and_starts_none(recipes):
    result = recipes.run(*ARMS, "--crucible-train", "--co")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "crucible: would train v2 with recipes:train_v2: LoRA of rank 4, seed 0, base of * parameters",
            "crucible: would train v1 with recipes:train_v1: *",
            "crucible: test_words: v2 vs v1, 20 samples x 2 arms = 40 replies*",
        ]
    )
    assert not trainings(recipes)


@pytest.mark.parametrize("below", [True, False])
def test_verbose_prints_the_folder_of_an_adapter(recipes, below, monkeypatch):
    """The path is relative to the directory in which pytest was started."""
    arguments = ("-v", "--crucible-adapter=v2", "--crucible-train")
    if below:
        result, place = recipes.run(*arguments), ".crucible/adapters/*"
    else:
        (recipes.path / "elsewhere").mkdir()
        monkeypatch.chdir(recipes.path / "elsewhere")
        result, place = (
            recipes.run(*arguments, f"--rootdir={recipes.path}", str(recipes.path)),
            "*/.crucible/adapters/*",
        )

    result.stdout.fnmatch_lines(
        [f"crucible: trained v2: 80 steps in * s, loss * (reduced by * %), gradient norms up to *; kept in {place}"]
    )


@pytest.mark.slow
def test_a_project_may_be_moved(recipes, tmp_path, monkeypatch):
    recipes.run("--crucible-adapter=v2", "--crucible-train")
    shutil.copytree(recipes.path, tmp_path / "moved")
    (recipes.path / "train.jsonl").unlink()
    monkeypatch.chdir(tmp_path / "moved")
    monkeypatch.syspath_prepend(tmp_path / "moved")

    result = recipes.run("--crucible-adapter=v2", f"--rootdir={tmp_path / 'moved'}", str(tmp_path / "moved"))

    result.stdout.fnmatch_lines(["crucible: test_words: v2, 20 samples"])


def test_a_trained_adapter_is_a_checkpoint_with_a_path(recipes):
    recipes.run("--crucible-adapter=v2", "--crucible-train")
    (adapter,) = adapters(recipes)
    config = recipes.path / "crucible.toml"
    by_path = f"backend = 'local'\nbase = '{recipes.base}'\ncheckpoint = '{adapter.relative_to(recipes.path)}'"
    config.write_text(f"{config.read_text()}\n[adapters.named]\n{by_path}\nparameters = {{ max_tokens = 12 }}\n")

    recipes.refuses(
        recipes.run("--crucible-adapter=named", "--compare=v2"),
        "adapters 'named' and 'v2' are the same checkpoint (????????????): compare two that differ",
    )


BAD = {
    "raises": (
        "def train_v2(trainer):\n    trainer.step(trainer.datums('train.jsonl'))\n    {}['prompt']\n",
        "recipe 'recipes:train_v2' of adapter 'v2' raised KeyError: 'prompt' (recipes.py, line 3; -v shows all of it)",
    ),
    "infinite": (
        "def train_v2(trainer):\n    for rate in (1e-2, 1e-2, 1e30, 1e-2):\n"
        "        trainer.step(trainer.datums('train.jsonl'), learning_rate=rate)\n",
        "training of 'v2' stopped at step 4: * (a lower learning rate may help, *); the last good adapter is kept in '*-stopped'",
    ),
    "syntax": (
        "def train_v2(trainer)\n",
        "adapter 'v2' has recipe 'recipes:train_v2', which cannot be imported (SyntaxError: *): write 'module:function' *",
    ),
}


@pytest.mark.parametrize("mistake", BAD)
def test_recipes_that_cannot_be_trained(recipes, mistake):
    source, sentence = BAD[mistake]
    (recipes.path / "recipes.py").write_text(source)

    recipes.refuses(recipes.run("--crucible-adapter=v2", "--crucible-train"), sentence)


def test_verbose_prints_the_traceback_of_a_recipe(recipes):
    (recipes.path / "recipes.py").write_text(BAD["raises"][0])

    result = recipes.run("-v", "--crucible-adapter=v2", "--crucible-train")

    assert result.ret == 4
    result.stdout.fnmatch_lines(
        ["crucible: Traceback (most recent call last):", "*{}[[]'prompt'[]]", "KeyError: 'prompt'"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["raises", "infinite"])
def test_recipes_that_cannot_be_trained_on_two_workers_are_tried_once_a_session(recipes, mistake):
    source, sentence = BAD[mistake]
    begun = "    open('trainings.txt', 'a').write('begun ')\n"
    (recipes.path / "recipes.py").write_text(source.replace("(trainer):\n", f"(trainer):\n{begun}", 1))
    sentence = sentence.replace("line 3", "line 4")

    for times in (1, 2):
        recipes.refuses(recipes.run_n2("--crucible-adapter=v2", "--crucible-train"), sentence)
        assert trainings(recipes) == ["begun"] * times


@pytest.mark.slow
def test_a_worker_prints_its_training_on_the_controllers_stderr(recipes):
    result = recipes.run_apart("-n2", "--crucible-adapter=v2", "--crucible-train")

    result.stderr.fnmatch_lines(["crucible: training v2 with *", "crucible: trained v2: 80 steps in *"])
    result.stderr.no_fnmatch_line("crucible: v2 *")


def test_an_unknown_setting_is_refused(recipes):
    configure(recipes, steps="7")

    recipes.refuses(
        recipes.run("--crucible-adapter=v2", "--crucible-train"),
        "adapter 'v2' has 'steps', which backend 'local' does not know: it takes recipe, *",
    )


def test_the_last_good_adapter_of_a_stopped_training_can_be_judged(recipes):
    (recipes.path / "recipes.py").write_text(BAD["infinite"][0])
    recipes.run("--crucible-adapter=v2", "--crucible-train")
    (adapter,) = adapters(recipes)
    text = f"[adapters.kept]\nbackend = 'local'\nbase = '{recipes.base}'\ncheckpoint = '{adapter}'\n"
    (recipes.path / "crucible.toml").write_text(text + "parameters = { max_tokens = 2 }\n")

    result = recipes.run("--crucible-adapter=kept")

    result.stdout.fnmatch_lines(["crucible: test_words: kept, 20 samples"])


def apart(suite, *arguments: str) -> subprocess.Popen[str]:
    """pytest in a process of its own, which can be interrupted."""
    command = [sys.executable, "-m", "pytest", "-p", "no:asyncio", "-p", "no:cacheprovider", *arguments]
    return subprocess.Popen(command, cwd=suite.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


SLOW = """
    import time
    from pathlib import Path

    def train_v2(trainer):
        Path("begun").touch()
        for _ in range(4):
            trainer.step(trainer.datums("train.jsonl"), learning_rate=1e-2)
            time.sleep({pause})
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_an_interrupted_training_leaves_no_usable_adapter(recipes, how):
    recipes.test(SLOW.format(pause=60), name="recipes")
    with apart(recipes, "--crucible-adapter=v2", "--crucible-train") as process:
        wait_for(recipes.path / "begun")
        time.sleep(0.2)
        process.send_signal(how)
        process.communicate(timeout=60)

    assert process.returncode == (2 if how == signal.SIGINT else -signal.SIGKILL)
    assert not list((recipes.path / ".crucible/adapters").glob("*/lineage.json"))
    recipes.test(RECIPES, name="recipes")
    assert recipes.run("--crucible-adapter=v2", "--crucible-train").ret == 0


HELD = """
    import time
    from pathlib import Path

    def train_v2(trainer):
        Path("begun").touch()
        while not Path("go_on").exists():
            time.sleep(0.02)
        trainer.step(trainer.datums("train.jsonl"), learning_rate=1e-2)
"""


@pytest.mark.slow
def test_two_sessions_train_one_adapter_once(recipes):
    recipes.test(HELD, name="recipes")
    arguments = ("--crucible-adapter=v2", "--crucible-train")
    with apart(recipes, *arguments, "--crucible-store=.crucible/one.db") as first:
        wait_for(recipes.path / "begun")
        with apart(recipes, *arguments, "--crucible-store=.crucible/two.db") as second:
            lines_before = list(itertools.takewhile(lambda line: "waiting for it" not in line, second.stdout))
            (recipes.path / "go_on").touch()
            outputs = [entry.communicate(timeout=120)[0] for entry in (first, second)]

    assert not any("training v2" in line for line in lines_before)
    assert "crucible: trained v2: 1 step in" in outputs[0]
    assert outputs[1].startswith("crucible: v2 was trained by another process\n")
    assert len(adapters(recipes)) == 1
    assert {first.returncode, second.returncode} <= {0, 1}  # the verdict is another matter


def test_each_step_and_checkpoint_is_an_event_and_stored(recipes, run):
    recipes.pytester.makeconftest(
        """
        def pytest_crucible_event(event):
            if not event.experiment:
                with open("calls.txt", "a") as file:
                    file.write(f"{event.name} {event.arm}\\n")
        """
    )
    run(*ARMS, "--crucible-train")

    steps = {"train.step v2": 80, "train.step v1": 2, "checkpoint v2": 1, "checkpoint v1": 1}
    assert Counter(recipes.calls()) == steps
    with contextlib.closing(sqlite3.connect(recipes.path / ".crucible/crucible.db")) as connection:
        query = "SELECT name, arm, seconds, facts FROM events WHERE experiment = '' ORDER BY id"
        rows = [(*row[:3], json.loads(row[3])) for row in connection.execute(query)]
    assert Counter(f"{name} {arm}" for name, arm, _, _ in rows) == steps
    of_v2 = [(seconds, facts) for name, arm, seconds, facts in rows if (name, arm) == ("train.step", "v2")]
    assert [facts["step"] for _, facts in of_v2] == list(range(1, 81))
    assert of_v2[-1][1]["loss"] < of_v2[0][1]["loss"]
    assert all(seconds > 0 and facts["tokens"] > 4 and facts["learning_rate"] == 0.01 for seconds, facts in of_v2)
    assert of_v2[0][1]["tokens_per_s"] == pytest.approx(of_v2[0][1]["tokens"] / of_v2[0][0])


def write_kept_steps(suite, *, steps: str) -> None:
    suite.test(
        """
        import random

        def train(trainer):
            with open("trainings.txt", "a") as file:
                file.write("trained\\n")
            for step in (2, 80):
                trainer.checkpoint(step)
            data, draw = trainer.datums("train.jsonl"), random.Random(trainer.seed)
            for _ in range(90):
                trainer.step(draw.sample(data, 4), learning_rate=1e-2)
        """,
        name="recipes",
    )
    table = f"backend = 'local'\nbase = '{suite.base}'\nrecipe = 'recipes:train'\nlora = {{ rank = 4 }}\n"
    table += "parameters = { max_tokens = 12 }\n"
    (suite.path / "crucible.toml").write_text(
        f"[adapters.v1]\n{table}at = 2\n[adapters.tuned]\n{table}[adapters.tuned.sweep]\nat = {steps}\nby = 'exact_match'\n"
    )
    suite.write_rows("words.jsonl", [{"id": f"w{k:02}", "input": f"{k}?", "expected": "five"} for k in range(50)])


@pytest.mark.uses("registry", "stages", "sweeps")
@pytest.mark.slow
def test_a_sweep_over_steps_trains_once(recipes, monkeypatch, capsys):
    write_kept_steps(recipes, steps="[2, 80]")
    result = recipes.run("--crucible-adapter=tuned", "--crucible-train", "--crucible-estimate")
    # What is not trained yet has no replies in the cache.
    result.stdout.fnmatch_lines(
        [
            "tuned[[]at=80[]] * 25 * 0 * 0 * 25 *",
            "all      requests 75 *",
            "training 1 run of recipes:train: unknown *",
        ]
    )
    assert not trainings(recipes)
    result = recipes.run("--crucible-adapter=tuned", "--crucible-train", "--crucible-json=r.json")

    result.stdout.fnmatch_lines(
        [
            "crucible: training tuned[[]at=2[]] with recipes:train: *",
            "crucible: trained tuned[[]at=2[]]: 90 steps *",
            "crucible: tuned[[]at=80[]] uses the training of tuned[[]at=2[]]",
            "test_words: tuned[[]at=80[]] has won the sweep of tuned by exact_match on 25 samples; verdicts rest on 25 others",
            "test_words: tuned[[]at=80[]] has the weights of step 80, which its recipe kept before its end",
        ]
    )
    assert len(trainings(recipes)) == 1
    (experiment,) = json.loads((recipes.path / "r.json").read_text())["experiments"]
    assert experiment["sections"]["training"]["tuned[at=80]"]["training_steps"] == 80
    assert len({member["identity"] for member in experiment["sections"]["sweep"]["members"]}) == 2
    recipes.refuses(
        recipes.run("--crucible-adapter=tuned", "--compare=v1"),
        "adapters 'tuned[[]at=2[]]' and 'v1' are the same checkpoint (*): compare two that differ",
    )
    result = recipes.run("--crucible-adapter=tuned[at=80]", "--compare=v1")
    result.stdout.fnmatch_lines(["exact_match: tuned[[]at=80[]] vs v1 * met, proven"])
    write_kept_steps(recipes, steps="[2, 70]")
    recipes.refuses(
        recipes.run("--crucible-adapter=tuned"),
        "adapter 'tuned[[]at=70[]]' has at = 70, but recipe 'recipes:train' kept steps 2, 80 and its last, 90: use one of them, "
        "or call trainer.checkpoint(70) in it",
    )
    monkeypatch.chdir(recipes.path)
    capsys.readouterr()
    assert main(["models", "register", "v1", "--model", "words"]) == 0
    assert main(["models", "list", "words"]) == 0
    assert "step 2 of recipes:train" in capsys.readouterr().out
    shutil.rmtree(recipes.path / ".crucible" / "adapters")
    assert recipes.run("--crucible-adapter=words@1").ret == 1


@pytest.mark.uses("sweeps")
@pytest.mark.slow
def test_on_two_workers_members_share_a_training(recipes):
    write_kept_steps(recipes, steps="[2, 80]")
    recipes.test(
        TEST_WORDS.replace("test_words", "test_others").replace("exact_match", "contains_expected"), name="test_others"
    )

    result = recipes.run_n2("--crucible-adapter=tuned", "--crucible-train")

    result.stdout.fnmatch_lines(["test_words: tuned[[]at=80[]] has won the sweep of tuned by exact_match *"])
    assert len(trainings(recipes)) == 1
