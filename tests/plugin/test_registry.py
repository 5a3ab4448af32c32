"""The registry of models: register, measure, promote with the run as proof, roll back, retire."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from typing import Any

import pytest

from pytest_crucible.cli import main

TEST = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.20")
    @pytest.mark.ab_compare("exact_match", margin=0.30)
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
LENIENT = "[registry]\nclean_commit = false\n"


def prepare(suite: Any) -> None:
    """v1 is claims@1 and in production; v2 is claims@2, a draft, and was compared with production."""
    suite.test(TEST)
    with (suite.path / "crucible.toml").open("a") as file:
        file.write(LENIENT)
    suite.run("--crucible-adapter=v1").assert_outcomes(passed=2)
    for arguments in (
        ("models", "register", "v1", "--model", "claims"),
        ("models", "promote", "latest", "--to", "production"),
        ("models", "register", "v2", "--model", "claims"),
    ):
        assert main(arguments) == 0
    suite.run("--crucible-adapter=claims@2", "--compare=production").assert_outcomes(passed=3)


@pytest.fixture
def registry(suite, monkeypatch) -> Any:
    monkeypatch.chdir(suite.path)
    suite.prepare_once(prepare)
    return suite


def states(command, *arguments: str) -> dict[str, str]:
    status, out = command("models", "list", "--json", *arguments)
    assert status == 0
    return {row["version"]: row["state"] for row in json.loads(out)}


def test_a_version_reaches_production_and_is_rolled_back(registry, command):
    assert command("models", "promote", "latest", "--to", "production") == (
        0,
        "claims@1 is retired, was in production\nclaims@2 is in production, was draft\n",
    )
    assert states(command) == {"claims@1": "retired", "claims@2": "production"}
    status, output = command("models", "promote", "latest", "--to", "staged")
    assert (status, output) == (
        4,
        "crucible models promote: claims@2 is in production already: `crucible models list claims` shows why\n",
    )
    assert command("models", "rollback", "claims", "--why", "too slow")[0] == 0
    assert states(command) == {"claims@1": "production", "claims@2": "rolled-back"}
    status, output = command("models", "promote", "latest", "--to", "candidate")
    assert status == 4
    assert "claims@2 was rolled back on" in output
    assert command("models", "rollback", "claims", "--why", "again") == (
        4,
        "crucible models rollback: claims has no earlier production version to restore\n",
    )
    # The reason stands beside the version that was withdrawn.
    restored, withdrawn = command("models")[1].splitlines()[1:]
    assert ("too slow" in restored, withdrawn.endswith("; too slow")) == (False, True)
    _, log = command("models", "--log")
    assert "production -> rolled-back  -             -     too slow" in log
    assert "registry: 2 versions, 8 log rows that match their hashes" in command("doctor")[1]


def test_a_version_that_a_promotion_retired_is_withdrawn_once(registry, command):
    assert command("models", "promote", "latest", "--to", "production")[0] == 0

    assert command("models", "retire", "claims@1", "--why", "it lies")[1] == (
        "claims@1 was retired by a promotion; from now on no rollback restores it\n"
    )
    rows = command("models", "--log")[1].splitlines()
    assert "retired -> withdrawn" in rows[-1]
    assert "claims@1 is retired already" in command("models", "retire", "claims@1", "--why", "again")[1]
    assert command("models", "--log")[1].splitlines() == rows
    assert command("models", "rollback", "claims", "--why", "too slow")[0] == 4


@pytest.mark.uses("contamination")
def test_versions_are_adapters_and_are_stored_by_number(registry, command):
    names = {"claims@production": "claims@1", "production": "claims@1", "claims@1": "claims@1", "claims@2": "claims@2"}
    baseline = registry.json("--crucible-adapter=v3", "--compare=claims@production")["experiments"][0]["arms"][1]

    assert baseline["name"] == "claims@1"
    assert baseline["adapter"] == "recorded:claims@1"
    for name, number in names.items():
        arm = registry.json(f"--crucible-adapter={name}")["experiments"][0]["arms"][0]
        assert arm["name"] == number
    registry.refuses(
        registry.run("--crucible-adapter=v2", "--compare=claims@staged"),
        "claims has no version staged: promote one with `crucible models promote RUN --to staged`",
    )
    registry.refuses(
        registry.run("--crucible-adapter=v2", "--compare=claims@7"), "claims has no version 7: it has 1 to 2"
    )
    registry.refuses(
        registry.run("--crucible-adapter=v2", "--compare=claim@1"), "*did you mean 'claims'? the models are claims"
    )
    registry.refuses(
        registry.run("--crucible-adapter=v2", "--compare=claims@2"), "*v2* and *claims@2* are the same checkpoint*"
    )
    for candidate in ("production", "claims@1"):
        registry.refuses(
            registry.run(f"--crucible-adapter={candidate}", "--compare=production"),
            "'production' (claims@1) is named twice: compare an adapter with another one",
        )
    for name, sentence in (
        (
            "claims@1",
            "--order-test: adapter 'claims@1' (recorded) cannot score prompts; use a backend with prompt logprobs",
        ),
        ("claims@7", "claims has no version 7: it has 1 to 2"),
    ):
        printed = command("data", "contamination", "questions.jsonl", "--adapter", name, "--order-test")
        assert printed == (4, f"crucible data contamination: {sentence}\n")
    shutil.rmtree(registry.path / ".crucible" / "registry")
    registry.refuses(registry.run("--crucible-adapter=claims@2"), "weights of claims@2 are not here: *")
    assert command("models", "promote", "latest", "--to", "candidate")[0] == 4


def test_an_era_spends_alpha_and_candidates_are_counted(registry):
    settings = registry.path / "crucible.toml"
    settings.write_text(settings.read_text() + "era_alpha = 0.05\n")

    ended = registry.run("--crucible-adapter=v3", "--compare=production", "--crucible-json=run.json")

    # claims@2 was compared with this production version before: this is the second look.
    assert json.loads((registry.path / "run.json").read_text())["run"]["alpha"] == pytest.approx(0.05 / 6)
    ended.stdout.fnmatch_lines(["*v3: 3rd candidate on these 20 samples, decided at alpha 0.0083*"])
    settings.write_text(settings.read_text() + "provn = true\n")
    registry.refuses(
        registry.run("--crucible-adapter=v3", "--compare=production"),
        "*'provn'*did you mean 'proven'? it takes proven, *",
    )


@pytest.mark.slow
def test_workers_take_the_numbers_from_the_controller(registry):
    registry.run_n2("--crucible-adapter=v3", "--compare=production").assert_outcomes(passed=3)


def test_versions_are_ranked_forced_kept_and_audited(registry, command):
    _, ranks = command("models", "--rank", "exact_match")
    lines = ranks.splitlines()
    assert lines[0] == "test_sums.py::test_sums: 20 samples"
    assert [line.split()[0] for line in lines[2:4]] == ["claims@2", "claims@1"]
    assert command("models", "--rank", "nothing")[0] == 4

    assert command("models", "promote", "latest", "--to", "staged", "--force")[1].endswith("add --why TEXT\n")
    settings = registry.path / "crucible.toml"
    settings.write_text(settings.read_text().replace("clean_commit = false", "clean_commit = true"))
    assert command("models", "promote", "latest", "--to", "production")[1].endswith(
        "made outside a repository: commit, and run it again\n"
    )
    _, forced = command("models", "promote", "latest", "--to", "production", "--force", "--why", "demo")
    assert "by force: run " in forced
    assert "by force (run " in command("models", "--log")[1]

    # Both runs are proof of something.
    assert "would remove 0 runs" in command("gc", "--keep-runs=0", "--keep-days=0")[1]
    (weights, *_) = sorted((registry.path / ".crucible" / "registry").glob("*/v2.jsonl"))
    weights.write_text(weights.read_text().replace("gave up", "gave in"))
    changed = "weights of claims@2 changed since it was registered: register them as a new version"
    registry.refuses(registry.run("--crucible-adapter=claims@2"), changed)
    assert (command("doctor")[0], changed in command("doctor")[1]) == (1, True)
    with contextlib.closing(sqlite3.connect(registry.path / ".crucible" / "crucible.db")) as connection, connection:
        connection.execute("UPDATE registry_log SET body = replace(body, 'draft', 'staged') WHERE number = 1")
    broken = "row 1 of the registry log does not match its hash: restore the store from a backup"
    assert broken in command("models", "promote", "latest", "--to", "staged")[1]
    assert broken in command("doctor")[1]


PROMPT_TEST = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl")
    async def test_sums(sample, sampler, prompt, score):
        with open("prompts.txt", "a") as file:
            file.write(f"{sampler.arm.name} {prompt}\\n")
        score(short=len((await sampler.generate(prompt)).text) < 20)
"""


