"""The example suites give the numbers that are known of their data, by the commands that README gives."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
from run_documents import of_arms

SUITES = Path(__file__).parent.parent / "example_suites"
RIGHT = {"6b_finetuning": 286, "6b_verification": 515, "175b_finetuning": 458, "175b_verification": 742}
"""Of 1,319 questions, by the `is_correct` that was published with the solutions."""

Ran = tuple[subprocess.CompletedProcess[str], dict[str, Any]]

needs_data = pytest.mark.skipif(
    "CRUCIBLE_DATA" not in os.environ, reason="CRUCIBLE_DATA does not name a directory with gsm8k/"
)


@pytest.fixture
def run_suite(tmp_path, python):
    """Exit status and JSON of a suite, run on a copy so that its run store is its own."""

    def run(name: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        copy_suite(name, tmp_path)
        done, document = run_copy(python, name, tmp_path, *arguments)
        return done.returncode, document

    return run


def copy_suite(name: str, folder: Path) -> None:
    shutil.copytree(SUITES / name, folder / name, ignore=shutil.ignore_patterns(".crucible", "__pycache__"))


def run_copy(python: str, name: str, folder: Path, *arguments: str) -> Ran:
    plugins = ("-p", "no:asyncio", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")
    command = [python, "-m", "pytest", *plugins, str(folder / name), "--crucible-json=run.json", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done, json.loads((folder / "run.json").read_text())


@needs_data
@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)], ids=["plain", "n2"])
@pytest.mark.parametrize(
    ("candidate", "baseline", "status"),
    [("6b_verification", "6b_finetuning", 1), ("175b_verification", "175b_finetuning", 0)],
    ids=["6b", "175b"],
)
def test_a_verifier_raises_the_accuracy(run_suite, candidate, baseline, status, workers):
    """0.2168 -> 0.3904 and 0.3472 -> 0.5625. With 6B parameters the target of 0.40 is missed all the same."""
    result, document = run_suite("gsm8k", f"--crucible-adapter={candidate}", f"--compare={baseline}", *workers)

    estimates = {estimate["arm"]: estimate["value"] for estimate in document["experiments"][0]["estimates"]}
    assert result == status
    assert estimates == pytest.approx({name: RIGHT[name] / 1319 for name in (candidate, baseline)}, abs=1e-12)


@needs_data
def test_a_small_verifier_beats_a_large_model_without_one(run_suite):
    """306 questions both answer right, 209 and 152 only one of them; R: binom.test(152, 361).

    The interval is that of the exact unconditional test; the roots of Tango (1998) are -0.07145819 and -0.01505174.
    """
    status, document = run_suite("gsm8k", "--crucible-adapter=175b_finetuning", "--compare=6b_verification")

    [comparison] = document["experiments"][0]["comparisons"]
    assert status == 1
    assert comparison["pairs"] == 1319
    assert comparison["difference"] == pytest.approx((152 - 209) / 1319, abs=1e-12)
    assert (comparison["low"], comparison["high"]) == pytest.approx((-0.07146439571, -0.01503682968), abs=1e-9)
    assert comparison["p_value"] == pytest.approx(0.0026827544906, abs=1e-9)
    assert comparison["p_exact"] == pytest.approx(0.00315065688, abs=1e-9)


def test_the_smallest_suite_runs_without_any_other_file(run_suite):
    status, document = run_suite("arithmetic", "--crucible-adapter=v2", "--compare=v1")

    assert status == 0
    assert [verdict["state"] for verdict in document["experiments"][0]["verdicts"]] == ["met", "met"]


@pytest.mark.slow
@needs_data
def test_a_checkpoint_that_sees_support_everywhere_is_caught_where_there_is_none(run_suite):
    """Counted from the files: of 112 claims without evidence 77 and 102 are left without;
    of 124 with support, 95 and 90 are given it.
    """
    status, document = run_suite("scifact", "--crucible-adapter=covidfact", "--compare=fever_sci")

    experiment = document["experiments"][0]
    values = {
        (estimate["metric"], estimate["arm"]): (estimate["value"], estimate["n"])
        for estimate in experiment["estimates"]
    }
    states = {verdict["subject"]: verdict["state"] for verdict in experiment["verdicts"]}
    assert status == 1
    assert values["right_NEI", "covidfact"] == (pytest.approx(77 / 112), 112)
    assert values["right_NEI", "fever_sci"] == (pytest.approx(102 / 112), 112)
    assert values["right_SUPPORT", "covidfact"] == (pytest.approx(95 / 124), 124)
    assert values["right_SUPPORT", "fever_sci"] == (pytest.approx(90 / 124), 124)
    assert states["right_NEI: covidfact vs fever_sci"] == "missed"
    assert states["citation_accuracy: covidfact vs fever_sci"] == "met"


# -- claims: adapters that are trained once, for all of these -------------------------------------------------------

ARMS = ("--crucible-adapter=v2", "--compare=v1")


@pytest.fixture(scope="module")
def claims(tmp_path_factory, python):
    """The folder of a copy of the suite that README's command has run, its output, and its JSON."""
    folder = tmp_path_factory.mktemp("claims")
    copy_suite("claims", folder)
    done, document = run_copy(python, "claims", folder, *ARMS)
    return folder, done, document


