"""The table `[scorers]` of a project is checked before a scorer is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from adapter_contexts import context_in

from pytest_crucible.adapters.opener import Opener
from pytest_crucible.adapters.scorer_settings import configure_scorers
from pytest_crucible.metrics.models.scorers import Judge
from pytest_crucible.records.errors import SpecError


def no_judge(name: str) -> Judge:
    raise AssertionError(f"{name} is opened before a metric needs it")


def write_configuration(root: Path, table: str) -> None:
    (root / "crucible.toml").write_text(f"[scorers]\n{table}\n")
    configure_scorers(root, no_judge)()


@pytest.mark.parametrize(
    "table",
    [
        "",
        'judge = { adapter = "v2" }',
        'judge = { adapter = "v2" }\nentailment = { kind = "judge", premise = "sentence" }',
        'judge = { adapter = "v2" }\nentailment = { kind = "judge", votes = 3, combine = "mean" }',
        'similarity = { kind = "minilm", precision = "float32" }',
        'similarity = { kind = "embeddings", model = "all-mpnet-base-v2", revision = "abc" }',
    ],
    ids=["nothing", "judge", "entailment", "votes", "minilm", "embeddings"],
)
def test_valid_settings_open_nothing(tmp_path, table):
    write_configuration(tmp_path, table)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("speed = { x = 1 }", "[scorers] has 'speed': it takes entailment, similarity, judge, paraphraser"),
        ("judge = 5", '[scorers] has judge = 5: write judge = { adapter = "..." }'),
        ("judge = {}", "[scorers] has judge without 'adapter': write judge = { adapter = \"...\" }"),
        (
            'similarity = { kind = "magic" }',
            "[scorers] has similarity = {'kind': 'magic'}: write similarity = { kind = \"minilm\" } or "
            'similarity = { kind = "embeddings", model = "..." }',
        ),
        (
            'similarity = { kind = "minilm", model = "x" }',
            "[scorers] has 'model' in similarity: it takes precision",
        ),
        (
            'similarity = { kind = "minilm", precision = "int4" }',
            '[scorers] has precision = \'int4\' in similarity: write "bfloat16" or "float32"',
        ),
        (
            'entailment = { kind = "bert" }',
            "[scorers] has entailment = {'kind': 'bert'}: write entailment = { kind = \"nli\", model = \"...\" } or "
            'entailment = { kind = "judge" }',
        ),
        (
            'entailment = { kind = "nli" }',
            '[scorers] has entailment without \'model\': write entailment = { kind = "nli", model = "..." }',
        ),
        (
            'entailment = { kind = "nli", model = "m", premise = "word" }',
            '[scorers] has premise = \'word\' in entailment: write "abstract" or "sentence"',
        ),
        (
            'entailment = { kind = "judge", votes = "3" }',
            "[scorers] entailment has votes='3': expected a whole number from 1, for example votes=3",
        ),
        (
            'entailment = { kind = "judge", votes = 3, combine = "median" }',
            '[scorers] has combine = \'median\' in entailment: write "majority" or "mean"',
        ),
        (
            'entailment = { kind = "judge" }',
            '[scorers] has entailment of kind "judge" but no judge: add judge = { adapter = "NAME" } to the table',
        ),
    ],
)
def test_invalid_settings_are_refused_with_an_example(tmp_path, table, sentence):
    with pytest.raises(SpecError) as refused:
        write_configuration(tmp_path, table)

    assert str(refused.value) == sentence


def test_a_judge_is_an_adapter_with_its_model_and_parameters(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "scripts_of_judges.py").write_text("def answer(request):\n    return 'yes'\n")
    (tmp_path / "crucible.toml").write_text(
        '[adapters.j]\nbackend = "scripted"\nscript = "scripts_of_judges:answer"\nparameters = { temperature = 0.5 }\n'
    )
    opener = Opener(context_in(tmp_path))

    judge = opener.open_model("j", "[scorers]")

    assert judge.identity == f"{opener.models[0].identity} [('temperature', 0.5)]"
    assert "judge 'j' is simulated" in (judge.report() or "")


@pytest.mark.parametrize("name", ["recorded:v1.jsonl", "run:latest"])
def test_stored_answers_cannot_judge(tmp_path, name):
    (tmp_path / "v1.jsonl").write_text('{"sample_id": "a", "text": "yes"}\n')

    with pytest.raises(
        SpecError, match=f"judge '{name}' of .scorers. cannot answer prompts: name the adapter of a model"
    ):
        Opener(context_in(tmp_path)).open_model(name, "[scorers]")
