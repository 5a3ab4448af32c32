"""A real cross-encoder, tiny and trained here: its labels by name, its self-test, batches, truncation, and a suite judged by it."""

from __future__ import annotations

import asyncio
import json
import shutil
from fnmatch import fnmatch
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra [nli] is not installed")
pytest.importorskip("transformers", reason="the extra [nli] is not installed")

import tiny_nli

from pytest_crucible.metrics.models.local import NliScorer
from pytest_crucible.metrics.models.scorers import EntailmentScorer
from pytest_crucible.records.errors import SpecError

SHORT = ("In adults tea shortens colds.", "tea shortens colds.")
OPPOSITE = ("In adults tea shortens colds.", "tea prolongs colds.")
LONG = ("In adults tea shortens colds. " * 12, "tea shortens colds.")
SUITE = """
import pytest
from pytest_crucible import cns3

DOCUMENTS = {"7": {"title": "Tea", "abstract": ["In adults tea shortens colds."]}}
EXPECTED = {"claim": "tea shortens colds.", "label": "SUPPORT", "cited": ["7"], "evidence": {"7": [0]}}


def claims():
    return [{"id": str(k), "input": "?", "expected": EXPECTED, "documents": DOCUMENTS} for k in range(4)]


@pytest.mark.crucible(dataset=claims, metrics=["entailment", "entailment_pass"])
@pytest.mark.quality_target("entailment >= 0.5", "entailment_pass >= 0.45")
async def test_claims(sample):
    said, label = ("shortens", "supports") if sample.id != "3" else ("prolongs", "refutes")
    return f"CLAIM[c1]: tea {said} colds.\\nCLAIM[c2] (Document 7): It does.\\nRELATION: c2 {label} c1"
"""


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_nli.train(tmp_path_factory.mktemp("nli"))


def scorer(model: Path, **settings) -> NliScorer:
    return NliScorer(str(model), root=Path(), precision="float32", **settings)


def test_labels_of_outputs_are_read_from_their_names(model):
    alike, opposite = asyncio.run(scorer(model).score([SHORT, OPPOSITE]))

    assert alike.entailment > 0.75
    assert opposite.contradiction > 0.75
    assert alike.entailment + alike.neutral + alike.contradiction == pytest.approx(1)
    assert isinstance(scorer(model), EntailmentScorer)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ({0: "neutral", 1: "entailment", 2: "contradiction"}, "takes 6 of 6 plain pairs for their opposite (first: 'A man *"),
        ({0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}, "has the labels 'LABEL_0', 'LABEL_1', 'LABEL_2': use a model *"),
    ],
    ids=["swapped", "nameless"],
)  # fmt: skip
def test_a_model_whose_labels_lie_is_refused(model, tmp_path, names, sentence):
    shutil.copytree(model, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {
        "id2label": {str(k): name for k, name in names.items()},
        "label2id": {name: k for k, name in names.items()},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))

    with pytest.raises(SpecError) as refused:
        scorer(tmp_path)

    assert fnmatch(str(refused.value), f"model '*' {sentence}")


def test_pairs_that_are_scored_together_are_scored_as_alone(model):
    item = scorer(model)
    together = asyncio.run(item.score([LONG, SHORT, OPPOSITE] * 8))
    alone = [asyncio.run(scorer(model).score([pair]))[0] for pair in (LONG, SHORT, OPPOSITE)]

    assert [pytest.approx(x.entailment, abs=1e-5) for x in alone] == [x.entailment for x in together[:3]]
    assert item.read == 3  # each distinct pair once


def test_truncated_texts_are_counted_and_reported(model):
    item = scorer(model)
    metric = asyncio.run(item.score([LONG, SHORT]))

    assert [each.truncated for each in metric] == [True, False]
    assert item.report().startswith("entailment: 1 of 2 pairs were longer than the 48 tokens that the model reads, and")
    assert item.report() is None


def test_another_precision_premise_or_weight_is_another_scorer(model, tmp_path):
    shutil.copytree(model, tmp_path, dirs_exist_ok=True)
    (tmp_path / "generation_config.json").write_text("{}")
    identities = {
        scorer(model).identity,
        scorer(model, premise="sentence").identity,
        NliScorer(str(model), root=Path(), precision="bfloat16").identity,
        scorer(tmp_path).identity,
    }

    assert len(identities) == 4
    assert scorer(model).identity == scorer(model).identity


def test_a_directory_without_safetensors_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"has no \*.safetensors: save the model with safetensors"):
        scorer(tmp_path)


def test_targets_on_entailment_are_decided_where_a_model_is_configured(pytester, model):
    pytester.makepyfile(test_claims=SUITE)
    scorers = f'[scorers]\nentailment = {{ kind = "nli", model = "{model}" }}\n'
    (pytester.path / "crucible.toml").write_text(scorers)
    result = pytester.runpytest_inprocess("-p", "no:asyncio")

    result.stdout.fnmatch_lines(["entailment >= 0.5 *4*0*met*", "entailment_pass >= 0.45  1.000 *4*0*met*"])
    assert result.ret == 0


def test_a_missing_model_ends_the_session_before_any_request(pytester, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytester.makepyfile(test_claims=SUITE)
    (pytester.path / "crucible.toml").write_text('[scorers]\nentailment = { kind = "nli", model = "no/such" }\n')
    result = pytester.runpytest_inprocess("-p", "no:asyncio")

    result.stderr.fnmatch_lines(
        ["ERROR: *model 'no/such' is not a directory below *, and not available from the Hugging Face hub *"]
    )
    assert result.ret == 4
