"""Adapters that recipes make: trained on demand, found again, compared; and every recipe that cannot be trained."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_base import write_tiny_base

import pytest_crucible.lessons  # noqa: F401  loaded once: numpy refuses to be loaded twice

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


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("base"))


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
    return sorted(one for one in (suite.path / ".crucible/adapters").glob("*") if one.is_dir())


ARMS = ("--crucible-adapter=v2", "--compare=v1")


def test_two_adapters_are_trained_and_compared(recipes):
    result = recipes.run(*ARMS, "--crucible-train")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "crucible: training v2 by recipes:train_v2, LoRA of rank 4, seed 0, on base ???????????? (* parameters)",
            "crucible: trained v2: 80 steps in * s (* s each), loss * to * (reduced by *%), gradient norms up to *; "
            ".crucible/adapters/*",
            "crucible: training v1 by *",
            "crucible: trained v1: 2 steps *",
            "collected 1 item",
            "exact_match >= 0.80 *met*",
            "exact_match: v2 vs v1 *met, proven",
        ]
    )
    assert trainings(recipes) == ["80", "2"]


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
        result.stdout.no_fnmatch_line("*training*")

    assert (recipes.path / "trainings.txt").read_text() == before


def test_trained_anew_with_the_same_seed_it_answers_the_same(recipes):
    def replies():
        document = recipes.json(*ARMS, "--crucible-train", "--crucible-fresh")
        (experiment,) = document["experiments"]
        return experiment["estimates"], [arm["identity"] for arm in experiment["arms"]]

    first = replies()
    for one in adapters(recipes):
        (one / "adapter.safetensors").unlink()

    assert replies() == first
    assert len(trainings(recipes)) == 4


def test_the_lineage_is_stored_beside_the_adapter(recipes):
    recipes.run("--crucible-adapter=v2", "--crucible-train")

    (adapter,) = adapters(recipes)
    lineage = json.loads((adapter / "lineage.json").read_text())
    assert lineage["recipe"] == "recipes:train_v2"
    assert list(lineage["data"]) == [str(recipes.path / "train.jsonl")]
    assert lineage["base"] == str(recipes.base)
    assert len(lineage["losses"]) == lineage["result"]["steps"] == 80
    assert lineage["result"]["loss_reduction"] > 0.5


def test_adapters_are_kept_beside_the_run_store(recipes):
    recipes.run("--crucible-adapter=v1", "--crucible-train", "--crucible-store=kept/runs.db")

    assert len(list((recipes.path / "kept/adapters").glob("*-*/lineage.json"))) == 1
    assert not adapters(recipes)


def test_without_the_option_a_missing_adapter_is_told(recipes, run):
    recipes.refuses(
        run(*ARMS),
        "adapter 'v2' is not trained with recipe 'recipes:train_v2', its data and its base as they are now: train it with "
        "--crucible-train",
    )
    assert not trainings(recipes)


@pytest.mark.parametrize("change", ["recipe", "what it calls", "data", "seed", "rank"])
def test_what_is_changed_is_not_trained_any_more(recipes, change):
    recipes.run("--crucible-adapter=v2", "--crucible-train")
    if change == "recipe":
        recipes.test(RECIPES.replace("trainer, 80", "trainer, 81"), name="recipes")
    elif change == "what it calls":
        recipes.test(RECIPES.replace("1e-2", "9e-3"), name="recipes")
    elif change == "data":
        recipes.write_rows("train.jsonl", [{"prompt": "9?", "completion": "nine"}] * 10)
    else:
        configure(recipes, **{"seed": {"seed": "1"}, "rank": {"lora": "{ rank = 5 }"}}[change])

    recipes.refuses(recipes.run("--crucible-adapter=v2"), "adapter 'v2' is not trained with *")


def test_only_what_a_session_asks_is_trained(recipes):
    recipes.run("--crucible-adapter=v1", "--crucible-train")

    assert trainings(recipes) == ["2"]


def test_collecting_trains_nothing_and_says_what_would_be(recipes):
    result = recipes.run(*ARMS, "--crucible-train", "--co")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "crucible: v2 by recipes:train_v2, LoRA of rank 4, seed 0, on base * would be trained",
            "crucible: v1 by recipes:train_v1, * would be trained",
            "crucible: test_words: v2 vs v1, 20 samples x 2 arms = 40 replies*",
        ]
    )
    assert not trainings(recipes)


def test_quiet_is_quiet(recipes):
    recipes.run("-q", *ARMS, "--crucible-train").stdout.no_fnmatch_line("crucible: *train*")


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
        "recipe 'recipes:train_v2' of adapter 'v2' raised KeyError: 'prompt' (recipes.py, line 3)",
    ),
    "no step": (
        "def train_v2(trainer):\n    pass\n",
        "recipe 'recipes:train_v2' of adapter 'v2' made no step: call trainer.step(batch, learning_rate=...)",
    ),
    "no data": (
        "def train_v2(trainer):\n    trainer.datums('gone.jsonl')\n",
        "recipe 'recipes:train_v2' of adapter 'v2': training data '*gone.jsonl' does not exist: give the path of a .jsonl file",
    ),
    "infinite": (
        "def train_v2(trainer):\n    for rate in (1e-2, 1e-2, 1e30, 1e-2):\n"
        "        trainer.step(trainer.datums('train.jsonl'), learning_rate=rate)\n",
        "training of 'v2' stopped at step 4: *; the last good adapter is kept in '*-stopped'",
    ),
    "at once": (
        "def train_v2(trainer):\n    trainer.step([])\n",
        "training of 'v2' stopped at its first step, so nothing is kept: there is no datum to train on",
    ),
    "import": (
        "import nothing_of_the_kind\n",
        "adapter 'v2' has recipe 'recipes:train_v2', which cannot be imported (ModuleNotFoundError: No module named "
        "'nothing_of_the_kind'): write 'module:function' of a module on the path",
    ),
    "syntax": (
        "def train_v2(trainer)\n",
        "adapter 'v2' has recipe 'recipes:train_v2', which cannot be imported (SyntaxError: *): write 'module:function' *",
    ),
    "no function": ("train_v2 = 7\n", "adapter 'v2' has recipe 'recipes:train_v2', which is no plain function: *"),
}


@pytest.mark.parametrize("mistake", BAD)
def test_recipes_that_cannot_be_trained(recipes, mistake):
    source, sentence = BAD[mistake]
    (recipes.path / "recipes.py").write_text(source)

    recipes.refuses(recipes.run("--crucible-adapter=v2", "--crucible-train"), sentence)


@pytest.mark.parametrize("mistake", ["raises", "infinite"])
def test_recipes_that_cannot_be_trained_on_two_workers(recipes, mistake):
    source, sentence = BAD[mistake]
    (recipes.path / "recipes.py").write_text(source)

    recipes.refuses(recipes.run_n2("--crucible-adapter=v2", "--crucible-train"), sentence)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"lora": "{ rnak = 4 }"},
            "adapter 'v2' has lora with 'rnak': it takes rank, train_attn, train_mlp, train_unembed",
        ),
        ({"lora": "{ rank = 0 }"}, "adapter 'v2' cannot be trained: the rank must be at least 1, not 0"),
        ({"seed": "'one'"}, "adapter 'v2' has seed = 'one': write rank and seed as whole numbers, the others as *"),
        (
            {"recipe": "'train_v2'"},
            "adapter 'v2' has recipe 'train_v2', which cannot be imported (*): write 'module:function' *",
        ),
        ({"steps": "7"}, "adapter 'v2' has 'steps', which backend 'local' does not know: it takes recipe, *"),
    ],
)
def test_settings_that_cannot_be_meant(recipes, changes, sentence):
    configure(recipes, **changes)

    recipes.refuses(recipes.run("--crucible-adapter=v2", "--crucible-train"), sentence)


def test_the_last_good_adapter_of_a_stopped_training_can_be_judged(recipes):
    (recipes.path / "recipes.py").write_text(BAD["infinite"][0])
    recipes.run("--crucible-adapter=v2", "--crucible-train")
    (kept,) = adapters(recipes)
    text = f"[adapters.kept]\nbackend = 'local'\nbase = '{recipes.base}'\ncheckpoint = '{kept}'\n"
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


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_a_training_that_is_cut_short_leaves_nothing_that_is_used(recipes, how):
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


def test_two_sessions_that_train_the_same_adapter(recipes):
    recipes.test(SLOW.format(pause=1), name="recipes")
    arguments = ("--crucible-adapter=v2", "--crucible-train")
    with apart(recipes, *arguments, "--crucible-store=.crucible/one.db") as first:
        wait_for(recipes.path / "begun")
        with apart(recipes, *arguments, "--crucible-store=.crucible/two.db") as second:
            outputs = [one.communicate(timeout=120)[0] for one in (first, second)]

    assert "crucible: trained v2: 4 steps" in outputs[0]
    assert "crucible: v2 is being trained by another process: waiting for it" in outputs[1]
    assert "crucible: v2 was trained by another process: .crucible/adapters/" in outputs[1]
    assert len(adapters(recipes)) == 1
    assert {first.returncode, second.returncode} <= {0, 1}  # the verdict is another matter