@pytest.mark.uses("factors")
@pytest.mark.slow
def test_a_version_keeps_the_text_of_its_prompt(suite, command):
    suite.script("def answer(request):\n    return request.input\n")
    suite.test(PROMPT_TEST)
    (suite.path / "prompts").mkdir()
    prompt = suite.path / "prompts" / "terse.txt"
    prompt.write_text("Be terse.")
    table = 'backend = "scripted"\nscript = "scripts:answer"\nvariables = { prompt = "prompts/terse.txt" }\n'
    (suite.path / "crucible.toml").write_text(f"[adapters.terse]\n{table}")
    assert command("models", "register", "terse", "--model", "claims") == (0, "terse is claims@1, a draft\n")
    prompt.write_text("Be very terse.")

    # As it was registered, and a changed prompt is another version.
    suite.run("--crucible-adapter=claims@1").assert_outcomes(passed=1)
    assert set((suite.path / "prompts.txt").read_text().splitlines()) == {"claims@1 Be terse."}
    assert command("models", "register", "terse", "--model", "claims") == (0, "terse is claims@2, a draft\n")
    prompt.write_text("Be terse.")
    assert command("models", "register", "terse", "--model", "claims") == (0, "terse is claims@1, as before\n")
    prompt.unlink()
    status, output = command("models", "register", "terse", "--model", "claims")
    assert status == 4
    assert "variables.prompt = 'prompts/terse.txt', which does not exist below" in output
