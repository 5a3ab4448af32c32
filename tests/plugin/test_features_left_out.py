"""A feature that is left out leaves everything else working, and its words are refused by name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from fork_server import INTERPRETER
from run_sizes import FULL

from pytest_crucible.features import NAMES

BOTH = ("--crucible-adapter=v2", "--compare=v1")
PARTS = 5 if FULL else 10
"""Each feature is left out of the first test of a fifth or a tenth of the files, others than those of the feature before."""


@pytest.mark.parametrize("name", NAMES)
def test_without_a_feature_the_core_decides_as_before(suite, name):
    whole = suite.json(*BOTH)

    without = suite.json("-p", f"no:crucible-{name}", "--crucible-store=other.db", *BOTH)

    of_whole, of_rest = (document["experiments"][0] for document in (whole, without))
    assert [verdict["state"] for verdict in of_rest["verdicts"]] == [
        verdict["state"] for verdict in of_whole["verdicts"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_session_tests_of_other_features_pass_without_a_feature(name):
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
        "CRUCIBLE_LEFT_OUT": name,
        "CRUCIBLE_PART": f"{NAMES.index(name) % PARTS}/{PARTS}",
    }
    arguments = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--ignore={__file__}", str(Path(__file__).parent))
    result = subprocess.run(
        [INTERPRETER, "-m", "pytest", *arguments], cwd=Path(__file__).parents[2], env=environment, capture_output=True
    )

    assert result.returncode == 0, result.stdout.decode()


@pytest.mark.parametrize(
    ("name", "marker", "word"),
    [
        ("stages", '@pytest.mark.crucible(dataset="questions.jsonl", stage="dev")', "@pytest.mark.crucible(stage=...)"),
        (
            "robustness",
            '@pytest.mark.robustness("homoglyph")\n@pytest.mark.crucible(dataset="questions.jsonl")',
            "@pytest.mark.robustness",
        ),
        (
            "data_checks",
            'pytestmark = pytest.mark.data_check()\n\n@pytest.mark.crucible(dataset="questions.jsonl")',
            "@pytest.mark.data_check",
        ),
        (
            "contamination",
            "from pytest_crucible.datasets.checks import expect_all, expect_no_data_drift\n\n"
            '@pytest.mark.data_check(expect_all([expect_no_data_drift("input", "old.jsonl")]))\n'
            '@pytest.mark.crucible(dataset="questions.jsonl")',
            "expect_no_data_drift",
        ),
        (
            "slices",
            '@pytest.mark.crucible(dataset="questions.jsonl")\n@pytest.mark.quality_target("gap(ok by topic) <= 0.5")',
            "gap(ok by topic)",
        ),
        (
            "factors",
            '@pytest.mark.crucible(dataset="questions.jsonl", prompts=["a.txt", "b.txt"])',
            "@pytest.mark.crucible(prompts=...)",
        ),
        (
            "judges",
            'from pytest_crucible import judges\n\nright = judges.rubric("right", "Right?", levels={"no": 0, "yes": 1})\n\n'
            '@pytest.mark.crucible(dataset="questions.jsonl", metrics=[right])',
            "metric 'right'",
        ),
    ],
)
def test_a_word_of_a_left_out_feature_is_refused_with_its_name(suite, name, marker, word):
    suite.test(f"import pytest\n\n{marker}\ndef test_sums(sample, sampler, score):\n    score(ok=True)\n")

    result = suite.run("-p", f"no:crucible-{name}", "--crucible-adapter=v2")

    suite.refuses(
        result, f"*{word} needs the feature {name}, which `-p no:crucible-{name}` leaves out: remove one of them"
    )


def test_a_family_without_the_feature_sweeps_is_refused(suite):
    path = suite.path / "crucible.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(f'{text}\n[adapters.many]\nbackend = "recorded"\n[adapters.many.sweep]\nby = "exact_match"\n')

    result = suite.run("-p", "no:crucible-sweeps", "--crucible-adapter=many")

    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_key_of_a_left_out_feature_in_the_configuration_is_refused(suite):
    (suite.path / "pytest.ini").write_text("[pytest]\ncrucible_checks = only\n")

    result = suite.run("-p", "no:crucible-data_checks", "--crucible-adapter=v2")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: crucible_checks needs the feature data_checks, which *"])


def test_a_version_without_the_feature_registry_is_refused(suite):
    result = suite.run("-p", "no:crucible-registry", "--crucible-adapter=claims@4")

    suite.refuses(
        result,
        "*adapter 'claims@4' needs the feature registry, which `-p no:crucible-registry` leaves out: remove one of them",
    )


def test_an_adapter_with_a_recipe_is_refused_without_training(suite):
    path = suite.path / "crucible.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(f'{text}\n[adapters.made]\nbackend = "local"\nrecipe = "recipes:train"\n')

    result = suite.run("-p", "no:crucible-training", "--crucible-adapter=made")

    suite.refuses(result, "*adapter 'made' with recipe needs the feature training, which `-p no:crucible-training`*")


def test_a_target_on_a_training_is_refused_without_training(suite):
    suite.test(
        'import pytest\n\n@pytest.mark.quality_target("loss_reduction >= 0.9")\n'
        '@pytest.mark.crucible(dataset="questions.jsonl")\ndef test_sums(sample, sampler):\n    pass\n'
    )

    result = suite.run("-p", "no:crucible-training", "--crucible-adapter=v2")

    suite.refuses(
        result, "*target 'loss_reduction >= 0.9' needs the feature training, which `-p no:crucible-training`*"
    )


@pytest.mark.parametrize(
    ("name", "table", "word"),
    [
        ("ensembles", {"ensemble": ["v1", "v2"]}, "ensemble"),
        ("factors", {"backend": "local", "recipe": "recipes:small", "seeds": 3}, "seeds"),
        (
            "factors",
            {"backend": "scripted", "script": "scripts:answer", "variables.prompt": "Be terse."},
            "variables.prompt",
        ),
    ],
)
def test_an_adapter_of_a_left_out_feature_is_refused_with_its_name(suite, name, table, word):
    suite.script("def answer(request):\n    return request.input\n")
    suite.adapters(
        {**{arm: {"backend": "recorded", "path": f"answers/{arm}.jsonl"} for arm in ("v1", "v2")}, "own": table}
    )

    result = suite.run("-p", f"no:crucible-{name}", "--crucible-adapter=own")

    suite.refuses(
        result,
        f"*adapter 'own' with {word} needs the feature {name}, which `-p no:crucible-{name}` leaves out: remove one of them",
    )


@pytest.mark.parametrize(
    ("adapter", "word"),
    [("guarded", "adapter 'guarded' with guard"), ("guard:inj", "adapter 'guard:inj' with backend 'guard'")],
)
def test_an_adapter_with_guards_is_refused_where_guards_are_left_out(suite, adapter, word):
    path = suite.path / "crucible.toml"
    text = path.read_text(encoding="utf-8")
    guarded = '[adapters.guarded]\nbackend = "recorded"\npath = "answers/v2.jsonl"\nguard = { before = ["inj"] }\n'
    path.write_text(f'{text}\n{guarded}[guards.inj]\nkind = "rules"\n')

    result = suite.run("-p", "no:crucible-guards", f"--crucible-adapter={adapter}")

    suite.refuses(
        result, f"*{word} needs the feature guards, which `-p no:crucible-guards` leaves out: remove one of them"
    )


def test_a_key_of_a_left_out_feature_on_the_command_line_is_refused(suite):
    result = suite.run("-p", "no:crucible-guards", "--crucible-adapter=v2", "-o", "crucible_redact=pii")

    suite.refuses(
        result, "crucible_redact needs the feature guards, which `-p no:crucible-guards` leaves out: remove one of them"
    )
