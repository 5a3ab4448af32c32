"""Adapters with `seeds`: trainings of one recipe that are one arm together, with a real model."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing

import pytest

import pytest_crucible.features.training.adapters  # noqa: F401  loaded once: numpy refuses to be loaded twice
from pytest_crucible import runs
from pytest_crucible.cli import main

pytestmark = pytest.mark.uses("training")

RECIPES = """
    import random

    def train_v1(trainer):
        train(trainer, 2)

    def train_v2(trainer):
        train(trainer, 14)

    def train(trainer, steps):
        with open("trainings.txt", "a") as file:
            file.write(f"{steps} {trainer.seed}\\n")
        data, draw = trainer.datums("train.jsonl"), random.Random(trainer.seed)
        for _ in range(steps):
            trainer.step(draw.sample(data, 4), learning_rate=1e-2)
"""
TEST_WORDS = """
    import pytest

    @pytest.mark.crucible(dataset="words.jsonl", metrics=["exact_match"]{facts})
    @pytest.mark.quality_target("exact_match >= 0.20"{target})
    @pytest.mark.ab_compare("exact_match")
    async def test_words(sample, sampler):
        return await sampler.generate(sample.input)
"""
ARMS = ("--crucible-adapter=v2", "--compare=v1")
TRAIN = "--crucible-train"


@pytest.fixture
def seeded(suite, base):
    """Two recipes; v2 is trained three times, v1 as often as `write` says."""
    suite.write_rows("words.jsonl", [{"id": f"w{k}", "input": f"{k}?", "expected": "five"} for k in range(6)])
    suite.write_rows("train.jsonl", [{"prompt": f"{k}?", "completion": "five"} for k in range(20, 40)])
    (suite.path / "test_sums.py").unlink()
    suite.test(RECIPES, name="recipes")
    suite.base = base
    write(suite)
    return suite


def write(suite, v2="seeds = 3", v1="seeds = 3", facts="", target="") -> None:
    tables = [
        f'[adapters.{name}]\nbackend = "local"\nbase = "{suite.base}"\nrecipe = "recipes:train_{name}"\n'
        f"parameters = {{ max_tokens = 8, temperature = 0.0 }}\n{more}\n"
        for name, more in (("v1", v1), ("v2", v2))
    ]  # fmt: skip
    (suite.path / "crucible.toml").write_text("\n".join(tables))
    suite.test(TEST_WORDS.format(facts=facts, target=target), name="test_words")


def trainings(suite):
    written = suite.path / "trainings.txt"
    return written.read_text().splitlines() if written.exists() else []


def replies(suite):
    stored = runs.load(store=suite.path / ".crucible/crucible.db")
    table = stored.replies().merge(stored.repeats(), on=["run", "experiment", "arm", "repeat"])
    return {(row.arm, row.sample, row.training): row.text for row in table.itertuples()}


def test_each_training_answers_each_sample(seeded):
    document = seeded.json(*ARMS, TRAIN)

    assert sorted(trainings(seeded)) == ["14 0", "14 1", "14 2", "2 0", "2 1", "2 2"]
    assert len(replies(seeded)) == 6 * 3 * 2
    [experiment] = document["experiments"]
    assert [arm["seeds"] for arm in experiment["arms"]] == [[0, 1, 2], [0, 1, 2]]
    [compared] = experiment["comparisons"]
    assert compared["method"] == "crossed t"
    sources = {part["name"] for part in experiment["sections"]["variance"][0]["components"]}
    assert sources == {"samples", "trainings of the candidate", "trainings of v1"}
    assert sorted(experiment["sections"]["training"]) == [f"v{k}-seed{seed}" for k in (1, 2) for seed in range(3)]


def test_a_training_of_an_arm_is_the_model_of_that_seed(seeded):
    """One training alone, by its own name, gives the replies that it gave as a part of the arm."""
    seeded.run(*ARMS, TRAIN)
    together = replies(seeded)
    (seeded.path / ".crucible/crucible.db").unlink()

    (seeded.path / "crucible.toml").write_text(
        f'[adapters.alone]\nbackend = "local"\nbase = "{seeded.base}"\ncheckpoint = "v2-seed1"\n'
        "parameters = { max_tokens = 8, temperature = 0.0 }\n"
    )
    seeded.run("--crucible-adapter=alone")

    assert {sample: text for (_, sample, _), text in replies(seeded).items()} == {
        sample: text for (arm, sample, training), text in together.items() if (arm, training) == ("v2", 1)
    }


def test_the_plan_counts_trainings(seeded):
    result = seeded.run(*ARMS, TRAIN, "--co")

    result.stdout.fnmatch_lines(
        [
            "*would train v2-seed0 with recipes:train_v2: LoRA of rank *, seed 0, *",
            "*would train v2-seed2 with *, seed 2, *",
            "*6 samples x 3 trainings x 2 arms = 36*",
            "*3 trainings: their noise widens every interval*",
        ]
    )
    assert trainings(seeded) == []


def test_a_later_session_trains_nothing_and_sends_no_request(seeded):
    first = seeded.json(*ARMS, TRAIN)
    count = len(trainings(seeded))

    again, cached = seeded.json(*ARMS, "--crucible-resume"), seeded.json(*ARMS, "--crucible-cache=only")

    assert len(trainings(seeded)) == count
    assert again["experiments"][0]["comparisons"] == first["experiments"][0]["comparisons"]
    assert again["experiments"][0]["sections"]["cache"]["reused"]["v2"]["replies"] == 18
    assert cached["experiments"][0]["comparisons"] == first["experiments"][0]["comparisons"]


@pytest.mark.slow
def test_a_further_seed_is_trained_alone(seeded):
    """Its arm is another one, and the reply cache has the replies of those that were there."""
    seeded.run(*ARMS, TRAIN)
    write(seeded, v2="seeds = 4")

    document = seeded.json(*ARMS, TRAIN)

    assert trainings(seeded)[6:] == ["14 3"]
    [experiment] = document["experiments"]
    assert experiment["sections"]["cache"]["cached"]["v2"] == {"replies": 18, "requests": 24, "since": pytest.approx(
        experiment["sections"]["cache"]["cached"]["v2"]["since"])}  # fmt: skip


def test_a_stored_run_is_compared_with_all_its_trainings(seeded):
    first = seeded.json(*ARMS, TRAIN)["run"]["id"]

    document = seeded.json("--crucible-adapter=v1", f"--compare=run:{first}")

    [experiment] = document["experiments"]
    assert [arm["seeds"] for arm in experiment["arms"]] == [[0, 1, 2], [0, 1, 2]]
    assert experiment["comparisons"][0]["method"] == "crossed t"
    assert len(replies(seeded)) == 6 * 3 * 2


@pytest.mark.slow
def test_two_stored_runs_are_compared(seeded, monkeypatch, capsys):
    seeded.run(*ARMS, TRAIN)
    monkeypatch.chdir(seeded.path)
    capsys.readouterr()

    assert main(["compare", "latest", "latest:v1", "--json"]) in (0, 1)

    [experiment] = json.loads(capsys.readouterr().out)["experiments"]
    assert experiment["comparisons"][0]["method"] == "crossed t"


def test_two_trainings_give_no_verdict_and_say_why(seeded):
    write(seeded, v2="seeds = 2", v1="seed = 7")

    result = seeded.run(*ARMS, TRAIN)

    text = " ".join(result.stdout.str().split())
    assert "6 samples x arms of 2 and 1 trainings = 18 replies" in text
    assert "2 trainings: a random factor needs 3 levels for a verdict (or fixed='trainings'" in text
    assert (
        "2 trainings of the candidate cannot stand for others like them: a random factor needs at least 3 levels for a "
        "verdict; raise the adapter's seeds, or declare fixed='trainings'"
    ) in text


def test_fixed_trainings_are_repeats(seeded):
    write(seeded, v2="seeds = 2", v1="seeds = 2", facts=', fixed="trainings"')

    [experiment] = seeded.json(*ARMS, TRAIN)["experiments"]

    assert experiment["comparisons"][0]["method"] == "sign flips"
    assert "variance" not in experiment["sections"]


def test_trainings_and_rounds_are_crossed(seeded):
    document = seeded.json(*ARMS, TRAIN, "--crucible-rounds=3")

    with closing(sqlite3.connect(seeded.path / ".crucible/crucible.db")) as connection:
        rows = connection.execute("select number, training, round, epoch from repeats order by number").fetchall()
    assert rows == [(3 * training + number, training, number, 0) for training in range(3) for number in range(3)]
    assert document["experiments"][0]["comparisons"][0]["method"] == "crossed t"
    assert len(replies(seeded)) == 6 * 3 * 2
    assert len(runs.load(store=seeded.path / ".crucible/crucible.db").replies()) == 6 * 3 * 3 * 2


def test_a_conversation_names_its_training(seeded, monkeypatch, capsys):
    seeded.run(*ARMS, TRAIN)
    monkeypatch.chdir(seeded.path)
    capsys.readouterr()

    assert main(["show", "latest", "--sample", "w3"]) == 0

    assert "v2, training 3: " in capsys.readouterr().out


def test_a_target_on_the_training_has_an_interval_over_trainings(seeded):
    write(seeded)
    source = TEST_WORDS.format(facts="", target="").replace("exact_match >= 0.20", "final_loss <= 100")
    seeded.test(source, name="test_words")

    result = seeded.run(*ARMS, TRAIN, "--crucible-json=report.json")
    [experiment] = json.loads((seeded.path / "report.json").read_text())["experiments"]

    [target] = [estimate for estimate in experiment["estimates"] if estimate["metric"] == "final_loss"]
    losses = [experiment["sections"]["training"][f"v2-seed{seed}"]["final_loss"] for seed in range(3)]
    assert target["value"] == pytest.approx(math.exp(sum(map(math.log, losses)) / 3))
    assert target["low"] < target["value"] < target["high"] < 100
    assert (target["n"], target["method"]) == (3, "t of logarithms over 3 trainings")
    result.stdout.fnmatch_lines(
        [
            "final_loss <= 100 * [[]*, *[]]  *3     0  met, proven",
            "    one-sided bound * <= target 100; n counts trainings",
        ]
    )


@pytest.mark.uses("ensembles")
def test_several_trainings_are_no_member_of_an_ensemble(seeded):
    with (seeded.path / "crucible.toml").open("a") as file:
        file.write('\n[adapters.both]\nensemble = ["v1", "v2"]\n')

    seeded.refuses(
        seeded.run("--crucible-adapter=both"),
        "*ensemble 'both': adapter 'v1' has seeds, and a member is one model: name one of its trainings, such as local:v1-seed0*",
    )


def test_a_joined_test_takes_one_model(seeded):
    seeded.test(
        """
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_numbers(crucible, number):
            crucible.score(ok=True)
        """,
        name="test_joined",
    )

    result = seeded.run("--crucible-adapter=v2", TRAIN, "-k", "test_numbers")

    seeded.refuses(
        result,
        "*adapter 'v2' has seeds, so each sample is answered by several models, and pytest runs each*",
    )


def test_several_trainings_of_sessions_are_not_pooled(seeded):
    write(seeded, facts=', fixed="trainings"')

    result = seeded.run(*ARMS, TRAIN, "-o", "crucible_memory=pool")

    seeded.refuses(result, "*takes the replies of one model together: leave it out, or seeds*")


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_missing_trainings_are_named_without_the_option(seeded, workers):
    result = seeded.run(*ARMS, *workers)

    assert result.ret == 4
    assert "adapters 'v2-seed0' and 'v2-seed1' and 'v2-seed2'" in result.stderr.str() + result.stdout.str()