def test_of_fewer_steps_and_samples_both_adapters_are_trained_sampled_and_compared(tmp_path, python):
    copy_suite("claims", tmp_path)
    recipes, samples = tmp_path / "claims/recipes.py", tmp_path / "claims/held_out.jsonl"
    recipes.write_text(recipes.read_text().replace("steps=90", "steps=9").replace("steps=9)", "steps=2)", 1))
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:12]))

    done, document = run_copy(python, "claims", tmp_path, *ARMS)

    [experiment] = document["experiments"]
    v2, v1 = of_arms(experiment, "training")
    assert "crucible: trained v2: 9 steps" in done.stdout
    assert "crucible: trained v1: 2 steps" in done.stdout
    assert v2["loss_reduction"] > v1["loss_reduction"] > 0
    assert [(comparison["pairs"], comparison["clusters"]) for comparison in experiment["comparisons"]] == [
        (12, 4),
        (12, 4),
    ]
    assert done.returncode == ("missed" in [verdict["state"] for verdict in experiment["verdicts"]])


def replies(folder: Path, run: str) -> list[tuple[Any, ...]]:
    """Arm, sample and text of all replies of a run."""
    query = """SELECT arms.number, position, text FROM replies JOIN arms ON arms.id = replies.arm
        JOIN experiments ON experiments.id = arms.experiment WHERE run = ? ORDER BY 1, 2"""
    with contextlib.closing(sqlite3.connect(folder / "claims/.crucible/crucible.db")) as store:
        return store.execute(query, (run,)).fetchall()


@pytest.mark.slow
def test_two_adapters_are_trained_and_their_difference_is_proven(claims):
    """230 and 152 of 240 in form. The numbers are those of README, on all processors that were tried."""
    _, done, document = claims

    [experiment] = document["experiments"]
    estimates = {(estimate["metric"], estimate["arm"]): estimate["value"] for estimate in experiment["estimates"]}
    assert done.returncode == 0
    assert "crucible: trained v2: 90 steps" in done.stdout
    assert estimates["schema", "v2"] == pytest.approx(230 / 240)
    assert estimates["schema", "v1"] == pytest.approx(152 / 240)
    assert estimates["citation", "v2"] == pytest.approx(208.5 / 240)
    assert estimates["citation", "v1"] == pytest.approx(160.5 / 240)
    assert [(verdict["state"], verdict["proven"]) for verdict in experiment["verdicts"]] == [
        ("met", True), ("met", True), ("met", False), ("met", True), ("met", True),
    ]  # fmt: skip


@pytest.mark.slow
def test_training_is_real_and_judged(claims):
    _, _, document = claims

    [experiment] = document["experiments"]
    v2, v1 = of_arms(experiment, "training")
    assert (v2["training_steps"], v1["training_steps"]) == (90, 9)
    assert v2["loss_reduction"] == pytest.approx(0.987, abs=5e-4)
    assert v2["convergence_steps"] == 7
    assert v2["gradient_norms_finite"] is True


@pytest.mark.slow
def test_samples_of_one_abstract_are_a_group(claims):
    _, _, document = claims

    [experiment] = document["experiments"]
    assert (experiment["dataset"]["n"], experiment["dataset"]["groups"]) == (240, 80)
    assert {comparison["clusters"] for comparison in experiment["comparisons"]} == {80}


@pytest.mark.slow
def test_the_adapters_are_used_again_and_reply_the_same_byte_for_byte(claims, monkeypatch, python):
    folder, _, first = claims
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")

    done, second = run_copy(python, "claims", folder, *ARMS, "--crucible-fresh", "--crucible-concurrency=24", "-n", "1")

    assert "train" not in done.stderr
    assert of_arms(second["experiments"][0], "reused") == [None, None]
    events = replies(folder, second["run"]["id"])
    assert len(events) == 480
    assert events == replies(folder, first["run"]["id"])


@pytest.mark.slow
def test_an_adapter_is_not_better_than_itself(claims, python):
    """v2, compared with its own answers of before."""
    folder, _, first = claims

    done, document = run_copy(python, "claims", folder, "--crucible-adapter=v2", f"--compare=run:{first['run']['id']}")
    [experiment] = document["experiments"]
    assert done.returncode == 0
    assert [comparison["difference"] for comparison in experiment["comparisons"]] == [0, 0]
    assert [of_arm is None for of_arm in of_arms(experiment, "training")] == [False, True]


@pytest.mark.slow
def test_swapped_letters_hurt_and_informal_words_do_not(tmp_path, python):
    """The proven drop fails the session; what the injection asks for is not said."""
    copy_suite("claims", tmp_path)
    copy_suite("robustness", tmp_path)
    done, document = run_copy(python, "robustness", tmp_path, "--crucible-adapter=v2")

    verdicts = {
        verdict["subject"]: (verdict["state"], verdict["proven"]) for verdict in document["experiments"][0]["verdicts"]
    }
    assert done.returncode == 1
    assert verdicts.pop("schema.drop[character_swap] <= 0.05") == ("missed", True)
    assert {state for state, _ in verdicts.values()} == {"met"}
    drops = {row["attack"]: row for row in document["experiments"][0]["sections"]["robustness"]["drops"]}
    assert drops["character_swap"]["p_adjusted"] < 0.001
    assert drops["semantic_formality_change"]["p_adjusted"] > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("adapter", ["rewarded", "clipped"])
def test_rewards_alone_teach_the_task(run_suite, adapter):
    """The base is never right; both losses bring the model above the target, and the difference is proven."""
    status, document = run_suite("rl", f"--crucible-adapter={adapter}", "--compare=base")

    [experiment] = document["experiments"]
    estimates = {(estimate["metric"], estimate["arm"]): estimate["value"] for estimate in experiment["estimates"]}
    assert estimates["right", "base"] < 0.05
    assert estimates["right", adapter] >= 0.80
    assert status == 0
    verdicts = {verdict["subject"]: (verdict["state"], verdict["proven"]) for verdict in experiment["verdicts"]}
    assert verdicts[f"reward: {adapter} vs base superior"] == ("met", True)
