"""Quality targets on how the candidate was trained: in the terminal, in JSON and JUnit, plain and on two workers."""

from __future__ import annotations

import shutil

import pytest
from run_documents import of_arms

import pytest_crucible.features.training.adapters  # noqa: F401  loaded once: numpy refuses to be loaded twice

RECIPES = """
    def train_v1(trainer):
        train(trainer, 2)

    def train_v2(trainer):
        train(trainer, 60)

    def train(trainer, steps):
        for _ in range(steps):
            trainer.step(trainer.datums([{"prompt": "1?", "completion": "five"}]), learning_rate=1e-2)
"""
TEST_WORDS = """
    import pytest

    @pytest.mark.crucible(dataset="words.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target({targets})
    @pytest.mark.ab_compare("exact_match")
    async def test_words(sample, sampler):
        return await sampler.generate(sample.input)
"""
NUMBERS = (
    "loss_reduction >= 0.90",
    "training_steps == 60",
    "convergence_steps < 60",
    "final_loss <= 0.5",
    "largest_gradient_norm <= 1e-3",
    "gradient_norms_finite == 1",
)
STATES = ["met", "met", "met", "met", "missed", "met"]
ARMS = ("--crucible-adapter=v2", "--compare=v1", "--crucible-train")
NOT_KNOWN = "there is one where a recipe made the adapter, or lineage.json lies beside its checkpoint"


@pytest.fixture
def words(suite, base):
    """Two adapters by recipe, and one of recorded replies."""
    suite.write_rows("words.jsonl", [{"id": f"w{k}", "input": f"{k}?", "expected": "five"} for k in range(8)])
    suite.write_rows("old.jsonl", [{"sample_id": f"w{k}", "text": "five"} for k in range(8)])
    local = {"backend": "local", "base": str(base)}
    suite.adapters(
        {
            "v1": {**local, "recipe": "recipes:train_v1"},
            "v2": {**local, "recipe": "recipes:train_v2"},
            "old": {"backend": "recorded", "path": "old.jsonl"},
        }
    )
    config = suite.path / "crucible.toml"
    text = config.read_text().replace('backend = "local"', 'backend = "local"\nparameters = { max_tokens = 12 }')
    config.write_text(text)
    (suite.path / "test_sums.py").unlink()
    suite.test(RECIPES, name="recipes")
    ask(suite, *NUMBERS)
    return suite


def ask(suite, *targets: str, source: str = TEST_WORDS) -> None:
    suite.test(source.format(targets=", ".join(map(repr, targets))), name="test_words")


def states(document, kind="target") -> list[str]:
    return [verdict["state"] for verdict in document["experiments"][0]["verdicts"] if verdict["kind"] == kind]


def test_training_targets_are_decided_like_other_targets(words, run):
    result = run(*ARMS, "--junitxml=junit.xml")

    assert result.ret == 1
    assert "largest_gradient_norm &lt;= 1e-3" in (words.path / "junit.xml").read_text()
    result.stdout.fnmatch_lines(
        [
            "target *n  lost  verdict",
            "loss_reduction >= 0.90         1.000 [[]one training]  *1     0  met",
            "training_steps == 60           60 [[]one training]  *1     0  met",
            "convergence_steps < 60         17 [[]one training]  *1     0  met",
            "final_loss <= 0.5 * [[]one training]  *1     0  met",
            "largest_gradient_norm <= 1e-3  23 [[]one training]  *1     0  missed",
            "gradient_norms_finite == 1     1 [[]one training]  *1     0  met",
            "test_words: v2 was trained once, in 60 steps: another seed may give other numbers",
            "FAILED test_words.py::test_words::largest_gradient_norm <= 1e-3 - missed: 23 [[]one training] n=1; another seed may *",
        ]
    )


def test_the_numbers_are_in_the_json(words, run):
    document = words.json(*ARMS, run=run)

    [experiment] = document["experiments"]
    trainings = of_arms(experiment, "training")
    assert [training["training_steps"] for training in trainings] == [60, 2]
    estimates = {
        estimate["metric"]: estimate for estimate in experiment["estimates"] if estimate["statistic"] == "training"
    }
    for name in ("loss_reduction", "training_steps", "final_loss"):
        assert estimates[name]["value"] == trainings[0][name]
        assert (estimates[name]["n"], estimates[name]["low"], estimates[name]["method"]) == (1, None, "one training")
    assert states(document) == STATES


def test_training_targets_are_equal_for_stored_and_new_replies(words):
    """Answers of a run that was kept are compared with, and one that was cut short goes on."""
    first = words.json(*ARMS)["run"]["id"]

    assert states(words.json("--crucible-adapter=v1", f"--compare=run:{first}"))[:2] == ["missed", "missed"]
    assert states(words.json(*ARMS, "--crucible-resume")) == STATES


def test_an_adapter_without_a_training_leaves_training_targets_undecided(words, run):
    ask(words, "loss_reduction >= 0.90")

    result = run("--crucible-adapter=old", "-rs")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "loss_reduction >= 0.90  unknown * 0     0  undecided",
            f"    nothing is known of a training of old (recorded): {NOT_KNOWN}",
        ]
    )


def test_open_ones_can_fail_the_session(words):
    (words.path / "pytest.ini").write_text("[pytest]\ncrucible_undecided = fail\n")
    ask(words, "loss_reduction >= 0.90")

    result = words.run("--crucible-adapter=old")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED *loss_reduction >= 0.90 - undecided: nothing is known of a training of old *"])


@pytest.mark.parametrize("copies", ["with its lineage", "without", "beside another's"])
def test_a_checkpoint_has_the_training_that_lies_beside_it(words, copies):
    words.run(*ARMS)
    trained = {
        len(path.read_text()): path.parent for path in (words.path / ".crucible/adapters").glob("*/lineage.json")
    }
    best, other = trained[max(trained)], trained[min(trained)]
    shutil.copytree(best, words.path / "kept")
    if copies == "without":
        (words.path / "kept/lineage.json").unlink()
    elif copies == "beside another's":
        shutil.copy(other / "lineage.json", words.path / "kept")
    config = words.path / "crucible.toml"
    config.write_text(
        config.read_text().replace('"recipes:train_v2"', "'kept'").replace("recipe = 'k", "checkpoint = 'k")
    )

    result = states(words.json("--crucible-adapter=v2"))

    assert result == (STATES if copies == "with its lineage" else ["undecided"] * len(NUMBERS))


def test_a_stopped_training_is_reported(words):
    words.test(
        RECIPES.replace("learning_rate=1e-2)", "learning_rate=1e300 if steps == 60 and trainer.log.losses else 1e-2)"),
        name="recipes",
    )
    assert words.run(*ARMS).ret == 4
    [copies] = (words.path / ".crucible/adapters").glob("*-stopped")
    config = words.path / "crucible.toml"
    config.write_text(config.read_text().replace('recipe = "recipes:train_v2"', f"checkpoint = '{copies}'"))
    ask(words, "gradient_norms_finite == 1")

    assert states(words.json("--crucible-adapter=v2")) == ["missed"]


def test_a_metric_of_the_suite_goes_first(words, run):
    words.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="words.jsonl")
        @pytest.mark.quality_target("final_loss >= 7", "training_steps == 60")
        async def test_words(sample, sampler, score):
            score(final_loss=7.0)
            return await sampler.generate(sample.input)
        """,
        name="test_words",
    )

    result = run(*ARMS)

    assert result.ret == 0
    result.stdout.fnmatch_lines(["final_loss >= 7 * 8     0  met", "training_steps == 60 * 1     0  met"])
    result.stdout.no_fnmatch_line("crucible: train* v1*")  # nothing is compared, so that it gets no request


def test_a_joined_test_can_have_training_targets(words, run):
    words.test(
        """
        import pytest

        @pytest.mark.parametrize("number", range(3))
        @pytest.mark.quality_target("training_steps == 60", "right >= 0")
        def test_words(crucible, number):
            crucible.score(right=crucible.sampler.generate(f"{number}?").text == "five")
        """,
        name="test_words",
    )

    assert states(words.json("--crucible-adapter=v2", "--crucible-train", run=run)) == ["met", "met"]
    # Of a part of the samples nothing can be said, but the training is what it is.
    assert states(words.json("--crucible-adapter=v2", "-k", "not 2")) == ["met", "undecided"]


@pytest.mark.parametrize(
    ("training", "state"), [("summarise_training([4.0, 1.0], [2.0, 1.0])", "met"), ("'at school'", "undecided")]
)
def test_a_users_backend_can_report_its_training(suite, training, state):
    suite.adapters({"own": {"backend": "own"}})
    (suite.path / "conftest.py").write_text(
        "from pytest_crucible.records import Reply\n"
        "from pytest_crucible.features.training.log import summarise_training\n"
        "class Own:\n"
        "    simulated, identity = False, 'own'\n"
        f"    training = {training}\n"
        "    async def generate(self, request):\n"
        "        return Reply(text='4')\n"
        "def pytest_crucible_backend(adapter):\n"
        "    return Own() if adapter.backend == 'own' else None\n"
    )
    (suite.path / "test_sums.py").write_text(
        (suite.path / "test_sums.py").read_text().replace("exact_match >= 0.70", "final_loss <= 1")
    )

    assert states(suite.json("--crucible-adapter=own")) == [state]
